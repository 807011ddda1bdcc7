"use strict";

// Vectors and matrices for the models that compute in a page, and their weights from a script.
const Tensors = (() => {
  // Of a script with weights: a function from one of its parameters to a matrix. A character of
  // `weights` is a multiple of its row's scale, and a character of `scales` the scale.
  function reader({ alphabet, largest, octave, smallest }) {
    const order = new Uint8Array(128); // of each character in the alphabet
    [...alphabet].forEach((character, i) => {
      order[character.charCodeAt(0)] = i;
    });
    return ({ shape, scales, weights }) => {
      const columns = shape[shape.length - 1];
      const values = new Float32Array(weights.length);
      let place = 0;
      for (let i = 0; i < scales.length; i++) {
        const scale = 2 ** ((order[scales.charCodeAt(i)] + smallest) / octave);
        for (let j = 0; j < columns; j++) {
          values[place] = (order[weights.charCodeAt(place)] - largest) * scale;
          place++;
        }
      }
      return { rows: scales.length, columns, values };
    };
  }

  function row(matrix, i) {
    return matrix.values.subarray(i * matrix.columns, (i + 1) * matrix.columns);
  }

  // W x + b
  function linear({ rows, columns, values }, vector, bias) {
    const result = new Float32Array(rows);
    let place = 0;
    for (let i = 0; i < rows; i++) {
      let sum = bias ? bias.values[i] : 0;
      for (let j = 0; j < columns; j++) sum += values[place++] * vector[j];
      result[i] = sum;
    }
    return result;
  }

  // The layer of this name: x ↦ W x + b
  function layer(get, name) {
    const [W, b] = ["weight", "bias"].map((part) => get(`${name}.${part}`));
    return (x) => linear(W, x, b);
  }

  const add = (x, y) => x.map((value, i) => value + y[i]);

  function join(...vectors) {
    const joined = new Float32Array(vectors.reduce((length, vector) => length + vector.length, 0));
    let start = 0;
    for (const vector of vectors) {
      joined.set(vector, start);
      start += vector.length;
    }
    return joined;
  }

  function dot(a, b) {
    return a.reduce((sum, value, i) => sum + value * b[i], 0);
  }

  function sigmoid(x) {
    return 1 / (1 + Math.exp(-x));
  }

  function softmax(scores) {
    const largest = Math.max(...scores);
    const exponentials = scores.map((score) => Math.exp(score - largest));
    const sum = exponentials.reduce((total, value) => total + value, 0);
    return exponentials.map((value) => value / sum);
  }

  function logSoftmax(logits) {
    const largest = Math.max(...logits);
    const total = logits.reduce((sum, logit) => sum + Math.exp(logit - largest), 0);
    return Array.from(logits, (logit) => logit - largest - Math.log(total));
  }

  function argmax(logits) {
    return logits.reduce((best, logit, i) => (logit > logits[best] ? i : best), 0);
  }

  // The same in random order.
  function shuffled(list) {
    return list.map((one) => [Math.random(), one]).sort(([a], [b]) => a - b).map(([, one]) => one);
  }

  // PyTorch's LayerNorm, with its ε.
  function layerNorm(x, scale, shift) {
    const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
    const variance = x.reduce((sum, value) => sum + (value - mean) ** 2, 0) / x.length;
    return x.map((value, i) => ((value - mean) / Math.sqrt(variance + 1e-5)) * scale[i] + shift[i]);
  }

  // Σ_j α_j h_j
  function average(weights, vectors) {
    const result = new Float32Array(vectors[0].length);
    weights.forEach((weight, j) => {
      for (let m = 0; m < result.length; m++) result[m] += weight * vectors[j][m];
    });
    return result;
  }

  // PyTorch's gated recurrent unit with the parameters of this name: a function from an input and a state to the next state.
  function gru(get, name, suffix = "") {
    const [ih, hh, ihBias, hhBias] = ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map((part) => get(`${name}.${part}${suffix}`));
    return (input, state = new Float32Array(hh.columns)) => {
      const n = state.length;
      const fromInput = linear(ih, input, ihBias);
      const fromState = linear(hh, state, hhBias);
      return state.map((old, i) => {
        const reset = sigmoid(fromInput[i] + fromState[i]);
        const update = sigmoid(fromInput[n + i] + fromState[n + i]);
        const proposal = Math.tanh(fromInput[2 * n + i] + reset * fromState[2 * n + i]);
        return (1 - update) * proposal + update * old;
      });
    };
  }

  // The same in both directions: a function from vectors to their states h_j = [→h_j; ←h_j].
  function bidirectional(get, name) {
    const [ahead, behind] = ["_l0", "_l0_reverse"].map((suffix) => gru(get, name, suffix));
    const run = (step, vectors) => {
      let state;
      return vectors.map((vector) => (state = step(vector, state)));
    };
    return (vectors) => {
      const back = run(behind, [...vectors].reverse()).reverse();
      return run(ahead, vectors).map((state, j) => join(state, back[j]));
    };
  }

  return {
    reader, row, linear, layer, add, join, dot, sigmoid, softmax, logSoftmax, argmax, shuffled, layerNorm, average, gru, bidirectional,
  };
})();
