// SPDX-License-Identifier: Apache-2.0
// Draws a dashboard of Grafana with answers of Prometheus: rows and panels where Grafana lays them out, units, legends and colors as Grafana shows them.
// Panels of a kind, and numbers in a unit, that it does not know are errors. The page defines `dashboard`, the dashboard's JSON, and `recordings`
// (e2e/suites/answers_test.go). Charts are uPlot's, which is what Grafana's own are.
"use strict";

// Grafana's grid: 24 columns, rows of 30 px, 8 px between panels.
const columns = 24, rowHeight = 30, gap = 8;
const font = '12px "DejaVu Sans", sans-serif';
const named = {
  green: "#73BF69", yellow: "#FADE2A", orange: "#FF9830", red: "#F2495C", blue: "#5794F2",
};
const palette = ["#73BF69", "#F2CC0C", "#8AB8FF", "#FF780A", "#F2495C", "#5794F2", "#B877D9", "#705DA0", "#37872D", "#FADE2A", "#447EBC", "#C15C17"];
// ColorBrewer's Oranges, which Grafana reverses on a dark ground.
const oranges = ["#7f2704", "#a63603", "#d94801", "#f16913", "#fd8d3c", "#fdae6b", "#fdd0a2", "#fee6ce", "#fff5eb"];

const element = (parent, tag, className, text) => {
  const made = parent.appendChild(document.createElement(tag));
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

// ---- Numbers, with the suffixes and the precision of Grafana's units.

// digits shows integers whole, and other numbers with three significant digits.
const digits = (value) => Number.isInteger(value) ? String(value) : value.toFixed(Math.min(20, Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))));

const scaled = (factor, suffixes) => (value) => {
  let i = 0;
  for (; Math.abs(value) >= factor && i < suffixes.length - 1; i++) value /= factor;
  return digits(value) + suffixes[i];
};

const counted = (symbol) => scaled(1000, ["", "K", "M", "B", "T"].map((prefix) => `${prefix} ${symbol}`));

// si also has prefixes for what is less than 1.
const si = (symbol) => (value) => {
  const prefixes = ["n", "µ", "m", "", "k", "M", "G", "T"];
  const power = value === 0 ? 0 : Math.min(4, Math.max(-3, Math.floor(Math.log10(Math.abs(value)) / 3)));
  return `${digits(value / 1000 ** power)} ${prefixes[power + 3]}${symbol}`;
};

const seconds = (value) => {
  const size = Math.abs(value);
  const [unit, name] = size === 0 ? [1, "s"] : [[1e-9, "ns", 1e-6], [1e-6, "µs", 1e-3], [1e-3, "ms", 1], [1, "s", 60], [60, "mins", 3600], [3600, "hours", 86400], [86400, "days", 604800],
    [604800, "weeks", 31536000], [31536000, "years", Infinity]].find(([, , below]) => size < below);
  return `${digits(value / unit)} ${name}`;
};

// fromNow is a time in ms relative to another.
const fromNow = (value, now) => {
  const away = Math.abs(value - now) / 1000;
  const several = (unit, name) => `${Math.round(away / unit)} ${name}s`;
  const text = away < 45 ? "a few seconds" : away < 90 ? "a minute" : away < 2700 ? several(60, "minute") : away < 5400 ? "an hour" : away < 79200 ? several(3600, "hour")
    : away < 129600 ? "a day" : away < 2246400 ? several(86400, "day") : away < 3888000 ? "a month" : away < 27648000 ? several(2629800, "month") : away < 47304000 ? "a year" : several(31557600, "year");
  return value > now ? `in ${text}` : `${text} ago`;
};

const units = {
  short: scaled(1000, ["", " K", " Mil", " Bil", " Tri"]),
  bytes: scaled(1024, [" B", " KiB", " MiB", " GiB"]),
  cps: counted("c/s"),
  reqps: counted("req/s"),
  pps: si("p/s"),
  bps: si("b/s"),
  s: seconds,
  percentunit: (value) => digits(Number((value * 100).toPrecision(12))) + "%",
  bool_yes_no: (value) => value ? "Yes" : "No",
  bool_on_off: (value) => value ? "On" : "Off",
  dateTimeFromNow: fromNow,
};

const formatOf = (unit = "short") => {
  if (!units[unit]) throw new Error(`unit ${unit} is not known here`);
  return units[unit];
};

// onAxis drops the zeros at the end of a number.
const onAxis = (text) => text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");

const clock = (time, withSeconds) => new Date(time * 1000).toISOString().slice(11, withSeconds ? 19 : 16);

const ruler = document.createElement("canvas").getContext("2d");
const textWidth = (text, inFont = font) => {
  ruler.font = inFont;
  return ruler.measureText(text).width;
};

// ---- Answers.

// answered are the answers to a panel's queries, each with its target and its recording.
const answered = (panel) => panel.targets.flatMap((target) => {
  for (const recording of recordings) {
    const answer = recording.answers.find(({query, instant}) => query === target.expr && instant === Boolean(target.instant));
    if (answer && answer.data.result.length) return [{target, recording, result: answer.data.result}];
  }
  return [];
});

const filled = (format, metric) => format.replace(/{{\s*(\w+)\s*}}/g, (_, label) => metric[label] ?? "");

const nameOf = (target, metric) => target.legendFormat ? filled(target.legendFormat, metric) || "Value"
  : `{${Object.entries(metric).map(([label, value]) => `${label}=${JSON.stringify(value)}`).join(", ")}}`;

const number = (text) => {
  const value = Number(text); // "NaN", "+Inf"
  return Number.isFinite(value) ? value : null;
};

// override is a property that a panel's overrides give to a field, by the field's name.
const override = (panel, name, id) => panel.fieldConfig.overrides.filter(({matcher}) => matcher.options === name).flatMap(({properties}) => properties).findLast((property) => property.id === id)?.value;

// stepsOf a recording are the times that it has.
const stepsOf = ({start, end, step}) => Array.from({length: Math.round((end - start) / step) + 1}, (_, i) => start + i * step);

// along puts the samples of a series at the times of its recording; a time without a sample is null.
const along = ({start, end, step}, samples) => {
  const values = Array(Math.round((end - start) / step) + 1).fill(null);
  for (const [time, text] of samples) values[Math.round((time - start) / step)] = number(text);
  return values;
};

// annotations in the time of a recording: of the dashboard's annotation queries, whose values are times in ms.
const annotations = (recording) => {
  const at = new Map();
  for (const {expr, iconColor} of dashboard.annotations.list) {
    for (const {metric, values} of recording.answers.find(({query}) => query === expr)?.data.result ?? []) {
      for (const [, text] of values) {
        const time = number(text) / 1000;
        if (time >= recording.start && time <= recording.end) at.set(`${time} ${iconColor} ${metric.run}`, {time, color: named[iconColor]});
      }
    }
  }
  return [...at.values()];
};

// ---- Panels. Each function fills the body of a panel, and returns false if there is nothing to show.

// chart adds a chart of uPlot with Grafana's axes, and lines where the dashboard has annotations.
const chart = (body, height, recording, {data, series, y, ySteps, ySplits, yValues, under = () => {}}) => {
  const axis = {stroke: "#ccccdc", font, grid: {stroke: "rgba(240, 250, 255, 0.09)", width: 1}, ticks: {stroke: "rgba(240, 250, 255, 0.09)", width: 1, size: 4}};
  const marks = annotations(recording);
  new uPlot({
    width: body.clientWidth, height, series: [{}, ...series], legend: {show: false}, cursor: {show: false}, padding: [8, 30, 0, 0], // half of a time's text
    scales: {x: {time: true, range: [recording.start, recording.end]}, y},
    axes: [
      {...axis, size: 26, gap: 6, space: 80, values: (_, times, __, ___, increment) => times.map((time) => clock(time, increment < 60))},
      {...axis, gap: 6, space: 28, incrs: ySteps, splits: ySplits, values: yValues, size: (_, texts) => 14 + Math.max(20, ...(texts ?? []).map((text) => textWidth(text ?? "")))},
    ],
    hooks: {
      drawClear: [under],
      draw: [(u) => {
        const {ctx, bbox} = u;
        ctx.save();
        for (const {time, color} of marks) {
          const x = Math.round(u.valToPos(time, "x", true)) + 0.5, bottom = bbox.top + bbox.height;
          ctx.strokeStyle = ctx.fillStyle = color;
          ctx.setLineDash([4, 4]);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bottom);
          ctx.stroke();
          ctx.beginPath();
          ctx.moveTo(x - 4, bottom + 6);
          ctx.lineTo(x + 4, bottom + 6);
          ctx.lineTo(x, bottom);
          ctx.fill();
        }
        ctx.restore();
      }],
    },
  }, data, body);
};

const calculations = {
  mean: {name: "Mean", of: (values) => values.reduce((sum, value) => sum + value, 0) / values.length},
  max: {name: "Max", of: (values) => Math.max(...values)},
  lastNotNull: {name: "Last *", of: (values) => values.at(-1)},
};

function timeseries(panel, body) {
  const answers = answered(panel), {defaults} = panel.fieldConfig, format = formatOf(defaults.unit);
  const recording = answers[0]?.recording;
  const series = answers.flatMap(({target, result}) => result.map(({metric, values}) => ({name: nameOf(target, metric), values: along(recording, values)})))
    .filter(({values}) => values.some((value) => value !== null));
  if (!series.length) return false;
  series.forEach((one, i) => { one.color = palette[i % palette.length]; });

  // Grafana gives a legend below the chart a third of the height, and lets it scroll.
  const legend = document.createElement("table"), line = 21, available = body.clientHeight;
  const shown = Math.min(series.length, Math.floor(available * 0.35 / line) - 1);
  legend.className = "legend";
  const head = legend.createTHead().insertRow(), calcs = panel.options.legend.calcs;
  for (const title of ["Name", ...calcs.map((calc) => calculations[calc].name)]) element(head, "th", "", title);
  const rows = legend.createTBody();
  for (const {name, values, color} of series.slice(0, shown)) {
    const row = rows.insertRow(), cell = element(row, "td"), known = values.filter((value) => value !== null);
    element(cell, "i").style.background = color;
    element(cell, "span", "", name);
    for (const calc of calcs) element(row, "td", "", format(calculations[calc].of(known)));
  }

  const top = defaults.unit === "percentunit" || defaults.unit === "s" ? 1 : 100; // of the scale, where all values are 0
  chart(body, available - (shown + 1) * line, recording, {
    data: [stepsOf(recording), ...series.map(({values}) => values)],
    series: series.map(({name, color}) => ({
      label: name, stroke: color, width: defaults.custom.lineWidth, fill: color + Math.round(defaults.custom.fillOpacity * 2.55).toString(16).padStart(2, "0"), points: {show: false},
      dash: override(panel, name, "custom.lineStyle")?.dash,
    })),
    y: {range: (_, low, high) => [defaults.min ?? low, defaults.max ?? (high > 0 ? uPlot.rangeNum(0, high, 0.1, true)[1] : top)]},
    ySteps: defaults.unit === "bytes" ? Array.from({length: 40}, (_, i) => 2 ** i) : undefined,
    yValues: (_, values) => values.map((value) => onAxis(format(value))),
  });
  body.append(legend);
  return true;
}

function heatmap(panel, body) {
  const [answer] = answered(panel);
  if (!answer) return false;
  const {recording, result} = answer, {options} = panel;
  // Buckets of a classic histogram contain those below them.
  const buckets = result.map(({metric, values}) => ({le: Number(metric.le.replace("+Inf", "Infinity")), values: along(recording, values)})).sort((a, b) => a.le - b.le);
  const cells = buckets.flatMap(({values}, row) => values.map((value, column) => ({row, column, count: value - (row ? buckets[row - 1].values[column] : 0)})))
    .filter(({count}) => count > options.filterValues.le);
  if (!cells.length) return false;
  const counts = cells.map(({count}) => count), least = Math.min(...counts), most = Math.max(...counts);
  const share = (count) => most > least ? ((count - least) / (most - least)) ** options.color.exponent : 1;
  const stops = oranges.map((color) => color.slice(1).match(/../g).map((part) => parseInt(part, 16)));
  const colorOf = (at) => {
    const i = Math.min(stops.length - 2, Math.floor(at * (stops.length - 1))), within = at * (stops.length - 1) - i;
    return `rgb(${stops[i].map((part, c) => Math.round(part + (stops[i + 1][c] - part) * within)).join(" ")})`;
  };

  const times = stepsOf(recording), format = formatOf(options.yAxis.unit), scale = 34;
  const every = Math.ceil(buckets.length / ((body.clientHeight - scale) / 24));
  chart(body, body.clientHeight - scale, recording, {
    data: [times, times.map(() => null)],
    series: [{points: {show: false}}],
    y: {range: [0, buckets.length]},
    ySplits: () => buckets.map((_, row) => row + 1).filter((row) => row % every === 0),
    yValues: (_, rows) => rows.map((row) => Number.isFinite(buckets[row - 1].le) ? onAxis(format(buckets[row - 1].le)) : "+Inf"),
    under: (u) => {
      const {ctx, bbox} = u;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
      ctx.clip();
      for (const {row, column, count} of cells) {
        const left = u.valToPos(times[column] - recording.step, "x", true), right = u.valToPos(times[column], "x", true);
        const bottom = u.valToPos(row, "y", true), high = u.valToPos(row + 1, "y", true);
        ctx.fillStyle = colorOf(share(count));
        ctx.fillRect(left, high, Math.max(1, right - left - options.cellGap), Math.max(1, bottom - high - options.cellGap));
      }
      ctx.restore();
    },
  });
  const key = element(body, "div", "key");
  element(key, "span", "", units.short(least));
  element(key, "b").style.background = `linear-gradient(to right, ${Array.from({length: 9}, (_, i) => colorOf((i / 8) ** options.color.exponent)).join(", ")})`;
  element(key, "span", "", units.short(most));
  return true;
}

function stat(panel, body) {
  const {defaults} = panel.fieldConfig, format = formatOf(defaults.unit);
  const values = answered(panel).flatMap(({target, result}) => result.map(({metric, value: [, text]}) => ({name: nameOf(target, metric), value: number(text)}))).filter(({value}) => value !== null);
  if (!values.length) return false;
  const onlyNames = panel.options.textMode === "name";
  const width = body.clientWidth / values.length - 16;
  for (const {name, value} of values) {
    const block = element(body, "div", "stat"), withName = !onlyNames && values.length > 1;
    if (withName) element(block, "small", "", name);
    const shown = element(block, "strong", "", onlyNames ? name : format(value));
    // As large as there is room for.
    const height = (body.clientHeight - (withName ? 20 : 0)) * 0.6;
    shown.style.fontSize = `${Math.floor(Math.min(56, height, 100 * width / textWidth(shown.textContent, '500 100px "DejaVu Sans", sans-serif')))}px`;
    const step = defaults.thresholds.steps.findLast((step) => step.value === null || step.value === undefined || value >= step.value);
    shown.style.color = named[step.color];
  }
  return true;
}

function table(panel, body) {
  const answers = answered(panel), many = panel.targets.length > 1;
  const records = new Map();
  for (const {target, recording, result} of answers) {
    for (const {metric: {__name__, ...labels}, value: [, text]} of result) {
      const key = JSON.stringify(Object.entries(labels).sort());
      if (!records.has(key)) records.set(key, {...labels, now: recording.end * 1000});
      records.get(key)[many ? `Value #${target.refId}` : "Value"] = number(text);
    }
  }
  if (!records.size) return false;
  const transformation = (id) => panel.transformations.find((one) => one.id === id).options;
  const pattern = new RegExp(transformation("filterFieldsByName").include.pattern), order = transformation("organize").indexByName;
  const fields = Object.keys(order).filter((field) => pattern.test(field)).sort((a, b) => order[a] - order[b]);
  const grid = element(body, "table", "rows"), head = grid.createTHead().insertRow(), rows = grid.createTBody();
  const numeric = (field) => field.startsWith("Value");
  for (const field of fields) element(head, "th", numeric(field) ? "number" : "", override(panel, field, "displayName") ?? field);
  for (const record of records.values()) {
    const row = rows.insertRow();
    for (const field of fields) {
      const value = record[field], cell = element(row, "td", numeric(field) ? "number" : "");
      if (value === undefined || value === null) continue;
      cell.textContent = numeric(field) ? formatOf(override(panel, field, "unit"))(value, record.now) : value;
      const mapped = override(panel, field, "mappings")?.map(({options}) => options[value]).find(Boolean);
      if (mapped) cell.style.color = named[mapped.color];
      if (override(panel, field, "links")) cell.classList.add("link");
    }
  }
  return true;
}

// ---- The page.

const kinds = {timeseries, heatmap, stat, table};

(() => {
  const header = element(document.body, "header");
  const main = recordings.toSorted((a, b) => b.answers.length - a.answers.length)[0];
  element(header, "h1", "", dashboard.title);
  if (main) element(header, "time", "", `${new Date(main.start * 1000).toISOString().slice(0, 10)} ${clock(main.start, true)} to ${clock(main.end, true)} UTC`);
  const variables = element(document.body, "nav");
  for (const {name, label, type, current} of dashboard.templating.list) {
    const one = element(variables, "label", "", label);
    element(one, "span", "", type === "datasource" ? "Prometheus" : main?.variables[name] ?? current?.text ?? "");
  }
  for (const {title} of dashboard.links) element(variables, "a", "", title);

  const grid = element(document.body, "main"), width = (grid.clientWidth + gap) / columns;
  grid.style.height = `${Math.max(...dashboard.panels.map(({gridPos}) => gridPos.y + gridPos.h)) * (rowHeight + gap) - gap}px`;
  for (const panel of dashboard.panels) {
    const {x, y, w, h} = panel.gridPos, section = element(grid, "section", panel.type);
    section.dataset.id = panel.id;
    Object.assign(section.style, {left: `${x * width}px`, top: `${y * (rowHeight + gap)}px`, width: `${w * width - gap}px`, height: `${h * (rowHeight + gap) - gap}px`});
    element(section, "h2", "", panel.title);
    if (panel.type === "row") continue;
    if (!kinds[panel.type]) throw new Error(`panels of type ${panel.type} are not known here`);
    formatOf(panel.fieldConfig.defaults.unit);
    const body = element(section, "div");
    if (!kinds[panel.type](panel, body)) {
      section.classList.add("empty");
      element(body, "p", "", "No data");
    }
  }
})();
