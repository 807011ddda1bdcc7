"use strict";

// The trained hierarchical attention network, computed here. The equations are those of chapter 9, the weights those of
// weights.js, with their names in the package: `encoder.pooling.query` is u_w.
const SentencesModel = (() => {
  const { row, layer, dot, softmax, average, bidirectional } = Tensors;
  const { words, labels, model } = SENTENCES_MODEL;
  const UNKNOWN = words.indexOf("<unk>");
  const ids = new Map(words.map((word, i) => [word, i]));
  const decode = Tensors.reader(SENTENCES_MODEL);
  const get = (name) => decode(model[name]);

  // One level: the vector that it makes of vectors, and their weights.
  function level(rnn, pooling) {
    const states = bidirectional(get, rnn);
    const W = layer(get, `${pooling}.attention.W`);
    const query = get(`${pooling}.query`).values;
    return (vectors) => {
      const h = states(vectors); // (9.1)
      const keys = h.map((state) => W(state).map(Math.tanh)); // u_it
      const weights = softmax(keys.map((key) => dot(key, query))); // (9.2)
      return { vector: average(weights, h), weights }; // (9.3)
    };
  }

  const E = get("encoder.words.embedding.weight");
  const ofWords = level("encoder.words.rnn", "encoder.pooling");
  const ofSentences = level("encoder.rnn", "pooling"); // (9.4)
  const W_c = layer(get, "W");

  // The weights of the words in each sentence, those of the sentences, and the probability of each class. A sentence
  // without words is left out and has the weight 0; one of them must have some.
  function read(document) {
    const found = document.map((sentence) =>
      sentence.length ? ofWords(sentence.map((word) => row(E, ids.get(word) ?? UNKNOWN))) : null);
    const { vector, weights } = ofSentences(found.filter(Boolean).map((one) => one.vector));
    const left = [...weights];
    return {
      words: found.map((one) => one?.weights ?? []),
      sentences: found.map((one) => (one ? left.shift() : 0)),
      probabilities: softmax([...W_c(vector)]), // (9.5)
    };
  }

  // The type that the question asks for: with which the fourth sentence after the optional one begins, if there are both.
  function answer(document) {
    const left = document.filter((sentence) => sentence.length);
    const clue = left.findIndex((sentence) => sentence.includes("optional"));
    const first = clue < 0 ? undefined : left[clue + 4]?.[0];
    return labels.includes(first) ? first : undefined;
  }

  return { read, answer, knows: (word) => ids.has(word) };
})();
