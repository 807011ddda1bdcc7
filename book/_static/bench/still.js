// Plane and bars as one picture that does not move, for readers without scripts. Only
// book/tools/bench_pictures.py loads this file.
function benchStill(state) {
  "use strict";
  const { element } = benchDrawing;
  const result = attention.attend(state);
  const plane = benchPlane.make(state.keys);
  plane.update(state, result);
  const bars = benchBars.draw(state, result);
  const side = benchPlane.SIDE;
  const size = { width: side + 8 + bars.width, height: bars.height };
  const attributes = { width: side, height: side, y: (bars.height - side) / 2 };
  for (const [name, value] of Object.entries(attributes)) plane.svg.setAttribute(name, value);
  for (const part of bars.drawn.querySelectorAll("[data-value]")) {
    part.removeAttribute("data-value");
  }
  bars.drawn.setAttribute("transform", `translate(${side + 8} 0)`);
  return element("svg", {
    class: "bench-still bench-drawing", viewBox: `0 0 ${size.width} ${size.height}`, ...size,
  }, element("rect", { class: "sheet", ...size }), plane.svg, bars.drawn);
}
