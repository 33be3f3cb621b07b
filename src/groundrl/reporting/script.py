"""The page's script: the step slider of the gallery and the reading of curves under the pointer."""

from __future__ import annotations

SCRIPT = """
"use strict";
(() => {
  const all = (selector, root) => Array.from((root || document).querySelectorAll(selector));
  const format = (value) => {
    if (value === null || value === undefined) return "-";
    const size = Math.abs(value);
    if (size >= 1e6) return (value / 1e6).toFixed(1) + "M";
    if (size >= 1e4) return (value / 1e3).toFixed(1) + "k";
    if (size && size < 1e-3) return value.toExponential(1);
    return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 3);
  };

  const slider = document.getElementById("step");
  const name = document.getElementById("step-name");
  const play = document.getElementById("play");
  const steps = slider ? slider.dataset.steps.split(" ").map(Number) : [];

  const shown = (available, step) => {
    const earlier = available.filter((candidate) => candidate <= step);
    return earlier.length ? Math.max(...earlier) : Math.min(...available);
  };
  const show = (step) => {
    name.textContent = step;
    for (const card of all(".card[data-sample]")) {
      const parts = all("[data-step]", card);
      const chosen = shown(parts.map((part) => Number(part.dataset.step)), step);
      for (const part of parts) part.hidden = Number(part.dataset.step) !== chosen;
      for (const button of all("[data-go]", card)) {
        button.toggleAttribute("aria-current", Number(button.dataset.go) === chosen);
      }
    }
  };
  if (slider) {
    let timer = 0;
    const stop = () => { clearInterval(timer); timer = 0; play.textContent = "Play"; };
    slider.addEventListener("input", () => { stop(); show(steps[slider.value]); });
    play.addEventListener("click", () => {
      if (timer) return stop();
      if (Number(slider.value) === steps.length - 1) slider.value = 0;
      show(steps[slider.value]);
      play.textContent = "Stop";
      timer = setInterval(() => {
        if (Number(slider.value) >= steps.length - 1) return stop();
        slider.value = Number(slider.value) + 1;
        show(steps[slider.value]);
      }, 800);
    });
    for (const button of all("[data-go]")) {
      button.addEventListener("click", () => {
        stop();
        const index = steps.indexOf(Number(button.dataset.go));
        slider.value = index;
        show(steps[index]);
      });
    }
  }
  for (const sample of all("[data-sample]")) {
    const image = sample.querySelector("img.shot");
    if (image) sample.style.setProperty("--picture", "url(" + image.src + ")");
  }
  for (const copy of all(".copy")) {
    const box = copy.querySelector("svg").viewBox.baseVal;
    copy.style.aspectRatio = box.width + " / " + box.height;
  }

  const charts = all("figure[data-chart]").map((figure) => ({
    figure,
    data: JSON.parse(figure.dataset.chart),
    svg: figure.querySelector("svg"),
    cursor: figure.querySelector(".cursor"),
    output: figure.querySelector("output"),
    values: all(".legend b", figure),
  }));
  for (const chart of charts) chart.rest = chart.values.map((value) => value.textContent);

  const nearest = (xs, step) => {
    let low = 0;
    let high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= step) low = middle; else high = middle;
    }
    return step - xs[low] <= xs[high] - step ? low : high;
  };
  const point = (step) => {
    for (const chart of charts) {
      const data = chart.data;
      if (step === null) {
        chart.cursor.toggleAttribute("hidden", true);
        chart.output.textContent = "";
        chart.values.forEach((value, index) => { value.textContent = chart.rest[index]; });
        continue;
      }
      const at = data.series[0].x[nearest(data.series[0].x, step)];
      const x = data.left + ((at - data.low) / (data.high - data.low)) * (data.right - data.left);
      chart.cursor.toggleAttribute("hidden", false);
      chart.cursor.setAttribute("x1", x);
      chart.cursor.setAttribute("x2", x);
      chart.output.textContent = "step " + at;
      data.series.forEach((series, index) => {
        chart.values[index].textContent = format(series.y[nearest(series.x, at)]);
      });
    }
  };
  for (const chart of charts) {
    chart.svg.addEventListener("pointermove", (event) => {
      const box = chart.svg.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * chart.svg.viewBox.baseVal.width;
      const share = (x - chart.data.left) / (chart.data.right - chart.data.left);
      point(chart.data.low + Math.min(1, Math.max(0, share)) * (chart.data.high - chart.data.low));
    });
    chart.svg.addEventListener("pointerleave", () => point(null));
  }
})();
"""
