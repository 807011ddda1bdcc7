// The bars of the attention bench: a row for each step from the scores to the output.
const benchBars = (() => {
  "use strict";

  const { element, group, line, text, disc, show, showPoint } = benchDrawing;
  const LEFT = 4;
  const COLUMN = 58; // of one key
  const WIDTH = 2 * LEFT + 6 * COLUMN;
  const HEAD = 48; // for the numbers of the keys
  const ROW = 116; // of bars, with its title
  const TITLE = 20;
  const LABEL = 19; // for the number at the end of a bar
  const GAP = 10; // below a row

  const FORMULAS = {
    dot: "q · k",
    scaled: "q · k / √2",
    cosine: "cos(q, k)",
    bilinear: "qᵀ W k",
    additive: "vᵀ tanh(W q + U k)",
    distance: "−|q − k|² / 2",
  };

  const middle = (position) => LEFT + COLUMN * (position - 0.5); // of a key's column

  // The position of the query, or the centre of its window, where the mask depends on it.
  function positionOfQuery({ mask, window, position, centre }) {
    if (window === "gaussian") return centre;
    return mask === "causal" || window !== "all" ? position : undefined;
  }

  // The query's position, or the centre of its window, below the keys.
  function positionMark(state) {
    const position = positionOfQuery(state);
    if (position === undefined) return [];
    const x = middle(position);
    const words = `${state.window === "gaussian" ? "p" : "i"} = ${position}`;
    const [side, away] = position < 4 ? ["right", 10] : ["left", -10];
    return [
      element("path", { class: "pointer", d: `M${x.toFixed(1)} 29l6 10h-12z` }),
      text(x + away, 40, words, `${side} of-pointer`),
    ];
  }

  // The keys by their numbers, and a mark at the query's position.
  function head(state, { visible }) {
    const keys = state.keys.map((_, j) => element("g", {
      class: visible[j] ? "key" : "key masked",
      transform: `translate(${middle(j + 1)} 14)`,
      "data-key": j + 1,
    }, ...disc(String(j + 1))));
    return group("head", ...keys, ...positionMark(state));
  }

  // What the mask and the temperature did, beside the title of their row.
  function maskedAndDivided({ temperature }, { visible }) {
    const count = visible.filter((one) => !one).length;
    const masked = count ? [`${count} masked`] : [];
    const divided = temperature === 1 ? [] : [`÷ τ = ${temperature}`];
    return [...masked, ...divided].join(", ") || "none masked";
  }

  // What made the weights, beside the title of their row.
  function softmaxAndSum({ choice, window }, { weights, largest }) {
    if (choice === "hard" && largest >= 0) return `softmax, argmax: key ${largest + 1}`;
    const sum = show(attention.sum(weights));
    return `${window === "gaussian" ? "× Gaussian" : "softmax"}, sum ${sum}`;
  }

  // The steps as rows: name, title, what is said beside it, numbers, and their range.
  function rowsOf(state, result) {
    const { scores, logits, visible, weights, proportions } = result;
    const left = logits.map((logit, j) => (visible[j] ? logit : undefined));
    const leftRange = rangeOf(left.filter(Number.isFinite));
    const rows = [
      ["scores", "Scores", FORMULAS[state.score], scores, rangeOf(scores)],
      ["logits", "Logits", maskedAndDivided(state, result), left, leftRange],
      ["weights", "Weights", softmaxAndSum(state, result), weights, [0, 1]],
    ];
    const how = state.seed === 1 ? ["Sample", "one key, by its weight"]
      : ["Samples", `${state.seed}, the last outlined`];
    const sampled = ["sampled", ...how, proportions, [0, 1]];
    return state.choice === "hard" ? [...rows, sampled] : rows;
  }

  // Zero is in the range, and small scores do not look large.
  const rangeOf = (values) => [Math.min(0, ...values), Math.max(0.5, ...values)];

  const title = (y, index, words, more) => [
    text(LEFT, y, `${index + 1}  ${words}`, "title"),
    text(LEFT + COLUMN * 6, y, more, "beside"),
  ];

  function row([name, words, more, values, range], index, visible) {
    const top = HEAD + index * ROW;
    const room = ROW - TITLE - GAP;
    const scale = (room - LABEL - (range[0] < 0 ? LABEL : 0)) / (range[1] - range[0]);
    const base = top + TITLE + LABEL + range[1] * scale;
    const columns = values.map((value, j) => element("g", {
      "data-key": j + 1,
      "data-value": String(value ?? "masked"),
      class: visible[j] ? "" : "masked",
    }, ...(value === undefined
      ? maskedColumn(middle(j + 1), top + TITLE + 4, room - 4)
      : bar(middle(j + 1), base, base - value * scale, value))));
    return group(`step ${name}`, ...title(top + TITLE - 6, index, words, more),
      line(LEFT, base, WIDTH - LEFT, base, { class: "base" }), ...columns);
  }

  // A bar around a column's middle, between two heights.
  const rectangle = (name, x, base, end, width = 34) => element("rect", {
    class: name, x: x - width / 2, width, rx: 2, y: Math.min(base, end),
    height: Math.abs(end - base),
  });

  const maskedColumn = (x, y, height) => [
    rectangle("covered", x, y, y + height),
    element("text", {
      class: "word", transform: `translate(${x} ${y + height / 2}) rotate(-90)`,
    }, "masked"),
  ];

  // A bar with its number at the end.
  const bar = (x, base, end, value) => [
    rectangle("bar", x, base, end),
    text(x, value < 0 ? end + LABEL - 4 : end - 5, show(value), "number"),
  ];

  // The weights before a Gaussian window multiplies them, as bars so wide that the numbers of
  // the weights stand within them, and its factor as a curve.
  function gaussianWindow({ centre, size }, { softmax }) {
    const [base, height] = [HEAD + 3 * ROW - GAP, ROW - TITLE - GAP - LABEL];
    const before = softmax.map((weight, j) =>
      rectangle("before", middle(j + 1), base, base - weight * height, 54));
    const points = Array.from({ length: 121 }, (_, index) => {
      const position = 0.5 + index / 20;
      const factor = attention.gaussian(position - centre, size);
      return `${middle(position).toFixed(1)} ${(base - factor * height).toFixed(1)}`;
    });
    return [...before, element("path", { class: "gaussian", d: `M${points.join("L")}` })];
  }

  // All rows, as a group of a width and a height.
  function draw(state, result) {
    const rows = rowsOf(state, result);
    const drawn = rows.map((one, index) => row(one, index, result.visible));
    if (state.window === "gaussian") drawn[2].prepend(...gaussianWindow(state, result));
    if (state.choice === "hard") {
      const largest = drawn[2].querySelector(`[data-key="${result.largest + 1}"]`);
      largest?.classList.add("argmax");
      const last = drawn[3].querySelector(`[data-key="${result.sampled + 1}"]`);
      if (state.seed > 1) last?.classList.add("last");
    }
    const end = HEAD + rows.length * ROW + TITLE - 4;
    const output = element("g", { class: "step output", "data-value": result.output.join(" ") },
      ...title(end, rows.length, "Output", ""),
      text(LEFT + COLUMN * 6, end, showPoint(result.output), "point"));
    const all = group("", head(state, result), ...drawn, output);
    return { drawn: all, width: WIDTH, height: end + 8 };
  }

  function make() {
    const svg = element("svg", { class: "bench-drawing bars", role: "img" });
    function update(state, result) {
      const { drawn, width, height } = draw(state, result);
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.replaceChildren(drawn);
    }
    return { svg, update };
  }

  return { draw, make };
})();
