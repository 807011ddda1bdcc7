"use strict";

// The words of a source are shuffled: what becomes of the weights of three kinds of self-attention, and of the answer. On
// the screen it takes the place of the still picture.
(() => {
  const { html: make, button, press, percent, weightGrid } = Elements;
  const { argmax, shuffled } = Tensors;
  const { labels, translations, heads, sources, measured } = SHUFFLE_MODEL;
  const FIRST = ["five", "deux", "twenty", "vingt"];
  const KINDS = {
    "dot product": ["Dot product", "qᵢ · kⱼ / √d"],
    dense: ["Dense", "hᵢ · wⱼ + bⱼ"],
    random: ["Random table", "Rᵢⱼ"],
  };
  const MOVES = { nothing: [false, false], "the rows": [true, false], "rows and columns": [true, true] };
  const permutations = (all) => (all.length
    ? all.flatMap((one) => permutations(all.filter((other) => other !== one)).map((rest) => [one, ...rest])) : [[]]);
  const ORDERS = permutations(FIRST.map((_, i) => i)); // the first leaves the words where they are
  const inBoth = (words) => Object.entries(translations).find((pair) => pair.every((word) => words.includes(word)));

  // Two English words and two French ones, of one number or of four.
  function otherWords(isShared) {
    const [a, b, c, d] = shuffled(Object.keys(translations));
    return shuffled([a, b, translations[isShared ? a : c], translations[d]]);
  }

  // How much of a row's weight is elsewhere, 0 to 1: the mean over the rows.
  const apart = (weights, expected) => weights.reduce((sum, line, i) =>
    sum + line.reduce((part, weight, j) => part + Math.abs(weight - expected(i, j)) / 2, 0), 0) / weights.length;

  class Card {
    constructor(kind, choose) {
      const [title, formula] = KINDS[kind];
      Object.assign(this, { kind, title, choose });
      this.verdict = make("p");
      this.now = make("div");
      this.before = make("div");
      this.pair = make("p", { class: "shuffle-pair" });
      this.bars = Object.keys(MOVES).map(() => make("td", {}, make("div"), make("span")));
      this.marks = ORDERS.map(() => make("span"));
      this.strip = make("div", { class: "shuffle-orders", role: "img" }, ...this.marks);
      this.tally = make("p", { class: "play-hint" });
      this.root = make("div", { class: "shuffle-card", role: "group", "aria-label": title },
        make("p", {}, make("strong", {}, title), ` ${formula}`), this.verdict,
        make("div", { class: "shuffle-grids" }, this.now, this.before), this.pair,
        make("table", { class: "shuffle-moves" },
          make("caption", {}, "Difference from the first order after moving"),
          make("tbody", {}, ...Object.keys(MOVES).map((name, m) => make("tr", {}, make("th", { scope: "row" }, name), this.bars[m])))),
        this.strip, this.tally);
    }

    update({ words, order, head, truth, results }) {
      const place = ORDERS.findIndex((one) => one.join() === order.join());
      const says = results.map(({ probabilities }) => argmax(probabilities));
      const isRight = says.map((one) => labels[one] === truth);
      const { weights, probabilities } = results[place];
      const [first, now] = [results[0].weights[head], weights[head]];
      this.verdict.className = isRight[place] ? "play-right" : "play-wrong";
      this.verdict.textContent = this.said = `${labels[says[place]]}, ${percent(probabilities[says[place]])} ${isRight[place] ? "✓" : "✗"}`;
      this.grids = [[this.now, "Now", order, now], [this.before, "First order", ORDERS[0], first]].map(([where, when, indices, rows]) => {
        const shown = indices.map((i) => words[i]);
        const grid = weightGrid(`${this.title}, ${when.toLowerCase()}`, [shown, shown], rows,
          (i, j) => this.choose(indices[i], indices[j]), (weight) => String(Math.round(100 * weight)));
        where.replaceChildren(make("p", { class: "play-hint" }, when), grid.table);
        return [grid, indices, rows];
      });
      const distances = Object.values(MOVES).map(([rows, columns]) => apart(now, (i, j) =>
        first[rows ? order[i] : i][columns ? order[j] : j]));
      const least = Math.min(...distances);
      this.bars.forEach((cell, m) => {
        cell.style.setProperty("--part", distances[m].toFixed(3));
        cell.lastChild.textContent = percent(distances[m]);
        cell.parentElement.classList.toggle("shuffle-least", place > 0 && distances[m] === least);
      });
      this.marks.forEach((mark, one) => {
        mark.className = isRight[one] ? "shuffle-right" : "shuffle-wrong";
        mark.classList.toggle("shuffle-here", one === place);
      });
      const count = isRight.filter(Boolean).length;
      this.tally.textContent = `right in ${count} of ${ORDERS.length} orders`;
      this.strip.setAttribute("aria-label", `${this.title}: ${this.tally.textContent}`);
    }

    mark([a, b], words) {
      const [now, before] = this.grids.map(([grid, indices, rows]) => {
        const [i, j] = [indices.indexOf(a), indices.indexOf(b)];
        grid.choose(i, j);
        return rows[i][j];
      });
      this.pair.replaceChildren(make("b", { class: "shuffle-query" }, words[a]), " to ", make("b", { class: "shuffle-key" }, words[b]),
        `: ${percent(now)}, was ${percent(before)}`);
    }
  }

  class Shuffle {
    constructor() {
      this.head = 0;
      this.cards = Object.keys(KINDS).map((kind) => new Card(kind, (a, b) => this.mark([a, b])));
      this.chips = FIRST.map((_, i) => button("", () => this.pick(i)));
      this.pills = Array.from({ length: heads }, (_, head) => button(String(head + 1), () => this.show({ head }), { "aria-label": `Head ${head + 1}` }));
      this.solution = make("b");
      this.spoken = make("p", { class: "play-unseen", role: "status" });
      const all = (name) => this.cards.map(({ kind, title }) => `${title.toLowerCase()} ${percent(measured[kind][name])}`).join(", ");
      this.root = make("section", { class: "play shuffle", "aria-label": "Shuffled words" },
        make("p", { class: "play-hint" }, "Shuffle the words, or select two to swap them. Which weights follow?"),
        make("div", { class: "play-row", role: "group", "aria-label": "Words" }, ...this.chips),
        make("div", { class: "play-row play-pills" },
          button("Shuffle", () => this.show({ order: shuffled(ORDERS.filter((one) => one.join() !== this.order.join()))[0] })),
          button("Reverse", () => this.show({ order: [...this.order].reverse() })),
          button("First order", () => this.show({ order: ORDERS[0] })),
          button("Other words", () => this.open(otherWords(!inBoth(this.words))))),
        make("p", {}, "Is one number there in both languages? ", this.solution),
        make("div", { class: "play-row play-pills shuffle-heads", role: "group", "aria-label": "Head" }, "Weights of head", ...this.pills),
        make("div", { class: "shuffle-cards" }, ...this.cards.map(({ root }) => root)), this.spoken,
        make("p", { class: "play-note" }, "The classifiers of this section, computed on this page. A row has the weights of its " +
          "word, in percent; frames mark a pair of words: select another. Bars compare the weights with those " +
          "of the first order, moved with their words or not. A square is an order of the words, filled if the answer " +
          `is right. Right on ${sources} test sources: ${all("accuracy")}. The same answer in all ${ORDERS.length} orders: ${all("same")}.`));
      this.open(FIRST);
    }

    open(words) {
      this.words = words;
      const pair = inBoth(words);
      this.solution.textContent = pair ? `Yes, shared: ${pair.join(" = ")}` : "No, none shared";
      this.truth = pair ? "shared" : "none shared";
      this.pair = pair ? pair.map((word) => words.indexOf(word)).reverse() : [0, 1];
      this.results = this.cards.map(({ kind }) => ORDERS.map((order) => ShuffleModel[kind](order.map((i) => words[i]))));
      this.show({ order: [...ORDERS[0]].reverse() });
    }

    pick(i) {
      if (this.picked === undefined) return this.show({ picked: i });
      const order = [...this.order];
      [order[i], order[this.picked]] = [order[this.picked], order[i]];
      this.show({ order });
    }

    show(changed) {
      Object.assign(this, { picked: undefined }, changed);
      const { words, order, head, truth } = this;
      this.chips.forEach((chip, i) => {
        chip.replaceChildren(make("small", {}, `${i + 1} `), words[order[i]]);
        press(chip, i === this.picked);
      });
      this.pills.forEach((pill, i) => press(pill, i === head));
      this.cards.forEach((card, k) => card.update({ words, order, head, truth, results: this.results[k] }));
      const spoken = `${order.map((i) => words[i]).join(" ")}. ${this.cards.map(({ title, said }) => `${title}: ${said}`).join("; ")}`;
      if (spoken !== this.spoken.textContent) this.spoken.textContent = spoken; // else it is said again
      this.mark(this.pair);
    }

    mark(pair) {
      this.pair = pair;
      this.cards.forEach((card) => card.mark(pair, this.words));
    }
  }

  Elements.inPlaceOf("live-shuffle", () => new Shuffle().root);
})();
