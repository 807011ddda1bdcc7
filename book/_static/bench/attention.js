// The numbers of the attention bench. Beside each function stand the class or function of
// the package that computes the same, and the equation of the book.
const attention = (() => {
  "use strict";

  const PADDED = 2; // how many keys at the end are padding, where there is any

  // The scores that have parameters: fixed numbers, which the tests give to the package.
  const PARAMETERS = {
    bilinear: { W: [[0, -1], [1, 0]] }, // turns a key by 90°
    additive: {
      W: [[1, 0.5], [-0.5, 1], [0.8, -0.6]],
      U: [[1.2, 0], [0, 1.2], [-0.8, 0.6]],
      v: [1.5, 1.5, -1],
    },
  };

  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const dot = (a, b) => sum(a.map((number, index) => number * b[index]));
  const times = (matrix, vector) => matrix.map((row) => dot(row, vector));

  // a(q, k) of equation (3.1)
  const SCORES = {
    dot, // Dot
    scaled: (q, k) => dot(q, k) / Math.sqrt(q.length), // ScaledDot, (7.2)
    cosine: (q, k) => dot(q, k) / (Math.hypot(...q) * Math.hypot(...k) || 1), // Cosine
    bilinear: (q, k) => dot(q, times(PARAMETERS.bilinear.W, k)), // Bilinear, (5.4)
    additive(q, k) { // Additive, (2.2)
      const { W, U, v } = PARAMETERS.additive;
      const key = times(U, k);
      return dot(v, times(W, q).map((number, unit) => Math.tanh(number + key[unit])));
    },
    distance: (q, k) => -((q[0] - k[0]) ** 2 + (q[1] - k[1]) ** 2) / 2, // a Gaussian kernel
  };

  // Whether a query at position i may attend to the key at position j; both count from 0.
  const MASKS = {
    none: () => true,
    padding: (i, j, n) => j < n - PADDED,
    causal: Rules.causal,
  };

  // The same for patterns of a size, (7.1) and (7.4). The Gaussian window lies around a centre p instead of i.
  const WINDOWS = {
    all: () => true,
    local: Rules.local,
    atrous: Rules.atrous,
    strided: Rules.strided,
    fixed: (i, j, size) => Rules.fixed(i, j, size),
    gaussian: Rules.local, // LocalP
  };

  // masked_softmax, (3.2): without any visible key, all weights are 0.
  function maskedSoftmax(scores, visible) {
    const largest = Math.max(...scores.filter((score, j) => visible[j]));
    const powers = scores.map((score, j) => (visible[j] ? Math.exp(score - largest) : 0));
    const total = sum(powers);
    return powers.map((power) => (total ? power / total : 0));
  }

  // The factor of LocalP after the softmax, (5.7), with σ = D / 2.
  const gaussian = (distance, size) => Math.exp(-2 * (distance / size) ** 2);

  // The context, (3.3).
  const average = (weights, values) =>
    [0, 1].map((axis) => dot(weights, values.map((value) => value[axis])));

  const oneHot = (index, n) => Array.from({ length: n }, (_, j) => (j === index ? 1 : 0));

  // A number from 0 to 1 from a seed: the generator mulberry32.
  function generator(seed) {
    let state = seed | 0;
    return () => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
  }

  // Random times, exponentially distributed, one for each key.
  function clocks(seed, n) {
    const next = generator(seed);
    return Array.from({ length: n }, () => -Math.log(1 - next()));
  }

  // HardAttention: the clock of key j, run α_j times as fast, rings first with probability α_j.
  function sample(weights, seed) {
    const rates = clocks(seed, weights.length).map((time, j) => weights[j] / time);
    return indexOfLargest(rates);
  }

  // The means of the first 1, 2, … values that hard attention samples, by the seeds 1, 2, …, and how often each was.
  function sampleMany(weights, values, count) {
    const counts = values.map(() => 0);
    const totals = [0, 0];
    const means = [];
    for (let seed = 1; seed <= count; seed += 1) {
      const sampled = sample(weights, seed);
      if (sampled >= 0) {
        counts[sampled] += 1;
        values[sampled].forEach((value, axis) => { totals[axis] += value; });
      }
      means.push(totals.map((total) => total / seed));
    }
    return { means, proportions: counts.map((times) => times / count) };
  }

  // The index of the largest of numbers that are not negative; −1 if all are 0.
  function indexOfLargest(numbers) {
    const largest = Math.max(...numbers);
    return largest > 0 ? numbers.indexOf(largest) : -1;
  }

  // All steps for one query: scores, mask, weights, output. Positions count from 1 here.
  function attend(state) {
    const { query, keys, size, temperature } = state;
    const n = keys.length;
    const hasCentre = state.window === "gaussian";
    const centre = state.centre - 1;
    const i = state.position - 1;
    const scores = keys.map((key) => SCORES[state.score](query, key));
    const visible = keys.map((_, j) =>
      MASKS[state.mask](i, j, n) && WINDOWS[state.window](hasCentre ? centre : i, j, size));
    const logits = scores.map((score) => score / temperature);
    const factors = keys.map((_, j) => (hasCentre ? gaussian(j - centre, size) : 1));
    const softmax = maskedSoftmax(logits, visible);
    const weights = softmax.map((weight, j) => weight * factors[j]);
    const largest = indexOfLargest(weights);
    const sampled = state.choice === "hard" ? sample(weights, state.seed) : -1;
    const used = state.choice === "hard" ? oneHot(sampled, n) : weights;
    return {
      ...(state.choice === "hard" ? sampleMany(weights, keys, state.seed) : {}),
      scores,
      visible,
      logits,
      softmax,
      weights,
      largest,
      sampled,
      used, // the weights of the output: one-hot for hard attention
      output: average(used, keys),
      expected: average(weights, keys),
    };
  }

  return { PADDED, PARAMETERS, SCORES, MASKS, WINDOWS, attend, clocks, gaussian, sum };
})();
