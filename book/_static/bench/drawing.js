// What all drawings of the attention bench need: SVG elements, and numbers as they are read.
const benchDrawing = (() => {
  "use strict";

  const element = (name, attributes = {}, ...children) => {
    const rounded = Object.entries(attributes).map(([key, value]) =>
      [key, typeof value === "number" ? round(value) : value]);
    return Elements.svg(name, Object.fromEntries(rounded), ...children);
  };
  const round = (value) => Math.round(value * 100) / 100;
  const group = (name, ...children) => element("g", { class: name }, ...children);
  const line = (x1, y1, x2, y2, more = {}) => element("line", { x1, y1, x2, y2, ...more });
  const text = (x, y, words, name) => element("text", { x, y, class: name }, words);

  // A disc with a number or a letter in it.
  const disc = (words) => [
    element("circle", { class: "dot", r: 12 }),
    text(0, 0, words, "inside"),
  ];

  // A number as it is read: two decimals, a true minus sign, and no minus before zero.
  function show(value, digits = 2) {
    const written = value.toFixed(digits);
    return (Number(written) === 0 ? written.replace("-", "") : written).replace("-", "−");
  }
  const showPoint = (point) => `(${point.map((value) => show(value)).join(",\u00a0")})`;

  return { element, round, group, line, text, disc, show, showPoint };
})();
