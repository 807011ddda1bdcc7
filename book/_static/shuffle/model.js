"use strict";

// The trained classifiers of a few words, computed here. Only the scores of their self-attention differ. The equations
// are those of chapter 8, the weights those of weights.js, with their names in the package.
const ShuffleModel = (() => {
  const { row, add, average, dot, join, softmax } = Tensors;
  const { words: vocabulary, heads, models } = SHUFFLE_MODEL;
  const decode = Tensors.reader(SHUFFLE_MODEL);
  const LAYER = "encoder.layers.0";

  // From the vectors of all positions to the score of position j in row i of a head.
  const SCORES = {
    "dot product"(get, { layer, part }) {
      const [W_Q, W_K] = ["W_Q", "W_K"].map((name) => layer(`${LAYER}.attention.${name}`));
      return (xs) => {
        const [queries, keys] = [xs.map(W_Q), xs.map(W_K)];
        const root = Math.sqrt(queries[0].length / heads);
        return (head, i, j) => dot(part(queries[i], head, heads), part(keys[j], head, heads)) / root; // (8.2)
      };
    },
    dense(get, { layer, part }) {
      const W_Q = layer(`${LAYER}.attention.W_Q`);
      const [hidden, output] = ["hidden", "output"].map((name) => {
        const [W, b] = ["weight", "bias"].map((kind) => get(`${LAYER}.attention.attention.${name}.${kind}`));
        return (x, head) => add(average(x, Array.from(x, (_, m) => row(W, head * x.length + m))), row(b, head)); // x W + b
      });
      return (xs) => {
        const rows = xs.map(W_Q).map((query) => Array.from({ length: heads }, (_, head) =>
          output(hidden(part(query, head, heads), head).map((x) => Math.max(0, x)), head))); // (8.3)
        return (head, i, j) => rows[i][head][j];
      };
    },
    random(get) {
      const R = get(`${LAYER}.attention.attention.R`);
      return () => (head, i, j) => row(R, head * R.columns + i)[j]; // (8.4)
    },
  };

  function build(kind) {
    const get = (name) => decode(models[kind][name]);
    const parts = TransformerParts(get);
    const { layer, norm, part } = parts;
    const embed = parts.embedding("encoder.embedding");
    const [beforeAttention, beforeFeedForward] = ["attention", "feed_forward"].map((name) => norm(`${LAYER}.${name}_residual.norm`));
    const [W_V, W_O] = ["W_V", "W_O"].map((name) => layer(`${LAYER}.attention.${name}`));
    const scoresOf = SCORES[kind](get, parts);
    const feedForward = parts.feedForward(`${LAYER}.feed_forward`);
    const finalNorm = norm("encoder.norm");
    const W = layer("W");

    // The weights of each head, and the probability of each class.
    return (words) => {
      let states = words.map((word, i) => embed(vocabulary.indexOf(word), i));
      const xs = states.map(beforeAttention);
      const [scores, values] = [scoresOf(xs), xs.map(W_V)];
      const weights = Array.from({ length: heads }, (_, head) =>
        words.map((_, i) => softmax(words.map((_, j) => scores(head, i, j))))); // (8.1)
      const context = (i) => join(...weights.map((rows, head) => average(rows[i], values.map((value) => part(value, head, heads)))));
      states = states.map((x, i) => add(x, W_O(context(i))));
      states = states.map((x) => add(x, feedForward(beforeFeedForward(x))));
      const mean = average(words.map(() => 1 / words.length), states.map(finalNorm));
      return { weights, probabilities: softmax([...W(mean)]) };
    };
  }

  return Object.fromEntries(Object.keys(models).map((kind) => [kind, build(kind)]));
})();
