// SPDX-License-Identifier: Apache-2.0
// What is wrong with how a report is shown? An expression for the browser of the test: a list of texts, empty if nothing is.
(() => {
  const wrong = [];
  const width = document.documentElement.clientWidth;
  const shown = (element) => element.checkVisibility({visibilityProperty: true}) && element.getClientRects().length > 0;
  const nameOf = (element) => element.tagName.toLowerCase() + (element.getAttribute("class") ? "." + element.getAttribute("class") : "") + " " + JSON.stringify(element.textContent.trim().slice(0, 40));

  // Nothing is wider than the page, but for what scrolls by itself.
  if (document.documentElement.scrollWidth > width) wrong.push(`the page is ${document.documentElement.scrollWidth} px wide, of ${width}`);
  const scrolls = (element) => element && (["auto", "scroll"].includes(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
  for (const element of document.body.querySelectorAll("*")) {
    if (shown(element) && element.getBoundingClientRect().right > width + 0.5 && !scrolls(element.parentElement)) wrong.push(`${nameOf(element)} ends at ${element.getBoundingClientRect().right} px, of ${width}`);
  }

  // Texts and lines differ enough from the ground under them (WCAG 2.2, 1.4.3 and 1.4.11).
  const parse = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = (color) => {
    const [r, g, b] = parse(color).map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor, parts = parse(color);
      if (parts.length < 4 || parts[3] > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const contrast = (color, element) => {
    const [a, b] = [luminance(color), luminance(ground(element))].sort((a, b) => b - a);
    return (a + 0.05) / (b + 0.05);
  };
  const texts = new Set();
  for (const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT); walker.nextNode();) {
    const element = walker.currentNode.parentElement;
    if (walker.currentNode.data.trim() && element.tagName !== "SCRIPT" && shown(element)) texts.add(element);
  }
  for (const element of texts) {
    const style = getComputedStyle(element);
    const ratio = contrast(element.namespaceURI.endsWith("svg") ? style.fill : style.color, element);
    if (ratio < 4.5) wrong.push(`${nameOf(element)} has a contrast of ${ratio.toFixed(1)}`);
  }

  // Charts have lines, inside of their axes, and labels that can be read and do not overlap.
  for (const svg of document.querySelectorAll("figure > svg")) {
    const title = svg.getAttribute("aria-label"), box = svg.viewBox.baseVal, scale = svg.getScreenCTM().a;
    const lines = Array.from(svg.querySelectorAll("polyline, circle"));
    if (!lines.length) wrong.push(`${title}: no line`);
    for (const line of lines) {
      const at = line.getBBox(), style = getComputedStyle(line);
      if (at.x < 0 || at.y < 0 || at.x + at.width > box.width || at.y + at.height > box.height) wrong.push(`${title}: a line leaves the picture: ${JSON.stringify(at)}`);
      if (line.tagName === "polyline" && at.width < 1) wrong.push(`${title}: a line without width`);
      if (contrast(style.stroke, svg) < 3) wrong.push(`${title}: a line has a contrast of ${contrast(style.stroke, svg).toFixed(1)}`);
    }
    const labels = Array.from(svg.querySelectorAll("text"));
    labels.forEach((label, i) => {
      const at = label.getBoundingClientRect(), frame = svg.getBoundingClientRect();
      const size = parseFloat(getComputedStyle(label).fontSize) * scale;
      if (size < 7.5) wrong.push(`${title}: label ${label.textContent} is ${size.toFixed(1)} px high`);
      if (at.left < frame.left - 0.5 || at.right > frame.right + 0.5) wrong.push(`${title}: label ${label.textContent} leaves the picture`);
      const other = labels[i + 1] && labels[i + 1].getBoundingClientRect();
      if (other && at.left < other.right && other.left < at.right && at.top < other.bottom && other.top < at.bottom) wrong.push(`${title}: labels ${label.textContent} and ${labels[i + 1].textContent} overlap`);
    });
  }

  // What sections have.
  for (const section of document.querySelectorAll("section")) {
    if (!section.querySelector("p, figure, table, pre")) wrong.push(`section ${section.id} is empty`);
  }
  return wrong;
})()
