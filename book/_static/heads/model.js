"use strict";

// The trained Transformer, computed here. The equations are those of chapter 6, the weights those of
// weights.js, with their names in the package: `encoder.layers.0.attention.W_Q.weight` is W^Q.
const HeadsModel = (() => {
  const { row, linear, dot, softmax, argmax, layerNorm } = Tensors;
  const { source, target, heads, longest, model } = HEADS_MODEL;
  const [BOS, EOS] = [target.indexOf("<bos>"), target.indexOf("<eos>")];
  const decode = Tensors.reader(HEADS_MODEL);
  const get = (name) => decode(model[name]);
  const layer = (name) => ({ W: get(`${name}.weight`), b: get(`${name}.bias`) });
  const through = ({ W, b }, x) => linear(W, x, b);

  function norm(name) {
    const [scale, shift] = ["weight", "bias"].map((part) => get(`${name}_residual.norm.${part}`).values);
    return (x, change) => layerNorm(x.map((value, i) => value + change[i]), scale, shift); // post-norm  (6.6)
  }

  function feedForward(name) {
    const [first, second] = [layer(`${name}.feed_forward.0`), layer(`${name}.feed_forward.2`)];
    return (x) => through(second, through(first, x).map((value) => Math.max(0, value))); // (6.5)
  }

  // Sinusoids of a position  (6.3)
  function positionalEncoding(position, d) {
    return Float32Array.from({ length: d }, (_, i) => {
      const angle = position * 10000 ** (-(i - (i % 2)) / d);
      return i % 2 ? Math.cos(angle) : Math.sin(angle);
    });
  }

  function embedding(name) {
    const E = get(`${name}.embedding.weight`);
    const d = E.columns;
    return (token, position) => {
      const place = positionalEncoding(position, d);
      return row(E, token).map((value, i) => Math.sqrt(d) * value + place[i]);
    };
  }

  // Multi-head attention  (6.2). A head that is off adds nothing. What each position asked, and what
  // each head gave it, is noted in `seen`.
  function multiHead(name) {
    const [W_Q, W_K, W_V, W_O] = ["W_Q", "W_K", "W_V", "W_O"].map((matrix) => layer(`${name}.${matrix}`));
    const size = W_Q.W.rows / heads; // d_k
    const part = (x, head) => x.subarray(head * size, (head + 1) * size);

    const project = (x) => ({ key: through(W_K, x), value: through(W_V, x) });

    function attend(x, memory, seen, isOff) {
      const query = through(W_Q, x);
      const contexts = new Float32Array(query.length);
      for (let head = 0; head < heads; head++) {
        const products = memory.map(({ key }) => dot(part(query, head), part(key, head)));
        const weights = softmax(products.map((product) => product / Math.sqrt(size))); // (6.1)
        seen[head].push({ products, weights });
        if (isOff(head)) continue;
        const context = part(contexts, head);
        weights.forEach((weight, j) => {
          part(memory[j].value, head).forEach((value, m) => { context[m] += weight * value; });
        });
      }
      return through(W_O, contexts);
    }

    return { project, attend };
  }

  const numbers = (pattern) =>
    Object.keys(model).map((name) => name.match(pattern)?.[1]).filter((i, place, all) => i && all.indexOf(i) === place);

  const encoder = numbers(/^encoder\.layers\.(\d+)/).map((i) => {
    const name = `encoder.layers.${i}`;
    return {
      attention: multiHead(`${name}.attention`), afterAttention: norm(`${name}.attention`),
      feedForward: feedForward(name), afterFeedForward: norm(`${name}.feed_forward`),
    };
  });
  const decoder = numbers(/^decoder\.layers\.(\d+)/).map((i) => {
    const name = `decoder.layers.${i}`;
    return {
      attention: multiHead(`${name}.attention`), afterAttention: norm(`${name}.attention`),
      cross: multiHead(`${name}.source_attention`), afterCross: norm(`${name}.source`),
      feedForward: feedForward(name), afterFeedForward: norm(`${name}.feed_forward`),
    };
  });
  const [embedSource, embedTarget] = [embedding("encoder"), embedding("decoder")];
  const output = get("decoder.embedding.weight"); // the same matrix for words and logits

  // Every head, as on the page: "encoder.0.2" is head 3 of the encoder's first layer.
  const HEADS = HEADS_MODEL.without.map(([kind, layer, head, exactMatch]) =>
    ({ id: `${kind}.${layer}.${head}`, kind, layer, head, exactMatch }));

  // Greedy decoding with a KV cache, while the heads in `off` add nothing. `seen` has, for each head and
  // each query, the products q · k and the weights.
  function translate(words, off = new Set()) {
    const seen = {};
    const record = (kind, i) => (seen[`${kind}.${i}`] ??= Array.from({ length: heads }, () => []));
    const isOff = (kind, i) => (head) => off.has(`${kind}.${i}.${head}`);

    let states = words.map((word, j) => embedSource(source.indexOf(word), j));
    encoder.forEach((one, i) => {
      const memory = states.map(one.attention.project);
      states = states.map((x) => {
        const y = one.afterAttention(x, one.attention.attend(x, memory, record("encoder", i), isOff("encoder", i)));
        return one.afterFeedForward(y, one.feedForward(y));
      });
    });

    const memories = decoder.map((one) => states.map(one.cross.project)); // once for the whole source
    const caches = decoder.map(() => []);
    const found = { words: [], hasEnded: false, seen };
    let token = BOS;
    while (!found.hasEnded && found.words.length < longest) {
      let x = embedTarget(token, found.words.length);
      decoder.forEach((one, i) => {
        caches[i].push(one.attention.project(x));
        x = one.afterAttention(x, one.attention.attend(x, caches[i], record("decoder", i), isOff("decoder", i)));
        x = one.afterCross(x, one.cross.attend(x, memories[i], record("cross", i), isOff("cross", i)));
        x = one.afterFeedForward(x, one.feedForward(x));
      });
      token = argmax(linear(output, x));
      found.hasEnded = token === EOS;
      if (!found.hasEnded) found.words.push(target[token]);
    }
    return found;
  }

  return { HEADS, size: get("encoder.layers.0.attention.W_Q.weight").rows / heads, translate };
})();
