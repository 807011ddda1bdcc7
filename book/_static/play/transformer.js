"use strict";

// Parts of the package's Transformers. The equations are those of chapter 6; `get` returns a parameter by its name.
const TransformerParts = (get) => {
  const { row, add, layerNorm } = Tensors;
  const layer = (name) => Tensors.layer(get, name);

  function norm(name) {
    const [scale, shift] = ["weight", "bias"].map((part) => get(`${name}.${part}`).values);
    return (x) => layerNorm(x, scale, shift);
  }

  function feedForward(name) {
    const [first, second] = [layer(`${name}.0`), layer(`${name}.2`)];
    return (x) => second(first(x).map((value) => Math.max(0, value))); // (6.5)
  }

  // Sinusoids of a position  (6.3)
  function positionalEncoding(position, d) {
    return Float32Array.from({ length: d }, (_, i) => {
      const angle = position * 10000 ** (-(i - (i % 2)) / d);
      return i % 2 ? Math.cos(angle) : Math.sin(angle);
    });
  }

  // From a token and its position to a vector.
  function embedding(name) {
    const E = get(`${name}.weight`);
    return (token, position) => add(row(E, token).map((value) => Math.sqrt(E.columns) * value), positionalEncoding(position, E.columns));
  }

  // Head `head` of so many, of a vector.
  function part(x, head, heads) {
    const size = x.length / heads;
    return x.subarray(head * size, (head + 1) * size);
  }

  return { layer, norm, feedForward, embedding, part };
};
