// SPDX-License-Identifier: Apache-2.0
// What is wrong with how a dashboard is drawn? An expression for the browser of the test: a list of texts, empty if nothing is. `dashboard`,
// `recordings` and `palette`, the colors of series, are the page's.
(() => {
  const wrong = [];
  const main = document.querySelector("main").getBoundingClientRect(), sections = Array.from(document.querySelectorAll("section"));
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth) wrong.push("the page is wider than the screen");
  if (sections.length !== dashboard.panels.length) wrong.push(`${sections.length} panels of ${dashboard.panels.length}`);
  const inside = (inner, outer) => inner.left >= outer.left - 0.5 && inner.right <= outer.right + 0.5 && inner.top >= outer.top - 0.5 && inner.bottom <= outer.bottom + 0.5;

  // The samples of each series that answers one of the panel's queries.
  const samples = (panel) => panel.targets.flatMap(({expr, instant}) => recordings.flatMap(({answers}) => answers.filter((answer) => answer.query === expr && answer.instant === Boolean(instant))))
    .flatMap(({data}) => data.result.map(({value, values}) => (values ?? [value]).filter(([, text]) => Number.isFinite(Number(text)))));
  const hasData = (panel) => samples(panel).some((series) => series.length > 0);
  // Points have no marks of their own: a line of some length has several.
  const drawsLine = (panel) => samples(panel).some((series) => series.length > 5);

  // In how many columns of pixels do a panel's charts have a color that is wanted?
  const pixels = (section, wanted) => {
    const found = new Set();
    for (const canvas of section.querySelectorAll("canvas")) {
      const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200 && wanted(data[i], data[i + 1], data[i + 2])) found.add(i / 4 % canvas.width);
    }
    return found.size;
  };
  // Annotations have colors of series: the four of a run take up to nine columns each.
  const annotated = 36, colors = palette.map((color) => color.slice(1).match(/../g).map((part) => parseInt(part, 16)));
  const marks = {
    timeseries: (section, panel) => !drawsLine(panel) || pixels(section, (...pixel) => colors.some((color) => color.every((part, i) => Math.abs(part - pixel[i]) < 12))) > annotated,
    heatmap: (section) => pixels(section, (red, green, blue) => red > green + 20 && green > blue + 20) > annotated,
    stat: (section) => section.querySelector("strong") !== null,
    table: (section) => Array.from(section.querySelectorAll("tbody td")).some((cell) => cell.textContent),
  };

  dashboard.panels.forEach((panel, i) => {
    const section = sections[i], box = section.getBoundingClientRect(), name = `${panel.id} ${panel.title}`, {x, y, w, h} = panel.gridPos;
    // A place has the gap to the next panel in it: the last column's is beyond the grid.
    const column = (main.width + 8) / 24, row = 38;
    const place = {left: main.left + x * column, right: main.left + (x + w) * column, top: main.top + y * row, bottom: main.top + (y + h) * row};
    if (!inside(box, place) || box.width < w * column - 9 || box.height < h * row - 9) wrong.push(`${name} is not in its place: ${JSON.stringify(box)}, ${JSON.stringify(place)}`);
    sections.slice(i + 1).forEach((other) => {
      const at = other.getBoundingClientRect();
      if (box.left < at.right && at.left < box.right && box.top < at.bottom && at.top < box.bottom) wrong.push(`${name} overlaps ${other.dataset.id}`);
    });
    if (section.querySelector("h2").textContent !== panel.title) wrong.push(`${name} has the title ${section.querySelector("h2").textContent}`);
    if (panel.type === "row") return;

    for (const part of section.querySelectorAll("canvas, .legend, .key, strong, small, p")) {
      if (!inside(part.getBoundingClientRect(), box)) wrong.push(`${name}: ${part.tagName} ${part.textContent.slice(0, 40)} leaves the panel`);
    }
    const says = section.textContent.includes("No data"), data = hasData(panel);
    if (says === data) wrong.push(`${name} ${data ? "has data and says No data" : "has no data and does not say so"}`);
    if (data && !marks[panel.type](section, panel)) wrong.push(`${name} shows nothing`);
  });
  return wrong;
})()
