"""The page as Jinja templates, escaped throughout; see `report.py` for what they are given."""

from __future__ import annotations

_REPORT = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{{ policy }}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{{ name }}</title>
<style>{{ style }}</style>
</head>
<body>
<header class="page">
  <p class="parent">{{ parent }} /</p>
  <h1>{{ name }}
    <span class="chip {{ 'good' if facts.status == 'finished' else 'bad' }}">{{ facts.status }}</span></h1>
  {% if facts.command %}
  <pre class="command">{{ facts.command }}</pre>
  {% endif %}
  {% if facts.headline %}
  <dl class="facts">
    {% for label, value in facts.headline %}
    <div><dt>{{ label }}</dt><dd>{{ value }}</dd></div>
    {% endfor %}
  </dl>
  {% endif %}
</header>
<main>
{% if notes %}
<section class="notes" aria-label="What is missing">
  <h2>What is missing</h2>
  <ul>
    {% for note in notes %}
    <li>{{ note }}</li>
    {% endfor %}
  </ul>
</section>
{% endif %}
{% if outcome %}
{% include "outcome" %}
{% endif %}
{% include "gallery" %}
{% for panel in panels %}
{% include "panel" %}
{% endfor %}
{% if facts.all or config %}
<section>
  <h2>Provenance</h2>
  {% if facts.all %}
  <details>
    <summary>Facts of the run</summary>
    <table class="plain">
      {% for key, value in facts.all %}
      <tr><th scope="row">{{ key }}</th><td>{{ value }}</td></tr>
      {% endfor %}
    </table>
  </details>
  {% endif %}
  {% if config %}
  <details>
    <summary>Resolved configuration</summary>
    <pre class="config">{{ config }}</pre>
  </details>
  {% endif %}
</section>
{% endif %}
</main>
<script>{{ script }}</script>
</body>
</html>
"""

_OUTCOME = """\
{% macro line(row) %}
<tr>
  <th scope="row">{{ row.metric }}</th>
  {% for cell in row.cells %}
  <td class="number">{{ cell.value }}<small>{{ cell.interval }}</small></td>
  {% endfor %}
  <td class="number{{ ' clear' if row.clear }}">{{ row.difference.value }}{{ '*' if row.clear }}<small>
    {{- row.difference.interval }}</small></td>
  <td class="plot">{{ row.plot }}</td>
</tr>
{% endmacro %}
<section>
  <h2>Before and after</h2>
  {% if outcome.lead %}
  <p class="lead">{{ outcome.lead }}</p>
  {% endif %}
  <div class="scroll">
  <table class="outcome{{ ' wide' if outcome.columns|length > 2 }}">
    <thead><tr>
      <th scope="col">metric</th>
      {% for column in outcome.columns %}
      <th scope="col" class="number">{{ column }}</th>
      {% endfor %}
      <th scope="col" class="number">difference</th>
      <th scope="col" class="plot"><i class="key before"></i>before <i class="key after"></i>after</th>
    </tr></thead>
    <tbody>
    {% for row in outcome.rows %}
    {{ line(row) }}
    {% endfor %}
    </tbody>
  </table>
  </div>
  {% if outcome.rest %}
  <details>
    <summary>{{ outcome.rest|length }} more metric{{ 's' if outcome.rest|length > 1 }}</summary>
    <div class="scroll">
    <table class="outcome{{ ' wide' if outcome.columns|length > 2 }}">
      <tbody>
      {% for row in outcome.rest %}
      {{ line(row) }}
      {% endfor %}
      </tbody>
    </table>
    </div>
  </details>
  {% endif %}
  <p class="foot">* the interval of the difference excludes 0. Plots show shares from 0 to 1, other metrics on
  their own range.</p>
</section>
"""

_PANEL = """\
{% macro charts(drawn) %}
<div class="charts">
  {% for chart in drawn %}
  <figure class="chart" data-chart="{{ chart.data }}">
    <figcaption><output></output>{{ chart.title }} <span class="unit">{{ chart.unit }}</span></figcaption>
    {{ chart.svg }}
    <ul class="legend">
      {% for colour, label, value in chart.legend %}
      <li><i class="{{ colour }}"></i>{{ label }} <b>{{ value }}</b></li>
      {% endfor %}
    </ul>
    {% if chart.note %}
    <p class="foot">{{ chart.note }}</p>
    {% endif %}
  </figure>
  {% endfor %}
</div>
{% endmacro %}
<section>
  <h2>{{ panel.title }}</h2>
  {% if panel.lead %}
  <p class="lead">{{ panel.lead }}</p>
  {% endif %}
  {% if panel.bar %}
  <div class="account">
    <svg viewBox="0 0 100 3" preserveAspectRatio="none" aria-hidden="true">
      {% for colour, part, start, width in panel.bar %}
      <rect class="{{ colour }}" x="{{ start }}" y="0" width="{{ width }}" height="3"></rect>
      {% endfor %}
    </svg>
    <ul class="legend">
      {% for colour, part, start, width in panel.bar %}
      <li><i class="{{ colour }}"></i>{{ part }} <b>{{ "%.0f"|format(width) }} %</b></li>
      {% endfor %}
    </ul>
  </div>
  {% endif %}
  {{ charts(panel.charts) }}
  {% if panel.rest %}
  <details>
    <summary>{{ panel.rest_title }}</summary>
    {{ charts(panel.rest) }}
  </details>
  {% endif %}
</section>
"""

_GALLERY = """\
{% from "answer" import picture, copy, answer, heading, other with context %}
{% if gallery.samples %}
<section id="gallery">
  <h2>The same held-out images over training</h2>
  <div class="steps">
    <label for="step">Step <output id="step-name">{{ gallery.steps[-1] }}</output></label>
    {% set end = gallery.steps|length - 1 %}
    <input id="step" type="range" min="0" max="{{ end }}" value="{{ end }}"
      data-steps="{{ gallery.steps|join(' ') }}">
    <button id="play" type="button">Play</button>
    <ul class="legend boxkey"><li><i class="truth"></i>truth</li><li><i class="pred"></i>answer</li></ul>
  </div>
  <div class="cards">
  {% for sample in gallery.samples %}
  <article class="card" data-sample>
    {{ heading(sample) }}
    <div class="body">
      <div class="stage">
        {{ picture(sample) }}
        {% for shot in sample.shots %}
        <div data-step="{{ shot.step }}"{{ ' hidden' if not loop.last }}>{{ shot.main.boxes }}</div>
        {% endfor %}
      </div>
      <div class="said">
        {% for shot in sample.shots %}
        <div data-step="{{ shot.step }}"{{ ' hidden' if not loop.last }}>
          {{ answer(shot.main) }}
          {% if shot.others %}
          <details>
            <summary>{{ shot.others|length }} more completion{{ 's' if shot.others|length > 1 }}</summary>
            {% for view in shot.others %}
            {{ other(sample, view) }}
            {% endfor %}
          </details>
          {% endif %}
        </div>
        {% endfor %}
      </div>
    </div>
    {% if sample.shots|length > 1 %}
    <div class="strip">
      {% for shot in sample.shots %}
      <button type="button" data-go="{{ shot.step }}" title="step {{ shot.step }}"
        {%- if loop.last %} aria-current="true"{% endif %}>{{ copy(sample, shot.main.thumb) }}
        <b>{{ shot.total }}</b><small>{{ shot.step }}</small></button>
      {% endfor %}
    </div>
    {% endif %}
  </article>
  {% endfor %}
  </div>
  <p class="foot">Under each small image: the reward, and the step.</p>
</section>
{% endif %}
{% if gallery.groups %}
<section>
  <h2>Training groups</h2>
  <p class="lead">All completions of one prompt, sampled at the given step.</p>
  <div class="groups">
  {% for sample in gallery.groups %}
  {% for shot in sample.shots %}
  <details{{ ' open' if loop.last and loop.first and sample == gallery.groups[-1] }}>
    <summary>Step {{ shot.step }}: {{ sample.question or sample.targets|join(', ') }}</summary>
    <div class="group" data-sample>
      <div class="other">
        <div class="stage">{{ picture(sample) }}{{ shot.main.boxes }}</div>
        <div class="said">{{ answer(shot.main) }}</div>
      </div>
      {% for view in shot.others %}
      {{ other(sample, view) }}
      {% endfor %}
    </div>
  </details>
  {% endfor %}
  {% endfor %}
  </div>
</section>
{% endif %}
"""

_ANSWER = """\
{% macro heading(sample) %}
<header>
  <h3><bdi>{{ sample.question or sample.targets|join(', ') }}</bdi></h3>
  <p><span class="chip">{{ sample.task }}</span> {{ sample.sample_id }}</p>
  {% if sample.truth_answer %}
  <p>Truth: <bdi>{{ sample.truth_answer }}</bdi></p>
  {% endif %}
</header>
{% endmacro %}

{% macro picture(sample) %}
{% if sample.image %}
<img class="shot{{ ' pixelated' if sample.pixelated }}" src="{{ sample.image.uri }}"
  width="{{ sample.size[0] }}" height="{{ sample.size[1] }}" alt="{{ sample.sample_id }}">
{% else %}
<svg class="shot lost" viewBox="0 0 {{ sample.size[0] }} {{ sample.size[1] }}" role="img"
  aria-label="image missing"></svg>
{% endif %}
{% endmacro %}

{% macro sum(equation) %}
<p class="equation"><span>total <b>{{ equation.total }}</b></span>
  {% for part in equation.summands %}
  <span>{{ '=' if loop.first }} {{ part.sign }} {{ part.weight }} &times; {{ part.name -}}
    &nbsp;<b>{{ part.value }}</b></span>
  {% endfor %}
</p>
{% if equation.remark %}
<p class="remark">{{ equation.remark }}</p>
{% endif %}
{% set explained = equation.summands|selectattr("detail")|list %}
{% if explained %}
<p class="detail">
  {% for part in explained %}
  {{ part.name }}: {{ part.detail }}{{ '; ' if not loop.last }}
  {% endfor %}
</p>
{% endif %}
{% endmacro %}

{% macro answer(view) %}
{{ sum(view.equation) }}
<p class="verdict"><span class="chip {{ view.tone }}">{{ view.parse_status or 'not parsed' }}</span>
  {% if view.status %}<span class="chip bad">{{ view.status }}</span>{% endif %} {{ view.facts }}</p>
{% if view.think %}
<h4>Think</h4>
<pre class="text think">{{ view.think }}</pre>
{% endif %}
<h4>Raw answer</h4>
<pre class="text">{{ view.answer }}</pre>
{% endmacro %}

{% macro other(sample, view) %}
<div class="other">
  {{ copy(sample, view.boxes) }}
  <div class="said">{{ answer(view) }}</div>
</div>
{% endmacro %}

{# The script gives every copy the picture of the first one, so that it is in the file once. #}
{% macro copy(sample, boxes) %}
<span class="copy{{ ' pixelated' if sample.pixelated }}">{{ boxes }}</span>
{% endmacro %}
"""

TEMPLATES = {
    "report": _REPORT,
    "outcome": _OUTCOME,
    "panel": _PANEL,
    "gallery": _GALLERY,
    "answer": _ANSWER,
}
