"""The style sheet: light and dark, one column on a phone, colours told apart by colour-blind readers.

The series colours are those of Okabe and Ito ("Color universal design", 2008),
  lightened for the dark ground.
"""

from __future__ import annotations

STYLE = """
:root {
  --ground: #fafaf7; --paper: #ffffff; --ink: #1c1e21; --soft: #5d636b; --hair: #e3e3dd; --well: #f3f3ee;
  --good: #00694c; --good-well: #dff3ec; --bad: #9a3c00; --bad-well: #fbe9dd; --accent: #0068a3;
  --c0: #0072b2; --c1: #d55e00; --c2: #009e73; --c3: #b45c93; --c4: #c98500; --c5: #3f9fd6; --c6: #7a6a00;
  --c7: #6b4fa0; --cn: #a3a59f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #131518; --paper: #1b1e22; --ink: #e9e9e4; --soft: #a0a6ae; --hair: #31353b; --well: #24282d;
    --good: #7fe0bf; --good-well: #143a2f; --bad: #ffb284; --bad-well: #44260f; --accent: #6cc0f5;
    --c0: #56b4ff; --c1: #ff8f3f; --c2: #2fd09f; --c3: #e59bc8; --c4: #f2b838; --c5: #9ad7fb; --c6: #d6c94a;
    --c7: #b9a2ee; --cn: #6d7278;
  }
}
* { box-sizing: border-box; }
[hidden] { display: none !important; }
html { color-scheme: light dark; -webkit-text-size-adjust: 100%; }
body {
  margin: 0 auto; max-width: 1240px; padding: 36px 32px 72px; background: var(--ground); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  font-variant-numeric: tabular-nums;
}
h1, h2, h3, h4, p, ul, dl, dd, figure, pre { margin: 0; padding: 0; }
ul { list-style: none; }
h1 { font-size: 28px; line-height: 1.2; font-weight: 650; letter-spacing: -0.01em;
  overflow-wrap: anywhere; }
h1 .chip { vertical-align: 5px; margin-left: 6px; letter-spacing: 0; }
h2 { font-size: 19px; font-weight: 650; letter-spacing: -0.005em; margin: 0 0 14px; }
h3 { font-size: 15px; font-weight: 600; line-height: 1.35; overflow-wrap: anywhere; }
h4 { font-size: 12px; font-weight: 600; color: var(--soft); margin: 10px 0 3px; }
section { margin-top: 44px; }
pre, code { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
small { font-size: 12px; color: var(--soft); }
.parent { color: var(--soft); font-size: 14px; }
.lead, .foot { color: var(--soft); font-size: 13px; max-width: 100ch; }
.lead { margin: -8px 0 14px; }
.foot { margin-top: 10px; }
.chip {
  display: inline-block; padding: 1px 8px; border-radius: 10px; background: var(--well); color: var(--soft);
  font-size: 12px; font-weight: 550; line-height: 18px; white-space: nowrap;
}
.chip.good { background: var(--good-well); color: var(--good); }
.chip.bad { background: var(--bad-well); color: var(--bad); }
.command, .config {
  margin-top: 14px; padding: 9px 13px; background: var(--well); border-radius: 6px; font-size: 13px;
  white-space: pre-wrap; overflow-wrap: anywhere;
}
.config { max-height: 480px; overflow: auto; }
.facts { display: flex; flex-wrap: wrap; gap: 10px 34px; margin-top: 16px; }
.facts dt { font-size: 12px; color: var(--soft); }
.facts dd { font-weight: 550; overflow-wrap: anywhere; }
.notes { padding: 14px 18px; border-radius: 8px; background: var(--bad-well); color: var(--bad);
  margin-top: 28px; }
.notes h2 { font-size: 15px; margin-bottom: 4px; }
.notes li { overflow-wrap: anywhere; }

.scroll { overflow-x: auto; }
table { border-collapse: collapse; }
.outcome { width: 100%; background: var(--paper); border: 1px solid var(--hair); border-radius: 8px;
  border-collapse: separate; border-spacing: 0; }
.outcome th, .outcome td { padding: 8px 16px; text-align: left; font-weight: 400;
  border-top: 1px solid var(--hair); }
.outcome thead th { border-top: 0; font-size: 12px; color: var(--soft); white-space: nowrap; }
.outcome tbody th { font-weight: 550; min-width: 9.5em; overflow-wrap: anywhere; }
.outcome .number { text-align: right; white-space: nowrap; }
.outcome .number small { display: block; line-height: 1.3; }
.outcome .clear { font-weight: 650; }
.outcome .clear small { font-weight: 400; }
.outcome .plot { width: 196px; padding-right: 16px; }
.outcome .plot svg { display: block; width: 180px; height: 26px; }
.rail { stroke: var(--hair); stroke-width: 1; }
.span { stroke-width: 2.5; stroke-linecap: round; }
.span.before { stroke: var(--cn); }
.span.after { stroke: var(--c0); }
.point { stroke-width: 1.8; }
.point.before { fill: var(--paper); stroke: var(--cn); }
.point.after { fill: var(--c0); stroke: var(--c0); }
.key { display: inline-block; width: 9px; height: 9px; border-radius: 50%; border: 2px solid var(--cn);
  margin-right: 4px; vertical-align: -0.5px; }
.key.after { border-color: var(--c0); background: var(--c0); margin-left: 8px; }
.plain th, .plain td { text-align: left; vertical-align: top; padding: 3px 24px 3px 0; font-size: 13px; }
.plain th { font-weight: 400; color: var(--soft); white-space: nowrap; }
.plain td { overflow-wrap: anywhere; }
details + details { margin-top: 8px; }
summary { cursor: pointer; font-weight: 550; overflow-wrap: anywhere; }
details > table, details > .scroll, details > .charts { margin-top: 10px; }
.scroll + details, .charts + details { margin-top: 14px; }

.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr));
  gap: 16px; }
.chart { padding: 12px 14px 12px; background: var(--paper); border: 1px solid var(--hair);
  border-radius: 8px;
  min-width: 0; }
.chart svg { display: block; width: 100%; height: auto; margin-top: 6px; touch-action: pan-y; }
figcaption { font-weight: 600; font-size: 14px; overflow-wrap: anywhere; }
figcaption .unit, figcaption output { font-weight: 400; color: var(--soft); font-size: 12px; }
figcaption .unit { display: block; min-height: 18px; }
figcaption output { float: right; line-height: 21px; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 12.5px; color: var(--soft); }
.legend b { color: var(--ink); font-weight: 600; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 5px;
  vertical-align: -1px; }
.chart .legend { margin: 2px 0 0 2px; }
.tick { font-size: 11.5px; fill: var(--soft); }
.grid { stroke: var(--hair); stroke-width: 1; }
.axis { stroke: var(--cn); stroke-width: 1; }
.cursor { stroke: var(--soft); stroke-width: 1; }
.start { stroke: var(--soft); stroke-width: 1; stroke-dasharray: 3 3; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
.line.faint { stroke-width: 1; opacity: 0.3; }
.band { opacity: 0.18; }
.area { opacity: 0.82; }
.c0 { --s: var(--c0); } .c1 { --s: var(--c1); } .c2 { --s: var(--c2); } .c3 { --s: var(--c3); }
.c4 { --s: var(--c4); } .c5 { --s: var(--c5); } .c6 { --s: var(--c6); } .c7 { --s: var(--c7); }
.cn { --s: var(--cn); }
.line { stroke: var(--s); }
.band, .area, .dot, .account rect { fill: var(--s); }
.legend i { background: var(--s); }
.account { margin-bottom: 18px; }
.account svg { display: block; width: 100%; height: 18px; border-radius: 5px; margin-bottom: 7px; }

.steps { position: sticky; top: 0; z-index: 2; display: flex; flex-wrap: wrap; align-items: center;
  gap: 8px 18px;
  padding: 10px 0; background: var(--ground); margin-bottom: 8px; }
.steps label { font-weight: 600; min-width: 84px; }
.steps input { flex: 1 1 220px; accent-color: var(--accent); margin: 0; }
button { font: inherit; color: inherit; cursor: pointer; }
#play { border: 1px solid var(--hair); border-radius: 6px; background: var(--paper); padding: 2px 14px;
  min-width: 74px; }
#play:hover { border-color: var(--soft); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }
.boxkey i { width: 16px; height: 11px; background: none; border: 2px solid #00c98d; border-radius: 2px; }
.boxkey i.pred { border: 2px dashed #f0379e; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 520px), 1fr));
  gap: 16px; }
.card { display: flex; flex-direction: column; padding: 14px 16px 12px; background: var(--paper);
  min-width: 0;
  border: 1px solid var(--hair); border-radius: 8px; }
.card > header { margin-bottom: 10px; }
.card > header p { font-size: 12px; color: var(--soft); overflow-wrap: anywhere; }
.body, .other { display: grid; grid-template-columns: minmax(0, 240px) minmax(0, 1fr); gap: 16px;
  align-items: start; }
.body { margin-bottom: 12px; }
.stage { position: relative; border-radius: 4px; overflow: hidden; background: var(--well); }
.shot { display: block; width: 100%; height: auto; }
.lost { background: repeating-linear-gradient(45deg, var(--well) 0 8px, var(--hair) 8px 16px); }
.pixelated { image-rendering: pixelated; }
.boxes { position: absolute; inset: 0; width: 100%; height: 100%; }
.halo, .truth, .pred { fill: none; vector-effect: non-scaling-stroke; }
.halo { stroke: #101214; stroke-opacity: 0.45; stroke-width: 3.6px; }
rect.truth { stroke: #00e0a0; stroke-width: 2.2px; }
rect.pred { stroke: #ff5db5; stroke-width: 2.2px; stroke-dasharray: 6 4; }
.boxes text { font-weight: 600; paint-order: stroke; stroke: #101214; stroke-opacity: 0.8;
  stroke-linejoin: round; }
.other .boxes text { display: none; }
.tag-truth { fill: #4df5c4; }
.tag-pred { fill: #ffa3d6; }
.equation { font-size: 14px; }
.equation span { white-space: nowrap; }
.equation b { font-weight: 650; }
.detail, .remark, .verdict { font-size: 12px; color: var(--soft); overflow-wrap: anywhere; }
.remark { color: var(--bad); }
.verdict { margin-top: 6px; }
.text { max-height: 118px; overflow: auto; padding: 6px 9px; border-radius: 5px; background: var(--well);
  font-size: 12px;
  line-height: 1.45; white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: plaintext; }
.think { font-family: inherit; font-size: 13px; }
.said details { margin-top: 10px; font-size: 13px; }
.said .other { grid-template-columns: minmax(0, 120px) minmax(0, 1fr); margin-top: 10px; }
.strip { display: flex; gap: 6px; margin-top: auto; overflow-x: auto; padding: 3px; margin-left: -3px; }
.strip button { flex: 1 1 0; min-width: 44px; max-width: 76px; padding: 0 0 2px; border: 0;
  border-radius: 4px;
  background: none; text-align: center; line-height: 1.25; }
.strip button[aria-current] { box-shadow: 0 0 0 2px var(--accent); }
.strip b, .strip small { display: block; font-size: 11.5px; }
.strip b { font-weight: 600; margin-top: 2px; }
.copy { display: block; position: relative; aspect-ratio: 1;
  background: var(--well) var(--picture, none) 0 0 / 100% 100%;
  border-radius: 4px; overflow: hidden; }
.strip rect.truth, .strip rect.pred { stroke-width: 1.5px; }
.strip rect.pred { stroke-dasharray: 3 2; }
.strip .halo { stroke-width: 2.5px; }
.groups details { background: var(--paper); border: 1px solid var(--hair); border-radius: 8px;
  padding: 10px 16px; }
.group { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 480px), 1fr));
  gap: 22px 24px;
  margin: 14px 0 6px; }
.group .other { grid-template-columns: minmax(0, 150px) minmax(0, 1fr); }

@media (max-width: 760px) {
  body { padding: 22px 18px 48px; }
  .outcome th, .outcome td { padding: 7px 10px; }
  .outcome .plot { width: 120px; }
  .outcome.wide .plot { display: none; }
  .outcome .plot svg { width: 120px; }
}
@media (max-width: 520px) {
  .body, .other, .group .other { grid-template-columns: minmax(0, 1fr); }
  .outcome .plot { display: none; }
}
@media print {
  .steps { position: static; }
  .chart, .card { break-inside: avoid; }
}
"""
