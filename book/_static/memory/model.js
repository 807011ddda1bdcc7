"use strict";

// Four memories of facts, with the arithmetic of `companion.attention`. A fact is a key of norm 1 and a value; the
// equations are those of chapter 13. A state S has a row for each dimension of the keys and a column for each of the values.
const Memories = (() => {
  const { dot, softmax } = Tensors;
  const SCALE = 24; // of the cosines that softmax attention compares
  const SLOPE = 0.5; // of ALiBi: the steepest of eight heads

  const read = (q, S) => S[0].map((_, b) => dot(q, S.map((row) => row[b]))); // qᵀ S
  const write = (S, k, u) => S.map((row, a) => row.map((x, b) => x + k[a] * u[b])); // S + k uᵀ
  const fade = (S, decay) => S.map((row) => row.map((x) => decay * x)); // γ S

  // One write: the state after it, and what was written with the key, u.
  const WRITES = {
    linear: (S, { k, v }) => ({ S: write(S, k, v), u: v }), // (13.2) without φ and z
    decay: (S, { k, v }, decay) => ({ S: write(fade(S, decay), k, v), u: v }), // (13.3)
    delta(S, { k, v }) {
      const held = read(k, S);
      const u = v.map((x, b) => x - held[b]); // what k does not return yet
      return { S: write(S, k, u), u }; // (13.5) with β = 1
    },
  };

  // The states before and after the last of some facts, and what it wrote, from a state of `rows` and `columns`.
  function remember(name, facts, { rows, columns, decay }) {
    let last = { S: Array.from({ length: rows }, () => Array(columns).fill(0)) };
    for (const fact of facts) last = { ...WRITES[name](last.S, fact, decay), before: last.S };
    return last;
  }

  // Softmax attention keeps the facts themselves. ALiBi (12.3) prefers the later of two with one key.
  function attend(q, facts) {
    const scores = facts.map(({ k }, j) => SCALE * dot(q, k) - SLOPE * (facts.length - 1 - j));
    const weights = softmax(scores);
    return { weights, context: facts[0].v.map((_, b) => dot(weights, facts.map(({ v }) => v[b]))) };
  }

  return { SCALE, SLOPE, read, remember, attend };
})();
