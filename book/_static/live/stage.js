"use strict";

// The picture of one translation: English words in the middle, on the right the French words with
// attention and curves as thick as the weights, on the left those without, behind one vector.
const TranslationStage = (() => {
  const VISIBLE = 0.04; // the smallest weight that has a curve
  const THICKNESS = 10; // pixels of the curve of a weight of 1
  const THIN = 1; // pixels of the lines to and from the one vector

  const { html: make, svg: makeSvg, percent } = Elements;
  const makePath = (className, width) =>
    makeSvg("path", { class: className, "stroke-width": width });

  // A curve from one point to another that leaves and arrives horizontally.
  function curve([x0, y0], [x1, y1]) {
    const middle = (x0 + x1) / 2;
    return `M${x0} ${y0} C${middle} ${y0} ${middle} ${y1} ${x1} ${y1}`;
  }

  function frenchWord(word, isRight) {
    if (isRight) return make("li", {}, word);
    return make("li", { class: "play-wrong" },
      make("span", { "aria-hidden": "true" }, "✗ "),
      word,
      make("span", { class: "play-unseen" }, " (wrong)"));
  }

  // "ninety 66 %, nine 20 %": what a French word attends to, the greatest weights first.
  function attention({ source, attended }, i) {
    const weights = attended.weights[i];
    const order = source.map((_, j) => j).sort((a, b) => weights[b] - weights[a]);
    return order
      .filter((j, place) => place === 0 || (place < 4 && weights[j] >= 0.05))
      .map((j) => `${source[j]} ${percent(weights[j])}`)
      .join(", ");
  }

  class Stage {
    // `choose` and `hover` are called with the position of a word in the list on the right, or null.
    constructor({ choose, hover }) {
      this.callbacks = { choose, hover };
      this.root = make("div", { class: "live-stage" });
      new ResizeObserver(() => this.place()).observe(this.root);
    }

    show(found) {
      this.found = found;
      const { source, attended, fixed } = found;
      this.fixed = make("ol",
        { class: "live-words live-fixed", "aria-label": "French words, written without attention" },
        ...fixed.words.map((word, i) => frenchWord(word, fixed.isRight[i])));
      this.source = make("ol",
        { class: "live-words live-source", "aria-label": "English words" },
        ...source.map((word) => make("li", {}, word)));
      this.attended = make("ol", { class: "live-words live-attended" },
        ...attended.words.map((word, i) => frenchWord(word, attended.isRight[i])));
      this.box = make("div", { class: "live-box" }, "one vector");
      this.makeChoosable();
      this.makeCurves();
      this.root.style.setProperty("--words", Math.max(source.length, found.steps));
      this.root.replaceChildren(this.svg, this.fixed, this.box, this.source, this.attended);
      this.place();
    }

    // The list on the right: one tab stop, arrow keys from word to word.
    makeChoosable() {
      const { attended, callbacks } = this;
      attended.setAttribute("role", "listbox");
      attended.setAttribute("aria-label", "French words, written with attention");
      const options = [...attended.children];
      options.forEach((option, i) => {
        option.setAttribute("role", "option");
        const word = option.textContent.replace("✗ ", "");
        option.setAttribute("aria-label", `${word}: ${attention(this.found, i)}`);
        option.addEventListener("focus", () => callbacks.choose(i));
        option.addEventListener("click", () => callbacks.choose(i));
        option.addEventListener("pointerenter", () => callbacks.hover(i));
      });
      attended.addEventListener("pointerleave", () => callbacks.hover(null));
      attended.addEventListener("keydown", (event) => {
        const i = options.indexOf(document.activeElement);
        const last = options.findLastIndex((option) => !option.classList.contains("live-unwritten"));
        const next = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: last }[event.key];
        if (event.key === "Escape") callbacks.choose(null);
        if (next === undefined) return;
        event.preventDefault();
        options[Math.min(Math.max(next, 0), last)].focus();
      });
    }

    makeCurves() {
      const { source, attended, fixed } = this.found;
      this.toBox = source.map(() => makePath("live-squeezed", THIN));
      this.fromBox = fixed.words.map(() => makePath("live-unpacked", THIN));
      this.weighted = attended.words.map((_, i) =>
        source.map((_, j) => makePath("live-weight", THICKNESS * attended.weights[i][j])));
      this.svg = makeSvg("svg", { "aria-hidden": "true" });
      const visible = this.weighted.flatMap((paths, i) =>
        paths.filter((_, j) => attended.weights[i][j] >= VISIBLE));
      this.svg.append(...this.toBox, ...this.fromBox, ...visible);
    }

    // Let the curves lead from word to word, wherever the page has put them.
    place() {
      if (!this.found) return;
      const origin = this.root.getBoundingClientRect();
      // The ends of an element's curves, at the edges of the column that it stands in.
      const sides = (element, column) => {
        const { left, right } = column.getBoundingClientRect();
        const { top, bottom } = element.getBoundingClientRect();
        const y = (top + bottom) / 2 - origin.top;
        return { left: [left - origin.left, y], right: [right - origin.left, y] };
      };
      const [source, attended, fixed] = [this.source, this.attended, this.fixed].map((list) =>
        [...list.children].map((word) => sides(word, list)));
      const box = sides(this.box, this.box);
      this.toBox.forEach((path, j) => path.setAttribute("d", curve(source[j].left, box.right)));
      this.fromBox.forEach((path, i) => path.setAttribute("d", curve(box.left, fixed[i].right)));
      this.weighted.forEach((paths, i) => paths.forEach((path, j) =>
        path.setAttribute("d", curve(source[j].right, attended[i].left))));
    }

    // How many words are written; the position of the one whose weights are shown, and of the one
    // that has just been written, or null.
    update(written, current, newest) {
      const hasCurrent = current in this.weighted; // not where attention has ended before the other
      const weights = hasCurrent ? this.found.attended.weights[current] : [];
      const mark = (element, i, marked) => {
        element.classList.toggle("live-unwritten", i >= written);
        element.classList.toggle("live-current", i === marked);
      };
      [...this.fixed.children].forEach((word, i) => mark(word, i, newest));
      this.fromBox.forEach((path, i) => mark(path, i, newest));
      this.weighted.forEach((paths, i) => paths.forEach((path) => mark(path, i, current)));
      [...this.attended.children].forEach((option, i) => {
        mark(option, i, current);
        option.setAttribute("aria-selected", String(i === current));
        option.tabIndex = i === (hasCurrent ? current : 0) ? 0 : -1;
      });
      [...this.source.children].forEach((word, j) =>
        word.style.setProperty("--weight", weights[j] ?? 0));
      this.root.classList.toggle("live-has-current", hasCurrent);
    }
  }

  return { Stage, attention };
})();
