// Formulas on the screen are typeset at once, the others after the reader's first action: all take seconds on a
// phone. MathJax is loaded with the page, which does not wait for it, because a page that is printed loads nothing.
if (window.MathJax && document.querySelector(".math")) {
  // In milliseconds. A screen reader, or a tab that was opened for later, may cause no event.
  const LONGEST_WAIT = 10_000;
  const waiting = new Set(document.querySelectorAll(".math"));
  const onScreen = new Set();
  let allWanted = false;
  let wake = () => {};

  // The page names the script with a type that browsers do not execute.
  const mathJaxIsLoaded = new Promise((resume) => {
    MathJax.startup = { pageReady: resume };
    const script = document.createElement("script");
    script.src = document.querySelector("script[src*='/mathjax/startup.js']").src;
    script.fetchPriority = "low";
    document.head.append(script);
  });

  async function typesetInBatches() {
    await mathJaxIsLoaded;
    while (waiting.size) {
      const batch = [...(onScreen.size || !allWanted ? onScreen : waiting)].slice(0, 3);
      if (batch.length) {
        forget(batch);
        await MathJax.typesetPromise(batch);
        batch.forEach(keepWithPunctuation);
        for (const formula of batch) formula.querySelectorAll('[display="true"]').forEach(watchScrolling);
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

  // A comma after a formula must not begin a line, and a bracket before it must not end one.
  const keepWithPunctuation = (formula) => {
    const { previousSibling: before, nextSibling: after } = formula;
    const [opening = ""] = before?.data?.match(/[([“]+$/) ?? [];
    const [marks = ""] = after?.data?.match(/^[.,;:!?)\]”]+/) ?? [];
    if (!opening && !marks) return;
    const unbroken = document.createElement("span");
    unbroken.className = "unbroken";
    formula.replaceWith(unbroken);
    before?.deleteData?.(before.length - opening.length, opening.length);
    after?.deleteData?.(0, marks.length);
    unbroken.append(opening, formula, marks);
  };

  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (isIntersecting && waiting.has(target)) onScreen.add(target);
      else onScreen.delete(target);
    }
    wake();
  });
  for (const formula of waiting) observer.observe(formula);

  const allAreSet = typesetInBatches();
  window.setAllFormulas = () => {
    allWanted = true;
    wake();
    return allAreSet;
  };
  for (const event of ["scroll", "pointermove", "pointerdown", "keydown", "focusin"]) {
    addEventListener(event, setAllFormulas, { once: true, passive: true });
  }
  addEventListener("load", () => setTimeout(setAllFormulas, LONGEST_WAIT));

  const setAllNow = () => {
    if (!MathJax.typeset) return;
    const rest = [...waiting];
    MathJax.typeset(rest);
    rest.forEach(keepWithPunctuation);
    forget(rest);
  };
  addEventListener("beforeprint", setAllNow);
  matchMedia("print").addEventListener("change", ({ matches }) => matches && setAllNow());
}
