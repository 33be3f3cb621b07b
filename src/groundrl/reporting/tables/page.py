"""A table as a page that stands alone: `table.html`."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import DictLoader, Environment, StrictUndefined

from groundrl.reporting.tables.table import Table, difference_text, headed, measured_text, published_text

_TEMPLATE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ table.id }}</title>
<style>
:root { color-scheme: light dark; --line: #8884; --soft: #777; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem; border-bottom: 1px solid var(--line); }
td span { display: block; white-space: nowrap; }
.published, .status { color: var(--soft); font-size: .85em; }
pre { overflow-x: auto; padding: .6rem; border: 1px solid var(--line); }
</style>
</head>
<body>
<h1>{{ table.id }}: {{ table.layout.title }}</h1>
<p>{{ table.layout.question }}</p>
<div class="wide"><table>
<thead><tr><th></th>{% for column in table.layout.columns %}
<th scope="col">{{ headed(column) }}</th>
{%- endfor %}</tr></thead>
<tbody>
{% for row, cells in rows %}
<tr><th scope="row">{{ row.label }}</th>
{% for cell in cells %}
<td{% if cell.notes %} title="{{ cell.notes | join('; ') }}"{% endif %}>
{%- if measured(cell) %}<span>{{ measured(cell) }}</span>{% endif %}
{%- if published(cell) %}<span class="published">published {{ published(cell) }}
{%- if difference(cell) %} ({{ difference(cell) }}){% endif %}</span>{% endif %}
<span class="status">{{ cell.status }}</span></td>
{% endfor %}
</tr>
{% endfor %}
</tbody>
</table></div>
<p>Measured mean over seeds [95 % interval over seeds], published number, difference where both were measured
alike, status.</p>
<ul>{% for mark, text in table.legend() %}<li><b>{{ mark }}</b>: {{ text }}</li>{% endfor %}</ul>
{% if table.missing() %}
<h2>Missing</h2>
<pre>{% for sweep, runs in table.missing() %}{{ sweep }}
{% for run in runs %}  {{ run }}
{% endfor %}{% endfor %}</pre>
{% endif %}
{% for name, lines in sections %}
{% if lines %}
<h2>{{ name }}</h2>
<ul>{% for line in lines %}<li>{{ line }}</li>{% endfor %}</ul>
{% endif %}
{% endfor %}
</body>
</html>
"""


def render_html(table: Table, claims: Sequence[str] = ()) -> str:
    """The table as HTML; every text is escaped, nothing is loaded. claims: one line each."""
    environment = Environment(
        loader=DictLoader({"table": _TEMPLATE}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("table").render(
        table=table,
        rows=list(zip(table.layout.rows, table.cells, strict=True)),
        headed=headed,
        measured=measured_text,
        published=published_text,
        difference=difference_text,
        sections=[
            ("Caveats", table.caveats()),
            ("Published in", table.sources()),
            ("Origin", [f"{name}: {text}" for name, text in table.origin.facts]),
            ("Claims", list(claims)),
        ],
    )
