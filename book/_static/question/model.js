"use strict";

// The reader of attention over attention, computed here: the equations are those of chapter 10, the weights those of
// weights.js, with their names in the package.
const QuestionModel = (() => {
  const { row, dot, softmax, average, bidirectional } = Tensors;
  const decode = Tensors.reader(QUESTION_MODEL);
  const get = (name) => decode(QUESTION_MODEL.model[name]);
  const E = get("embedding.weight");
  const documentStates = bidirectional(get, "document_rnn");
  const questionStates = bidirectional(get, "question_rnn");

  const isKnown = (word) => QUESTION_MODEL.words.includes(word);
  const embed = (word) => row(E, QUESTION_MODEL.words.indexOf(isKnown(word) ? word : "<unk>"));

  // Of descriptions and a question, all lists of words: β, how each word of the question attends to each description, and
  // their probabilities with β and with equal weights. Only some words of the question may attend.
  function read(descriptions, question, attends = question.map(() => true)) {
    const h = documentStates(descriptions.flat().map(embed));
    const u = questionStates(question.map(embed));
    const M = h.map((h_i) => u.map((u_t) => dot(h_i, u_t))); // (10.1)
    const alpha = u.map((_, t) => softmax(M.map((scores) => scores[t]))); // (10.3)
    const rows = M.map((scores) => softmax(scores.map((score, t) => (attends[t] ? score : -Infinity))));
    const beta = u.map((_, t) => rows.reduce((sum, beta_i) => sum + beta_i[t], 0) / rows.length); // (10.4)
    const parts = descriptions.flatMap((words, k) => words.map(() => k));
    const attended = alpha.map((weights) =>
      descriptions.map((_, k) => weights.reduce((sum, weight, i) => sum + (parts[i] === k ? weight : 0), 0)));
    const count = attends.filter(Boolean).length;
    return {
      beta, attended,
      answer: average(beta, attended), // (10.5), Σ_t β_t P_t
      evenly: average(attends.map((does) => does / count), attended),
    };
  }

  return { read, isKnown };
})();
