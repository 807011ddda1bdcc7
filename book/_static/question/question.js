"use strict";

// A question about four descriptions: its words can be crossed out, and the document can describe another of its sentences.
(() => {
  const { html: make, button, press } = Elements;
  const { argmax } = Tensors;
  const { examples, accuracy } = QUESTION_MODEL;
  const HIGH = 0.32; // the β of a bar that fills its room
  const KINDS = ["are deleted", "are read, but do not attend"];
  // The words as a text, those that the reader does not know in italics.
  const text = (words) => words.flatMap((word, i) =>
    [i && !".,".includes(word) ? " " : "", QuestionModel.isKnown(word) ? word : make("i", {}, word)]);
  const percent = (x) => `${(100 * x).toFixed(1)}%`;

  class Question {
    constructor() {
      this.pills = examples.map(({ title }, i) => button(title, () => this.open(i)));
      this.kinds = KINDS.map((name, i) => button(name, () => this.change({ isRead: i === 1 })));
      this.restore = button("Put all back", () => this.change({ crossed: new Set() }));
      this.topics = make("div", { class: "play-row play-pills", role: "group", "aria-label": "The document describes" });
      this.verdict = make("p", { class: "question-verdict", role: "status" });
      this.sentences = make("div");
      this.rows = examples[0].descriptions.map((_, k) => {
        const [told, withBeta, evenly] = [make("td"), make("td"), make("td")];
        const row = make("tr", {}, make("th", { scope: "row" }, make("span", { class: `question-of-${k}` }, String(k + 1))), told, withBeta, evenly);
        return { row, told, cells: [withBeta, evenly] };
      });
      this.root = make("section", { class: "play question", "aria-label": "A question, word by word" },
        make("p", {}, make("b", {}, "Which description translates a sentence of the question? Cross out words, or change the document.")),
        make("div", { class: "play-row play-pills", role: "group", "aria-label": "Questions" }, ...this.pills),
        this.topics, this.verdict,
        make("p", { class: "play-hint" }, "The question: under each word its β, and in its bar the descriptions that it attends to, in the colours of their numbers. The dashed line is the equal weight, 1/", make("i", {}, "m"), "."),
        this.sentences,
        make("div", { class: "play-row play-pills", role: "group", "aria-label": "Crossed-out words" },
          make("span", {}, "Crossed-out words"), ...this.kinds, this.restore),
        make("table", {},
          make("thead", {}, make("tr", {}, make("td"), ...["Descriptions, with their probabilities", "with β", "equal"].map((name) => make("th", { scope: "col" }, name)))),
          make("tbody", {}, ...this.rows.map(({ row }) => row))),
        make("p", { class: "play-note" }, "The reader of this section at a learning rate of 0.01, computed on this page. Of 500 test questions of two " +
          `sentences it answers ${accuracy[1][0].toFixed(2)} with β and ${accuracy[1][1].toFixed(2)} with equal weights for the same attentions, and of three ` +
          `${accuracy[2][0].toFixed(2)} and ${accuracy[2][1].toFixed(2)}. These four are chosen, the last because it fails. Words in italics are unknown to it.`));
      this.isRead = false;
      this.open(0);
    }

    open(number) {
      this.pills.forEach((pill, i) => press(pill, i === number));
      this.example = examples[number];
      const { sentences, english, sentence } = this.example;
      this.words = sentences.flat();
      const buttons = sentences.map((_, s) => button(`sentence ${s + 1}`, () => this.change({ sentence: s })));
      this.topics.replaceChildren(make("span", {}, "The document describes"), ...buttons);
      this.chips = this.words.map((word, t) => this.chip(word, t));
      let start = 0;
      this.groups = sentences.map((words, s) => {
        const own = words.map((_, i) => start + i);
        start += words.length;
        const weight = make("span");
        const cross = button("", () => this.cross(own));
        const root = make("div", { class: "question-sentence", role: "group", "aria-label": `Sentence ${s + 1}` },
          make("p", {}, make("b", {}, `Sentence ${s + 1}`), " ", weight, cross),
          make("p", { class: "play-hint" }, "“", ...text(english[s]), "”"),
          make("div", { class: "question-words", lang: "fr" }, ...own.map((t) => this.chips[t].root)));
        return { own, root, weight, cross, topic: buttons[s] };
      });
      this.sentences.replaceChildren(...this.groups.map(({ root }) => root));
      this.change({ sentence, crossed: new Set() });
    }

    chip(word, t) {
      const parts = examples[0].descriptions.map((_, k) => make("i", { class: `question-of-${k}` }));
      const bar = make("span", { class: "question-bar" }, make("span", {}, ...parts));
      const beta = make("small");
      const root = button("", () => this.cross([t]), { class: "question-word" });
      root.append(bar, make("span", {}, word), beta);
      return { root, bar, parts, beta };
    }

    // Cross out words, or put them back if all of them are.
    cross(words) {
      const crossed = new Set(this.crossed);
      const isBack = words.every((t) => crossed.has(t));
      for (const t of words) crossed[isBack ? "delete" : "add"](t);
      this.change({ crossed });
    }

    change(changes) {
      Object.assign(this, changes);
      const { descriptions, english, described } = this.example;
      this.told = descriptions.map((words, k) => (k === described ? english[this.sentence] : words));
      const left = this.words.map((_, t) => t).filter((t) => !this.crossed.has(t));
      const kept = this.isRead ? this.words.map((_, t) => t) : left;
      const found = left.length > 0 &&
        QuestionModel.read(this.told, kept.map((t) => this.words[t]), kept.map((t) => !this.crossed.has(t)));
      this.show(left, found && { ...found, of: new Map(left.map((t) => [t, kept.indexOf(t)])) });
    }

    show(left, found) {
      const { described } = this.example;
      const betaOf = (t) => (found && found.of.has(t) ? found.beta[found.of.get(t)] : 0);
      this.kinds.forEach((kind, i) => press(kind, this.isRead === (i === 1)));
      this.groups.forEach(({ topic }, s) => press(topic, s === this.sentence));
      this.restore.setAttribute("aria-disabled", String(this.crossed.size === 0));
      this.chips.forEach(({ root, bar, parts, beta }, t) => {
        const isLeft = left.includes(t);
        const attended = isLeft ? found.attended[found.of.get(t)] : parts.map(() => 0);
        press(root, !isLeft);
        root.setAttribute("aria-label", `${this.words[t]}, ${isLeft
          ? `β ${betaOf(t).toFixed(2)}, attends most to description ${argmax(attended) + 1}` : "crossed out"}`);
        bar.style.setProperty("--high", percent(Math.min(1, betaOf(t) / HIGH)));
        bar.style.setProperty("--even", percent(Math.min(1, 1 / left.length / HIGH)));
        parts.forEach((part, k) => { part.style.flexGrow = attended[k]; });
        beta.textContent = isLeft ? betaOf(t).toFixed(2) : "–";
      });
      for (const { own, weight, cross } of this.groups) {
        const count = own.filter((t) => left.includes(t)).length;
        weight.textContent = found ? `β ${own.reduce((sum, t) => sum + betaOf(t), 0).toFixed(2)}, equal ${(count / left.length).toFixed(2)}` : "";
        cross.textContent = count ? "Cross out" : "Put back";
      }
      this.rows.forEach(({ row, told, cells }, k) => {
        row.classList.toggle("question-right", k === described);
        told.replaceChildren(...text(this.told[k]));
        [found.answer, found.evenly].forEach((answer, i) => {
          cells[i].textContent = answer ? answer[k].toFixed(2) : "–";
          cells[i].style.setProperty("--part", percent(answer ? answer[k] : 0));
        });
      });
      this.verdict.replaceChildren(...this.judged(found));
    }

    judged(found) {
      if (!found) return ["No word attends. Put one back."];
      const judge = (name, answer) => {
        const best = argmax(answer);
        const isRight = best === this.example.described;
        return [`${name}: `, make("b", { class: isRight ? "play-right" : "play-wrong" },
          `description ${best + 1} ${isRight ? "✓" : "✗"}`), ` (${answer[best].toFixed(2)})`];
      };
      const isGone = !this.isRead && this.groups[this.sentence].own.every((t) => this.crossed.has(t));
      return [...judge("With β", found.answer), make("br"), ...judge("With equal weights", found.evenly),
        ...(isGone ? [make("br"), "It answers without the described sentence."] : [])];
    }
  }

  Elements.inPlaceOf("live-question", () => new Question().root);
})();
