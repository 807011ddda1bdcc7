// The settings of the attention bench: their first values, the examples of the chapters, and
// how an address holds them, as in bench.html#score=cosine&mask=causal.
const benchState = (() => {
  "use strict";

  const REACH = 2; // the plane goes from −2 to 2 in both directions
  const NUMBER = /^-?\d{1,3}(\.\d{1,3})?$/;

  // How a setting is read from text, undefined if it is none of its values, and written; and
  // what its values are, in words.
  const oneOf = (names) => ({
    values: `one of ${names.join(", ")}`,
    read: (text) => (names.includes(text) ? text : undefined),
    write: (name) => name,
  });
  const number = (least, most, step) => ({
    least,
    most,
    step,
    values: `a ${step < 1 ? "" : "whole "}number from ${least} to ${most}`,
    read(text) {
      const value = NUMBER.test(text) ? Number(text) : NaN;
      const whole = step < 1 || Number.isInteger(value);
      return whole && least <= value && value <= most ? value : undefined;
    },
    write: (value) => String(Number(value.toFixed(3))),
  });
  const points = (count, coordinate) => ({
    values: `${count} pairs x,y from −${REACH} to ${REACH}, with semicolons between them`,
    read(text) {
      const found = text.split(";").map((pair) => pair.split(",").map(coordinate.read));
      const fits = found.length === count && found.every(
        (point) => point.length === 2 && !point.includes(undefined));
      return fits ? found : undefined;
    },
    write: (found) => found.map((point) => point.map(coordinate.write).join(",")).join(";"),
  });

  const FIRST = {
    score: "dot",
    temperature: 1,
    mask: "none",
    window: "all",
    size: 2,
    position: 4,
    centre: 3.5,
    choice: "soft",
    seed: 1,
    query: [1, 0.5],
    keys: [[1.7, 1], [0.2, 1.6], [-1.3, 0.8], [-1, -1.1], [0.5, -1.4], [0.5, 0.1]],
  };
  const N = FIRST.keys.length;
  const coordinate = number(-REACH, REACH, 0.01);
  const onePoint = points(1, coordinate);

  const SETTINGS = {
    score: oneOf(Object.keys(attention.SCORES)),
    temperature: number(0.05, 10, 0.01),
    mask: oneOf(Object.keys(attention.MASKS)),
    window: oneOf(Object.keys(attention.WINDOWS)),
    size: number(1, 4, 1),
    position: number(1, N, 1),
    centre: number(1, N, 0.1),
    choice: oneOf(["soft", "hard"]),
    seed: number(1, 999, 1),
    query: {
      values: `a pair x,y from −${REACH} to ${REACH}`,
      read: (text) => onePoint.read(text)?.[0],
      write: (point) => onePoint.write([point]),
    },
    keys: points(N, coordinate),
  };

  // The examples, by the sections of the bench's page that describe them.
  const EXAMPLES = {
    "which-key-matches": { score: "dot" },
    "average-or-sample": { temperature: 2, choice: "hard" },
    "a-gaussian-window": { window: "gaussian", centre: 3.5, size: 2, temperature: 2 },
    "sparse-patterns": { score: "scaled", window: "strided", size: 2, position: 6 },
  };

  const copy = (state) => JSON.parse(JSON.stringify(state));
  const first = (changes = {}) => copy({ ...FIRST, ...changes });

  // Hard attention samples from weights that sum to 1, which a Gaussian window does not leave.
  const canSample = (state) => state.window !== "gaussian";

  // The state that an address asks for, and in words what it gets wrong.
  function read(hash) {
    const state = first();
    const wrong = new Set();
    for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
      const value = Object.hasOwn(SETTINGS, name) ? SETTINGS[name].read(text) : undefined;
      if (value === undefined) {
        wrong.add(Object.hasOwn(SETTINGS, name) ? `${name} must be ${SETTINGS[name].values}`
          : "a setting has an unknown name");
      } else {
        state[name] = value;
      }
    }
    if (state.choice === "hard" && !canSample(state)) {
      state.choice = "soft";
      wrong.add("choice must be soft under a Gaussian window");
    }
    return { state, wrong: [...wrong] };
  }

  // The settings that differ from the first ones, as the end of an address.
  function write(state) {
    const changed = Object.keys(SETTINGS)
      .map((name) => [name, SETTINGS[name].write(state[name])])
      .filter(([name, text]) => text !== SETTINGS[name].write(FIRST[name]));
    return changed.map(([name, text]) => `${name}=${text}`).join("&");
  }

  return { REACH, SETTINGS, EXAMPLES, first, read, write, canSample };
})();
