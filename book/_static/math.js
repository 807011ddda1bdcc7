// Formulas are set a few at a time, from the top: a long page can be scrolled and read meanwhile.
if (window.MathJax) {
  MathJax.startup = {
    async pageReady() {
      const formulas = [...document.querySelectorAll(".math")];
      while (formulas.length) {
        await MathJax.typesetPromise(formulas.splice(0, 3));
        await new Promise((resume) => setTimeout(resume));
      }
    },
  };
}
