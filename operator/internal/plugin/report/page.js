"use strict";
// Tables sort by a click on a heading, and longer ones have a field that hides the rows without its text.
for (const table of document.querySelectorAll("table[data-rows]")) {
  const body = table.tBodies[0];
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => {
        const x = a.cells[column], y = b.cells[column];
        const n = Number(x.dataset.key), m = Number(y.dataset.key);
        const numbers = "key" in x.dataset && "key" in y.dataset;
        return numbers ? n - m : x.textContent.localeCompare(y.textContent, undefined, {numeric: true});
      };
      const rows = Array.from(body.rows).sort(order);
      body.append(...(down ? rows.reverse() : rows));
    });
  });
  if (Number(table.dataset.rows) < 8) continue;
  const field = document.createElement("input");
  field.type = "search";
  field.placeholder = "Search " + table.dataset.rows + " rows";
  field.setAttribute("aria-label", field.placeholder);
  field.addEventListener("input", () => {
    const text = field.value.toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(text);
  });
  table.before(field);
}
