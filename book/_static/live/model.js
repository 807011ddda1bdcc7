"use strict";

// The two trained models, computed here. The equations are those of chapter 2, the weights those
// of weights.js, with their names in the package: `decoder.attention.W.weight` is W_a.
const TranslationModel = (() => {
  const BOS = LIVE_MODEL.target.indexOf("<bos>");
  const EOS = LIVE_MODEL.target.indexOf("<eos>");

  const { row, linear, join, softmax, argmax, average, gru, bidirectional } = Tensors;
  const decode = Tensors.reader(LIVE_MODEL);

  // A model, from its entry in the weights file. Without attention the decoder gets one vector.
  function load(parameters, withAttention) {
    const get = (name) => decode(parameters[name]);
    const sourceWords = get("encoder.embedding.weight");
    const states = bidirectional(get, "encoder.rnn");
    const E = get("decoder.embedding.weight");
    const W_a = get("decoder.attention.W.weight");
    const U_a = get("decoder.attention.U.weight");
    const v_a = get("decoder.attention.v").values;
    const W_s = get("decoder.W_s.weight");
    const W_sBias = get("decoder.W_s.bias");
    const f = gru(get, "decoder.cell"); // (2.5)
    const hidden = get("decoder.output.hidden.weight"); // U_o, V_o and C_o side by side
    const hiddenBias = get("decoder.output.hidden.bias");
    const W_o = get("decoder.output.W.weight");
    const W_oBias = get("decoder.output.W.bias");

    function encode(tokens) {
      const h = states(tokens.map((token) => row(sourceWords, token))); // (2.1)
      if (withAttention) return h;
      const half = h[0].length / 2;
      return [join(h[h.length - 1].subarray(0, half), h[0].subarray(half))]; // h = [→h_n; ←h_1]
    }

    function attend(s, h, keys) {
      const query = linear(W_a, s);
      const scores = new Float32Array(keys.length);
      keys.forEach((key, j) => { // e_ij  (2.2)
        for (let a = 0; a < v_a.length; a++) scores[j] += v_a[a] * Math.tanh(query[a] + key[a]);
      });
      const weights = softmax(scores); // α_ij  (2.3)
      return { context: average(weights, h), weights }; // c_i  (2.4)
    }

    function output(s, word, context) {
      const t = linear(hidden, join(s, word, context), hiddenBias);
      const maxout = new Float32Array(t.length / 2);
      for (let u = 0; u < maxout.length; u++) maxout[u] = Math.max(t[2 * u], t[2 * u + 1]);
      return linear(W_o, maxout, W_oBias); // the softmax's input  (2.6)
    }

    // Before the first word: what a decoder attends to, and its state.
    function start(words) {
      const h = encode(words.map((word) => LIVE_MODEL.source.indexOf(word)));
      const keys = h.map((state) => linear(U_a, state)); // once for the whole source
      const backward = h[0].subarray(h[0].length / 2); // ←h_1
      return { h, keys, s: linear(W_s, backward, W_sBias).map(Math.tanh) }; // s_0  (2.5)
    }

    // One word: the logits of y_i, from s_{i−1}, y_{i−1} and c_i, the weights, and the next state.
    function step({ h, keys, s }, token) {
      const word = row(E, token);
      const { context, weights } = attend(s, h, keys);
      const logits = output(s, word, context);
      return { logits, weights, state: { h, keys, s: f(join(word, context), s) } }; // s_i  (2.5)
    }

    // Greedy decoding: the most probable word at each step. For each word of the translation and
    // for its end there is a row of weights, one for each vector that the decoder gets.
    function translate(words) {
      let state = start(words);
      let token = BOS;
      const translation = { words: [], weights: [], hasEnded: false };
      while (!translation.hasEnded && translation.words.length < LIVE_MODEL.longest) {
        const found = step(state, token);
        token = argmax(found.logits);
        state = found.state;
        translation.weights.push(found.weights);
        translation.hasEnded = token === EOS;
        if (!translation.hasEnded) translation.words.push(LIVE_MODEL.target[token]);
      }
      return translation;
    }

    return { start, step, translate };
  }

  return { BOS, EOS, load };
})();
