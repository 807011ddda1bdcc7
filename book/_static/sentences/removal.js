"use strict";

// A document from which sentences and words can be taken out, while HN-ATT reads what is left. On the screen it takes
// the place of the still picture.
(() => {
  const { html: make, button, press, percent } = Elements;
  const { documents, substitute, labels, changed, accuracy, testDocuments } = SENTENCES_MODEL;
  const { read, answer, knows } = SentencesModel;
  const SHOWN = 0.1; // the smallest weight of a word that is written
  const best = ({ probabilities }) => Tensors.argmax(probabilities);
  const largest = (differences) => Math.max(0, ...differences.map(Math.abs));

  class Removal {
    constructor() {
      this.isReplaced = false;
      this.build();
      this.open(0);
    }

    build() {
      const group = (name, ...buttons) =>
        make("div", { class: "play-row play-pills", role: "group", "aria-label": name }, make("span", {}, name), ...buttons);
      this.documents = documents.map((_, i) => button(`${i + 1}`, () => this.open(i)));
      this.modes = ["removed", "replaced"].map((name, i) => button(name, () => this.change(() => { this.isReplaced = i === 1; })));
      this.verdict = make("p", { class: "sentences-verdict", role: "status" });
      this.bars = labels.map((label) => make("div", {}, make("span", {}, label), make("i"), make("b")));
      this.differences = make("p", { class: "play-hint" });
      this.list = make("ol", { class: "sentences-list" });
      this.back = button("Put all back", () => this.change(() => this.out.clear()));
      this.note = make("p", { class: "play-note" });
      this.root = make("section", { class: "play sentences", "aria-label": "Sentences and words taken out" },
        make("p", {}, make("strong", {}, "Click a number or a word to take it out.")),
        make("div", { class: "sentences-settings" },
          group("Document", ...this.documents), group("A sentence that is out is", ...this.modes)),
        this.verdict, make("div", { class: "sentences-bars" }, ...this.bars),
        make("div", { class: "play-row play-pills" }, this.back,
          button("Try each sentence", () => this.change(() => this.document.forEach((_, i) => this.tried.add(i))))),
        this.differences, this.list, this.note);
    }

    open(number) {
      this.document = documents[number];
      this.documents.forEach((one, i) => press(one, i === number));
      this.out = new Set(); // of sentences, as 2, and words, as "2.5"
      this.tried = new Set(); // sentences whose effect is noted
      this.whole = read(this.document);
      this.now = null;
      this.rows = this.document.map((sentence, i) => this.row(sentence, i));
      this.list.replaceChildren(...this.rows.map(({ root }) => root));
      const cells = this.rows.map(({ toggle, words }) => [toggle, ...words]);
      Elements.walk(cells, (i, j) => {
        for (const cell of cells.flat()) cell.tabIndex = -1;
        cells[i][j].tabIndex = 0;
      });
      cells.flat().forEach((cell, i) => { cell.tabIndex = i ? -1 : 0; });
      this.change(() => {});
    }

    // A sentence: its switch with its weight, its words, what stands in its place, and the class without it alone.
    row(sentence, i) {
      const flip = (one) => this.change(() => {
        if (!this.out.delete(one)) this.out.add(one);
        if (one === i) this.tried.add(i);
      });
      const toggle = button("", () => flip(i), { class: "sentences-switch" });
      const words = sentence.map((word, j) => button(word, () => this.out.has(i) || flip(`${i}.${j}`),
        { class: `sentences-word${knows(word) ? "" : " sentences-unknown"}` }));
      const instead = make("span", { class: "sentences-instead" });
      const effect = make("span", { class: "sentences-effect" });
      const root = make("li", {}, toggle, make("div", {}, ...words, instead), effect);
      return { root, toggle, words, instead, effect };
    }

    // What the model reads, with a place for each sentence of the document.
    left(out) {
      const instead = this.isReplaced ? substitute : [];
      return this.document.map((sentence, i) =>
        (out.has(i) ? instead : sentence.filter((_, j) => !out.has(`${i}.${j}`))));
    }

    change(act) {
      act();
      const before = this.now;
      const document = this.left(this.out);
      const isEmpty = document.every((sentence) => !sentence.length);
      const found = isEmpty ? { words: document, sentences: document.map(() => 0), probabilities: labels.map(() => 0) } : read(document);
      this.now = { document, ...found };
      this.back.setAttribute("aria-disabled", String(!this.out.size)); // it keeps the focus
      this.modes.forEach((one, i) => press(one, this.isReplaced === (i === 1)));
      this.showClass(isEmpty);
      this.showDifferences(before);
      this.rows.forEach((row, i) => this.showRow(row, i));
      const [most, optional, other] = ["most", "optional", "other"].map((kind) => percent(changed[kind][Number(this.isReplaced)]));
      this.note.textContent = `HN-ATT, trained as in this chapter and computed on this page. It classifies ${percent(accuracy)} of ` +
        `${testDocuments} test documents correctly. If one sentence is ${this.isReplaced ? "replaced" : "removed"}, the class changes in ${most} of them ` +
        `for the sentence with the most weight, in ${optional} for the one with optional, and in ${other} for any other.`;
    }

    showClass(isEmpty) {
      const { probabilities, document } = this.now;
      const [asked, label] = [answer(document), labels[best(this.now)]];
      const question = make("span", {}, "The fourth sentence after the one with ", make("em", {}, "optional"));
      if (isEmpty) this.verdict.textContent = "No word is left, so there is nothing to average.";
      else if (!asked) this.verdict.replaceChildren(question, ` is not there: the model guesses ${label}.`);
      else this.verdict.replaceChildren(question, ` begins with ${asked}: `, make("span",
        { class: asked === label ? "play-right" : "play-wrong" }, `${asked === label ? "✓" : "✗"} class ${label}`));
      this.bars.forEach((bar, i) => {
        bar.style.setProperty("--weight", probabilities[i].toFixed(4));
        bar.classList.toggle("sentences-best", !isEmpty && labels[i] === label);
        bar.lastChild.textContent = percent(probabilities[i]);
      });
    }

    // By how much the last change has changed each level.
    showDifferences(before) {
      const { now } = this;
      const minus = (a, b) => a.map((value, i) => value - b[i]);
      const same = this.document.map((_, i) => i).filter((i) => before?.document[i].join(" ") === now.document[i].join(" "));
      if (!before || same.length === this.document.length) {
        this.differences.textContent = "Sentence weights in orange, word weights in blue, in percent. The model reads words in italics as <unk>.";
        return;
      }
      const words = largest(same.flatMap((i) => minus(now.words[i], before.words[i])));
      this.differences.textContent = `Largest changes: word weights of other sentences ${words.toFixed(2)}, ` +
        `sentence weights ${largest(minus(now.sentences, before.sentences)).toFixed(2)}, ` +
        `probabilities ${largest(minus(now.probabilities, before.probabilities)).toFixed(2)}.`;
    }

    showRow({ root, toggle, words, instead, effect }, i) {
      const isOut = this.out.has(i);
      const weight = this.now.sentences[i];
      root.classList.toggle("sentences-out", isOut);
      root.style.setProperty("--weight", weight.toFixed(3));
      toggle.replaceChildren(make("b", {}, `${i + 1}`), make("small", {}, isOut && !this.isReplaced ? "out" : percent(weight)));
      toggle.setAttribute("aria-label", `Sentence ${i + 1}, weight ${percent(weight)}, take out`);
      press(toggle, isOut);
      const weights = isOut ? [] : [...this.now.words[i]];
      words.forEach((word, j) => {
        const isGone = isOut || this.out.has(`${i}.${j}`);
        const own = isGone ? 0 : weights.shift();
        word.style.setProperty("--weight", own.toFixed(3));
        word.dataset.weight = own >= SHOWN ? Math.round(100 * own) : "";
        word.setAttribute("aria-label", `${this.document[i][j]}, weight ${percent(own)}, take out`);
        word.setAttribute("aria-disabled", String(isOut));
        press(word, isGone);
      });
      instead.textContent = isOut && this.isReplaced ? `→ ${substitute.join(" ")}` : "";
      effect.textContent = "";
      if (!this.tried.has(i)) return;
      const alone = read(this.left(new Set([i])));
      const [now, then] = [best(alone), best(this.whole)];
      effect.append(this.isReplaced ? "if replaced: " : "without it: ", make("b", { class: now === then ? "" : "play-wrong" },
        `${now === then ? "still " : ""}${labels[now]} ${percent(alone.probabilities[now])}`));
    }
  }

  Elements.inPlaceOf("live-sentences", () => new Removal().root);
})();
