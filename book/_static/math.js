// Formulas on the screen are set at once. The others, and MathJax itself if the screen has none, wait until the
// reader does something: MathJax is larger than the rest of a page, which can be read meanwhile.
if (window.MathJax) {
  const waiting = new Set(document.querySelectorAll(".math"));
  const onScreen = new Set();
  let all = false;
  let wake = () => {};

  // The page has the script with a type that does not run.
  const load = () =>
    new Promise((resume) => {
      MathJax.startup = { pageReady: resume };
      const script = document.createElement("script");
      script.src = document.querySelector("script[src$='/mathjax/startup.js']").src;
      document.head.append(script);
    });

  async function setInBatches() {
    let loaded;
    while (waiting.size) {
      const batch = [...(onScreen.size || !all ? onScreen : waiting)].slice(0, 3);
      if (batch.length) {
        await (loaded ??= load());
        forget(batch);
        await MathJax.typesetPromise(batch);
        await new Promise((resume) => setTimeout(resume));
      } else {
        await new Promise((resume) => (wake = resume));
      }
    }
  }

  const forget = (formulas) => {
    for (const formula of formulas) {
      waiting.delete(formula);
      onScreen.delete(formula);
    }
  };

  const screen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting && waiting.has(target)) onScreen.add(target);
      else onScreen.delete(target);
    }
    wake();
  });
  for (const formula of waiting) screen.observe(formula);

  const allAreSet = setInBatches();
  window.setAllFormulas = () => {
    all = true;
    wake();
    return allAreSet;
  };
  for (const event of ["scroll", "pointermove", "pointerdown", "keydown"]) {
    addEventListener(event, setAllFormulas, { once: true, passive: true });
  }
  addEventListener("beforeprint", () => {
    const rest = [...waiting];
    if (MathJax.typeset) {
      forget(rest);
      MathJax.typeset(rest);
    }
  });
}
