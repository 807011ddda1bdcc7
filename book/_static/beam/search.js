"use strict";

// Beam search, step by step, as companion.decoding.beam_search does it. A prefix has its `tokens`, the position of its
// `parent` among the prefixes before, the log-probability of its last token, `added`, and that of all, `logProb`.
const BeamSearch = (() => {
  const { BOS, EOS } = TranslationModel;
  const longest = LIVE_MODEL.longest;
  const model = TranslationModel.load(LIVE_MODEL.models.withoutAttention, false);

  const divisor = (length, alpha) => ((5 + length) / 6) ** alpha;
  const score = ({ logProb, tokens }, alpha) => logProb / divisor(tokens.length, alpha); // (1.9)

  // The most probable extensions of one prefix.
  function extend(prefix, parent, count) {
    const { logits, state } = model.step(prefix.state, prefix.tokens.at(-1) ?? BOS);
    return Tensors.logSoftmax(logits)
      .map((added, token) => ({ added, token, parent, state, logProb: prefix.logProb + added })) // (1.1)
      .sort((a, b) => b.logProb - a.logProb)
      .slice(0, count)
      .map(({ token, ...rest }) => ({ ...rest, tokens: [...prefix.tokens, token] }));
  }

  // The sentences that a beam of this width finds, the best first, and what became of the 2 · width best extensions at
  // each step: `kept`, `ended` or `dropped`. Twice as many, because half of them may end.
  function search(words, width, alpha = 0) {
    let alive = [{ tokens: [], logProb: 0, state: model.start(words) }];
    let found = [];
    const best = (all) => all.map((one) => ({ ...one, score: score(one, alpha) }))
      .sort((a, b) => b.score - a.score).slice(0, width);
    const steps = [];
    while (alive.length && steps.length < longest) {
      const extensions = alive.flatMap((prefix, parent) => extend(prefix, parent, 2 * width))
        .sort((a, b) => b.logProb - a.logProb).slice(0, 2 * width);
      extensions.forEach((one, rank) => {
        const isEnd = one.tokens.at(-1) === EOS;
        if (isEnd && rank < width) one.fate = "ended";
      });
      alive = extensions.filter(({ tokens }) => tokens.at(-1) !== EOS).slice(0, width);
      alive.forEach((one) => { one.fate = "kept"; });
      steps.push(extensions.map((one) => ({ fate: "dropped", ...one })));
      found = best([...found, ...extensions.filter(({ fate }) => fate === "ended")]);
      const bound = Math.max(...alive.map(({ logProb }) => logProb)) / divisor(longest, alpha);
      if (found.length === width && bound <= found.at(-1).score) alive = []; // none can overtake the worst
    }
    return { found: best([...found, ...alive]), steps };
  }

  // A sentence as a hypothesis with its log-probability  (1.1)
  function judge(words, target, alpha) {
    let state = model.start(words);
    let logProb = 0;
    const tokens = [...target.map((word) => LIVE_MODEL.target.indexOf(word)), EOS];
    tokens.forEach((token, i) => {
      const next = model.step(state, tokens[i - 1] ?? BOS);
      logProb += Tensors.logSoftmax(next.logits)[token];
      state = next.state;
    });
    return { tokens, logProb, score: score({ tokens, logProb }, alpha) };
  }

  const wordsOf = ({ tokens }) => tokens.filter((token) => token !== EOS).map((token) => LIVE_MODEL.target[token]);

  return { search, judge, wordsOf, EOS };
})();
