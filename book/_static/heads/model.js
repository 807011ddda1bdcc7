"use strict";

// The trained Transformer, computed here. The equations are those of chapter 6, the weights those of
// weights.js, with their names in the package: `encoder.layers.0.attention.W_Q.weight` is W^Q.
const HeadsModel = (() => {
  const { linear, add, dot, softmax, argmax, average } = Tensors;
  const { source, target, heads, longest, model } = HEADS_MODEL;
  const [BOS, EOS] = [target.indexOf("<bos>"), target.indexOf("<eos>")];
  const decode = Tensors.reader(HEADS_MODEL);
  const get = (name) => decode(model[name]);
  const { layer, norm, feedForward, embedding, part } = TransformerParts(get);
  const size = get("encoder.layers.0.attention.W_Q.weight").rows / heads; // d_k

  function postNorm(name) {
    const apply = norm(`${name}_residual.norm`);
    return (x, change) => apply(add(x, change)); // (6.6)
  }

  // Multi-head attention  (6.2). A head that is off adds nothing. What each position asked, and what
  // each head gave it, is noted in `seen`.
  function multiHead(name) {
    const [W_Q, W_K, W_V, W_O] = ["W_Q", "W_K", "W_V", "W_O"].map((matrix) => layer(`${name}.${matrix}`));
    const project = (x) => ({ key: W_K(x), value: W_V(x) });

    function attend(x, memory, seen, isOff) {
      const query = W_Q(x);
      const contexts = new Float32Array(query.length);
      for (let head = 0; head < heads; head++) {
        const products = memory.map(({ key }) => dot(part(query, head, heads), part(key, head, heads)));
        const weights = softmax(products.map((product) => product / Math.sqrt(size))); // (6.1)
        seen[head].push({ products, weights });
        if (isOff(head)) continue;
        part(contexts, head, heads).set(average(weights, memory.map(({ value }) => part(value, head, heads))));
      }
      return W_O(contexts);
    }

    return { project, attend };
  }

  const numbers = (pattern) =>
    Object.keys(model).map((name) => name.match(pattern)?.[1]).filter((i, place, all) => i && all.indexOf(i) === place);

  const encoder = numbers(/^encoder\.layers\.(\d+)/).map((i) => {
    const name = `encoder.layers.${i}`;
    return {
      attention: multiHead(`${name}.attention`), afterAttention: postNorm(`${name}.attention`),
      feedForward: feedForward(`${name}.feed_forward`), afterFeedForward: postNorm(`${name}.feed_forward`),
    };
  });
  const decoder = numbers(/^decoder\.layers\.(\d+)/).map((i) => {
    const name = `decoder.layers.${i}`;
    return {
      attention: multiHead(`${name}.attention`), afterAttention: postNorm(`${name}.attention`),
      cross: multiHead(`${name}.source_attention`), afterCross: postNorm(`${name}.source`),
      feedForward: feedForward(`${name}.feed_forward`), afterFeedForward: postNorm(`${name}.feed_forward`),
    };
  });
  const [embedSource, embedTarget] = [embedding("encoder.embedding"), embedding("decoder.embedding")];
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

  return { HEADS, size, translate };
})();
