"use strict";

// The trained ConvS2S, computed here. The equations are those of chapter 11, the weights those of weights.js, with their
// names in the package; the matrices are normalised already (11.2).
const HopsModel = (() => {
  const { row, add, dot, sigmoid, softmax, argmax, average } = Tensors;
  const { things, first, model } = HOPS_MODEL;
  const decode = Tensors.reader(HOPS_MODEL);
  const get = (name) => decode(model[name]);
  const layer = (name) => Tensors.layer(get, name);

  // A function from the three states in a window, and the one of them whose position it is. A row of the matrix has
  // three weights for each dimension.
  function gatedConvolution(name) {
    const convolution = layer(`${name}.convolution`);
    return (window, h) => {
      const n = h.length;
      const both = convolution(Float32Array.from({ length: 3 * n }, (_, m) => window[m % 3][Math.floor(m / 3)]));
      return h.map((value, m) => Math.SQRT1_2 * (both[m] * sigmoid(both[n + m]) + value)); // (11.1)
    };
  }

  function embedding(side) {
    const [words, positions] = ["embedding", "position.embedding"].map((name) => get(`${side}.${name}.weight`));
    return (token, j) => add(row(words, token), row(positions, j)); // (11.4)
  }

  const [encoder, decoder] = ["encoder", "decoder"].map((side) => ({
    embed: embedding(side), toHidden: layer(`${side}.to_hidden`), toEmbedding: layer(`${side}.to_embedding`),
  }));
  const block = gatedConvolution("encoder.blocks.0");
  const layers = [0, 1].map((i) => {
    const name = `decoder.layers.${i}`;
    return { block: gatedConvolution(`${name}.block`), W_d: layer(`${name}.W_d`), W_c: layer(`${name}.W_c`) };
  });
  const output = layer("decoder.output");

  // The answer, its probability, and the weights of both layers over the words of the facts, which are pairs of things.
  function answer(facts, asked, withoutFirst = false) {
    const tokenOf = (thing) => first + things.indexOf(thing);
    const e = facts.flat().map((thing, j) => encoder.embed(tokenOf(thing), j));
    const hidden = e.map(encoder.toHidden);
    const zero = new Float32Array(hidden[0].length); // beyond the ends of a sentence
    const z = hidden.map((h, j) => encoder.toEmbedding(block([hidden[j - 1] ?? zero, h, hidden[j + 1] ?? zero], h)));
    const values = z.map((key, j) => add(key, e[j]).map((value) => Math.sqrt(z.length) * value)); // m √(1/m) (z + e)

    const g = decoder.embed(tokenOf(asked), 0);
    let h = decoder.toHidden(g);
    const weights = layers.map(({ block, W_d, W_c }, i) => {
      h = block([zero, zero, h], h);
      const query = add(W_d(h), g);
      const a = softmax(z.map((key) => dot(query, key)));
      const context = average(a, values);
      h = add(h, W_c(withoutFirst && i === 0 ? zero : context)); // (11.5)
      return a;
    });
    const probabilities = softmax(output(decoder.toEmbedding(h)));
    const token = argmax(probabilities);
    return { thing: things[token - first] ?? "nothing", probability: probabilities[token], weights };
  }

  return { answer };
})();
