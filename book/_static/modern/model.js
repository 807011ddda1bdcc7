"use strict";

// The arithmetic of chapter 12's figures, as the package computes it.
const Modern = (() => {
  // θ_t = base^(−2t/d) (12.2)
  const frequencies = (size, base = 10000) =>
    Array.from({ length: size / 2 }, (_, t) => base ** ((-2 * t) / size));

  // Pair t of the dimensions of a vector turns by position · θ_t (12.2)
  function rotate(x, position) {
    return frequencies(x.length).flatMap((theta, t) => {
      const [cos, sin] = [Math.cos(position * theta), Math.sin(position * theta)];
      const [first, second] = [x[2 * t], x[2 * t + 1]];
      return [first * cos - second * sin, first * sin + second * cos];
    });
  }

  const dot = (a, b) => a.reduce((sum, value, n) => sum + value * b[n], 0);

  // (R(iθ) q)ᵀ (R(jθ) k) / √d (12.1)
  const rotaryScore = (query, i, key, j) => dot(rotate(query, i), rotate(key, j)) / Math.sqrt(key.length);

  // m_a = 2^(−8a/h) (12.4)
  const slope = (a, heads) => 2 ** ((-8 * a) / heads);

  // q_iᵀ k_j / √d − m (i − j) (12.3)
  const alibiScore = (query, i, key, j, m) => dot(query, key) / Math.sqrt(key.length) - m * (i - j);

  // The cache after some tokens: the first keys, up to `sinks`, and those from `start` on.
  function kept(tokens, window = Infinity, sinks = 0) {
    const start = Math.max(0, tokens - window);
    const first = Math.min(sinks, start);
    return { first, start, count: first + tokens - start };
  }

  // The numbers of one token in one layer: keys and values of each head, or a latent vector and a rotated key (12.7)
  const numbers = ({ heads, size, latent, rotary }) => (latent ? latent + rotary : 2 * heads * size);

  const cacheBytes = (layers, numbersOfLayer, tokens = 1, bytesEach = 2) => layers * numbersOfLayer * tokens * bytesEach;

  return { frequencies, rotate, rotaryScore, slope, alibiScore, kept, numbers, cacheBytes };
})();
