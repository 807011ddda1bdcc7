// The plane of the attention bench: keys, a query to drag among them, and the output.
const benchPlane = (() => {
  "use strict";

  const { element, round, group, line, text, disc, show } = benchDrawing;
  const REACH = benchState.REACH;
  const SIDE = 320;
  const UNIT = 76; // one unit of the plane
  const CELLS = 40; // along one side, in which lines of equal score are looked for
  const AROUND = [ // where a label may stand beside its point
    [0, 32], [0, -22], [44, 5], [-44, 5], [30, 28], [-30, 28], [30, -18], [-30, -18],
  ];

  // By how much the scores on neighbouring lines differ.
  const SPACING = {
    dot: 1, scaled: 0.5, cosine: 0.25, bilinear: 1, additive: 0.5, distance: 1,
  };

  const toScreen = ([x, y]) => [SIDE / 2 + UNIT * x, SIDE / 2 - UNIT * y];
  const toPlane = (x, y) => [(x - SIDE / 2) / UNIT, (SIDE / 2 - y) / UNIT];
  const LOW = SIDE / 2 - UNIT * REACH;
  const HIGH = SIDE / 2 + UNIT * REACH;

  // The numbers of the axes: their places, words and classes.
  const TICKS = [-1, 1].flatMap((tick) => {
    const [x, y] = toScreen([tick, tick]);
    const words = show(tick, 0);
    return [[x, SIDE / 2 + 14, words, "below"], [SIDE / 2 - 5, y + 4, words, "left"]];
  });

  function axes() {
    const side = HIGH - LOW;
    return group("axes",
      element("rect", { x: LOW, y: LOW, width: side, height: side, rx: 6 }),
      line(LOW, SIDE / 2, HIGH, SIDE / 2),
      line(SIDE / 2, LOW, SIDE / 2, HIGH),
      ...TICKS.map((tick) => text(...tick)));
  }

  // Lines on which every key would have the same score; the higher, the stronger.
  function levelLines({ score, query }) {
    const spacing = SPACING[score];
    const at = (index) => -REACH + (2 * REACH * index) / CELLS;
    const indices = Array.from({ length: CELLS + 1 }, (_, index) => index);
    const corners = indices.map((row) => indices.map((column) => {
      const point = [at(column), at(row)];
      return { point, value: attention.SCORES[score](query, point) };
    }));
    const values = corners.flat().map((corner) => corner.value);
    const [least, most] = [Math.min(...values), Math.max(...values)];
    const levels = [];
    for (let n = Math.ceil(least / spacing); n * spacing <= most; n += 1) {
      levels.push(n * spacing);
    }
    return group("levels", ...levels.map((level) => element("path", {
      d: levelLine(corners, level),
      "stroke-opacity": 0.2 + (0.7 * (level - least)) / (most - least || 1),
    })));
  }

  // One line, as short pieces: each cell is crossed where the score passes the level.
  function levelLine(corners, level) {
    let path = "";
    for (let row = 0; row < CELLS; row += 1) {
      for (let column = 0; column < CELLS; column += 1) {
        const cell = [
          corners[row][column], corners[row][column + 1],
          corners[row + 1][column + 1], corners[row + 1][column],
        ];
        const crossings = cell.flatMap((from, side) => {
          const to = cell[(side + 1) % 4];
          return from.value < level === to.value < level ? [] : [crossing(from, to, level)];
        });
        for (let pair = 0; pair + 1 < crossings.length; pair += 2) {
          path += `M${crossings[pair]}L${crossings[pair + 1]}`;
        }
      }
    }
    return path;
  }

  function crossing(from, to, level) {
    const part = (level - from.value) / (to.value - from.value);
    const point = from.point.map((value, axis) => value + part * (to.point[axis] - value));
    return toScreen(point).map((value) => value.toFixed(1)).join(" ");
  }

  // A line from each key to the output, as thick as the weight that it has there.
  function weightLines({ keys }, { used, output }) {
    const lines = keys.map((key, j) => line(...toScreen(key), ...toScreen(output), {
      "stroke-width": 1 + 13 * used[j],
      "data-key": j + 1,
    }));
    return group("weight-lines", ...lines.filter((_, j) => used[j] >= 0.005));
  }

  // From the origin to the query, where the score depends on its direction and norm.
  function queryArrow({ score, query }) {
    const arrow = line(SIDE / 2, SIDE / 2, ...toScreen(query));
    return group("arrow", ...(score === "distance" ? [] : [arrow]));
  }

  // Where the mean of the samples went, from the first to the last.
  function path({ means }) {
    const points = means.map((mean) => toScreen(mean).map((value) => value.toFixed(1)).join(" "));
    const [cx, cy] = toScreen(means.at(-1));
    return group("means", element("path", { d: `M${points.join("L")}` }),
      element("circle", { cx, cy, r: 5 }));
  }

  // The output, with its mean under hard attention.
  function outputs(state, result) {
    const { output, expected } = result;
    const mark = (name, point) => {
      const [cx, cy] = toScreen(point);
      return group(name,
        element("circle", { class: "ring", cx, cy, r: 16 }),
        element("circle", { class: "centre", cx, cy, r: 4 }));
    };
    if (state.choice === "soft") return group("outputs", mark("output", output));
    const means = state.seed > 1 ? [path(result)] : [];
    return group("outputs", ...means, mark("mean", expected), mark("output", output));
  }

  // Names beside query and output, each where most room is.
  function labels(state, { output, expected, means }) {
    const hard = state.choice === "hard";
    const named = [
      ["query", state.query, "query"],
      [hard ? "sample" : "output", output, "output"],
      ...(hard ? [["soft", expected, "output"]] : []),
      ...(hard && state.seed > 1 ? [["mean", means.at(-1), "mean"]] : []),
    ];
    const points = [...state.keys, ...named.map(([, point]) => point)];
    const taken = [...points.map(toScreen), ...TICKS];
    return group("labels", ...named.map(([words, point, name]) => {
      const place = roomiest(toScreen(point), taken);
      taken.push(place);
      return text(place[0], place[1], words, name);
    }));
  }

  function roomiest([x, y], taken) {
    const places = AROUND.map(([right, down]) => [x + right, y + down])
      .filter(([left, top]) => left > 30 && left < SIDE - 30 && top > 18 && top < SIDE - 8);
    const room = ([left, top]) => Math.min(
      34, ...taken.map(([a, b]) => Math.hypot((left - a) / 1.6, top - 5 - b)));
    return places.reduce((best, place) => (room(place) > room(best) + 1 ? place : best));
  }

  function hatch() {
    return element("defs", {}, element("pattern", {
      id: "bench-hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)",
    }, element("rect", { class: "ground", width: 6, height: 6 }), line(0, 0, 0, 6)));
  }

  const handle = (name, words, more = {}) => element("g", { class: `handle ${name}`, ...more },
    element("circle", { class: "room", r: 22 }), ...disc(words));

  // What is drawn anew at every change, and above it handles that stay: the keys, the query.
  function make(keys) {
    const drawn = element("g", { "aria-hidden": "true" });
    const names = element("g", { "aria-hidden": "true" });
    const handles = [
      ...keys.map((_, j) => handle("key", String(j + 1), { "data-key": j + 1 })),
      handle("query", "q"),
    ];
    const svg = element("svg", {
      class: "bench-drawing plane", viewBox: `0 0 ${SIDE} ${SIDE}`,
    }, hatch(), drawn, ...handles, names);
    function update(state, result) {
      drawn.replaceChildren(
        axes(), levelLines(state), weightLines(state, result), queryArrow(state),
        outputs(state, result));
      names.replaceChildren(labels(state, result));
      [...state.keys, state.query].forEach((point, index) => {
        const [x, y] = toScreen(point).map(round);
        handles[index].setAttribute("transform", `translate(${x} ${y})`);
        handles[index].classList.toggle("masked", result.visible[index] === false);
      });
    }
    return { svg, handles, update };
  }

  return { SIDE, toPlane, make };
})();
