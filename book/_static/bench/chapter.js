// The attention bench in a chapter, at one of its examples and with the controls that matter there.
(() => {
  "use strict";

  // For each example: the controls, what some are called in the chapter, and settings that differ.
  const PLACES = {
    "which-key-matches": { only: ["score"] },
    "average-or-sample": { only: ["temperature", "again", "more"] },
    "a-gaussian-window": {
      only: ["window", "position", "centre", "size", "step"],
      words: {
        local: "local-m, p = t",
        gaussian: "local-p, p predicted",
        position: "Time step t = i",
        size: "Radius D",
      },
      settings: { temperature: 1, position: 1 },
    },
  };

  Elements.inPlaceOf("live-bench", (place) => {
    const example = Object.keys(PLACES).find((name) => place.classList.contains(`tag_${name}`));
    const { only, words, settings } = PLACES[example];
    const state = benchState.first({ ...benchState.EXAMPLES[example], ...settings });
    return benchWidget.make({ state, only, words }).root;
  });
})();
