"use strict";

// Patterns of attention over N positions: their masks, the tiles that a kernel computes for them, and which
// positions several layers of them reach.
const Patterns = (() => {
  const N = 64;
  const SIDE = 8; // of a tile; FlexAttention's have 128
  const POSITIONS = Array.from({ length: N }, (_, i) => i);
  const { local, atrous, causal, strided, fixed } = Rules;

  // The rule of every layer, or those of layers in turn, the first layer's first.
  const RULES = {
    local: ({ radius }) => [(i, j) => local(i, j, radius)], // (7.1)
    atrous: ({ rate }) => [(i, j) => atrous(i, j, rate)], // (7.1)
    sparse: ({ radius, rate }) => [(i, j) => local(i, j, radius) || atrous(i, j, rate)], // (7.1)
    "in turn": (sizes) => [...RULES.atrous(sizes), ...RULES.local(sizes)],
    strided: ({ stride }) => [(i, j) => strided(i, j, stride)],
    fixed: ({ stride, expressive }) => [(i, j) => fixed(i, j, stride, expressive)], // (7.4)
  };
  const ALWAYS_CAUSAL = ["strided", "fixed"];
  const isCausal = (state) => state.causal || ALWAYS_CAUSAL.includes(state.pattern);

  // The masks of the layers 1, 2, …, which repeat: whether position i of a layer attends to position j below it.
  const masks = (state) => RULES[state.pattern](state).map((rule) => POSITIONS.map((i) => POSITIONS.map((j) =>
    rule(i, j) && (!state.causal || causal(i, j)))));
  const ofLayer = (kinds, layer) => kinds[(layer - 1) % kinds.length];

  const scores = (mask) => mask.flat().filter(Boolean).length;

  // The positions in the sequence's order, or one class of the rate after the other.
  const order = ({ isSorted, rate }) =>
    (isSorted ? [...POSITIONS].sort((a, b) => (a % rate) - (b % rate) || a - b) : POSITIONS);

  // Which tiles contain an allowed score.
  function tiles(mask) {
    const found = Array.from({ length: N / SIDE }, () => Array(N / SIDE).fill(false));
    mask.forEach((row, i) => row.forEach((allowed, j) => {
      if (allowed) found[Math.floor(i / SIDE)][Math.floor(j / SIDE)] = true;
    }));
    return found;
  }

  // Of each pair (i, j) the fewest layers after which information from j is in i: the first boolean product of
  // the masks that has this entry. Infinity where none has.
  function fewest(kinds) {
    const found = POSITIONS.map((i) => POSITIONS.map((j) => (i === j ? 0 : Infinity)));
    const lists = kinds.map((mask) => mask.map((row) => POSITIONS.filter((j) => row[j])));
    for (let layer = 1, still = 0; still < kinds.length; layer++) {
      const reached = found.map((row) => row.map((layers) => layers < layer));
      still++;
      ofLayer(lists, layer).forEach((keys, i) => keys.forEach((k) => reached[k].forEach((isReached, j) => {
        if (!isReached || found[i][j] <= layer) return;
        found[i][j] = layer;
        still = 0;
      })));
    }
    return found;
  }

  const nearest = (positions, to) =>
    positions.reduce((best, k) => (Math.abs(k - to) < Math.abs(best - to) ? k : best));

  // A position of each layer, from query i at the top down to input j, each attending to the next, with few hops.
  function path(kinds, found, i, j, layers) {
    if (found[i][j] > layers) return [];
    const places = [i];
    for (let layer = layers; layer > 0; layer--) {
      const row = ofLayer(kinds, layer)[places.at(-1)];
      const open = POSITIONS.filter((k) => row[k] && found[k][j] < layer);
      const least = Math.min(...open.map((k) => found[k][j]));
      places.push(nearest(open.filter((k) => found[k][j] === least), j));
    }
    return places;
  }

  // The receptive field of query i, layer by layer from the top: positions, each with one above that attends to it.
  function field(kinds, i, layers) {
    const levels = [[{ at: i, above: i }]];
    for (let layer = layers; layer > 0; layer--) {
      const mask = ofLayer(kinds, layer);
      const above = levels.at(-1).map(({ at }) => at);
      levels.push(POSITIONS.filter((k) => above.some((p) => mask[p][k])).map((k) =>
        ({ at: k, above: nearest(above.filter((p) => mask[p][k]), k) })));
    }
    return levels;
  }

  return { N, SIDE, NAMES: Object.keys(RULES), ALWAYS_CAUSAL, isCausal, masks, ofLayer, scores, order, tiles, fewest,
    path, field };
})();
