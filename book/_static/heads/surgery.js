"use strict";

// Head surgery: a number is translated by a small Transformer whose heads can be switched off. On the screen it
// takes the place of the still picture.
(() => {
  const { html: make, svg, button, press, percent } = Elements;
  const FIRST = 97000080;
  const MOST = 999999999; // the model has learned numbers below a billion
  const EXAMPLES = [97, 1984, 500, 97000080, 71091, 299792458];
  const VISIBLE = 0.03; // the smallest weight that is drawn
  const KINDS = {
    encoder: ["Encoder", "English words attend to English words"],
    decoder: ["Decoder", "French words attend to the French words so far"],
    cross: ["Cross-attention", "French words attend to English words"],
  };
  const signed = (value) => value.toFixed(2).replace("-", "−");
  const nameOf = ({ layer, head }) => `${layer + 1}.${head + 1}`;
  const fullName = (one) => `${KINDS[one.kind][0].toLowerCase()} head ${nameOf(one)}`;
  const pause = () => new Promise((resume) => setTimeout(resume));

  // How wrong a translation is, in words.
  function verdict(words, target) {
    if (words.join(" ") === target.join(" ")) return "exact";
    const wrong = NumberWords.rightWords(words, target).filter((right) => !right).length;
    const count = wrong || target.length - words.length;
    const value = NumberWords.valueOfFrench(words);
    const says = value ? `says ${NumberWords.withCommas(value)}` : "says no number";
    return `${count} ${count === 1 ? "word" : "words"} ${wrong ? "wrong or extra" : "missing"}, ${says}`;
  }

  // A small picture of one head's weights.
  function thumbnail(rows) {
    const columns = Math.max(...rows.map(({ weights }) => weights.length));
    const picture = svg("svg",
      { viewBox: `0 0 ${columns} ${rows.length}`, preserveAspectRatio: "none", "aria-hidden": "true" });
    rows.forEach(({ weights }, i) => weights.forEach((weight, j) => {
      if (weight < VISIBLE) return;
      picture.append(svg("rect", { x: j, y: i, width: 1, height: 1, "fill-opacity": weight.toFixed(2) }));
    }));
    return picture;
  }

  class Surgery {
    constructor() {
      this.off = new Set();
      this.selected = HeadsModel.HEADS.find(({ kind, layer, head }) => kind === "cross" && layer === 1 && head === 0);
      this.cards = new Map();
      this.build();
      this.open(FIRST);
    }

    build() {
      this.input = make("input", { id: "heads-input", type: "text", autocomplete: "off", spellcheck: "false",
        enterkeyhint: "go", "aria-describedby": "heads-problem" });
      const form = make("form", { class: "play-form" },
        make("label", { for: "heads-input" }, "Type a number below a billion"), this.input);
      form.addEventListener("submit", (event) => event.preventDefault());
      this.input.addEventListener("input", () => this.accept());
      const examples = make("div", { class: "play-row play-pills", role: "group", "aria-label": "Examples" },
        ...EXAMPLES.map((number) => button(NumberWords.withCommas(number), () => this.open(number))));
      this.problem = make("p", { class: "play-problem", id: "heads-problem", role: "status" });
      this.source = make("p", { class: "heads-words" });
      this.whole = make("p", { class: "heads-words" });
      this.cut = make("p", { class: "heads-words", role: "status" });
      const results = make("dl", { class: "heads-results" },
        make("dt", {}, "English"), make("dd", {}, this.source),
        make("dt", {}, "French, all heads on"), make("dd", {}, this.whole));
      const below = make("dl", { class: "heads-results heads-cut" },
        this.cutTitle = make("dt", {}, ""), make("dd", {}, this.cut));
      this.allOn = button("Switch all on", () => this.change(() => this.off.clear()));
      const groups = Object.entries(KINDS).map(([kind, [title, what]]) =>
        make("div", { class: "heads-group", role: "group", "aria-label": title },
          make("p", {}, make("strong", {}, title), make("br"), what),
          make("div", { class: "heads-grid" },
            ...HeadsModel.HEADS.filter((one) => one.kind === kind).map((one) => this.card(one)))));
      this.detail = make("div", { class: "heads-detail" });
      this.shown = make("div", {}, results, below,
        make("div", { class: "play-row play-pills" }, this.allOn),
        make("p", { class: "play-hint" }, "Switch heads off below. A head is needed if this " +
          "translation changes without it alone, else spare. Select a picture to see its weights."),
        make("div", { class: "heads-groups" }, ...groups), this.detail);
      this.root = make("section", { class: "play heads", "aria-label": "Head surgery" },
        form, examples, this.problem, this.shown, this.note());
    }

    note() {
      const { exactMatch, testNumbers, without } = HEADS_MODEL;
      const values = without.map(([, , , found]) => found);
      return make("p", { class: "play-note" },
        `A Transformer with two layers and four heads, trained as in this chapter and computed on this page. Of ` +
        `${testNumbers} test numbers it translates ${percent(exactMatch)} exactly; without one of its ` +
        `${without.length} heads, between ${percent(Math.min(...values))} and ${percent(Math.max(...values))}.`);
    }

    // One head: its picture, which selects it, and its switch.
    card(one) {
      const picture = button("", () => this.select(one), { class: "heads-picture" });
      const toggle = button("on", () => this.change(() => {
        if (!this.off.delete(one.id)) this.off.add(one.id);
      }), { class: "heads-switch", role: "switch", "aria-label": `${fullName(one)} is on` });
      const need = make("span", { class: "heads-need" }, "\u00a0");
      const title = make("span", {}, nameOf(one));
      const root = make("div", { class: "heads-card" }, picture, make("div", {}, title, toggle), need);
      this.cards.set(one.id, { root, picture, toggle, need });
      return root;
    }

    open(number) {
      this.input.value = NumberWords.withCommas(number);
      this.accept();
    }

    accept() {
      let { number, problem = "" } = NumberWords.read(this.input.value);
      if (number > MOST) problem = `That number is too large: this model has learned numbers up to ${NumberWords.withCommas(MOST)}.`;
      this.problem.textContent = problem;
      this.input.setAttribute("aria-invalid", String(problem !== ""));
      this.shown.inert = problem !== "";
      if (problem || number === this.number) return;
      this.number = number;
      this.english = NumberWords.english(number);
      this.target = NumberWords.french(number);
      this.intact = HeadsModel.translate(this.english);
      this.source.textContent = this.english.join(" ");
      this.write(this.whole, this.intact);
      this.change(() => {});
      this.weigh();
    }

    // Which heads this number needs: a translation without each, in small tasks.
    async weigh() {
      const number = this.number;
      for (const { need } of this.cards.values()) need.textContent = "\u00a0";
      for (const one of HeadsModel.HEADS) {
        await pause();
        if (number !== this.number) return;
        const { words } = HeadsModel.translate(this.english, new Set([one.id]));
        const isNeeded = words.join(" ") !== this.intact.words.join(" ");
        this.cards.get(one.id).need.textContent = isNeeded ? "needed" : "spare";
        this.cards.get(one.id).root.classList.toggle("heads-needed", isNeeded);
      }
    }

    change(act) {
      act();
      this.found = this.off.size ? HeadsModel.translate(this.english, this.off) : this.intact;
      const names = HeadsModel.HEADS.filter(({ id }) => this.off.has(id)).map(fullName);
      this.cutTitle.textContent = names.length === 1 ? `French, ${names[0]} off`
        : names.length ? `French, ${names.length} heads off` : "French, with heads off";
      if (names.length) this.write(this.cut, this.found);
      else this.cut.textContent = "Switch a head off to see what becomes of the translation.";
      this.allOn.disabled = !names.length;
      for (const [id, { root, picture, toggle }] of this.cards) {
        const one = HeadsModel.HEADS.find((head) => head.id === id);
        const isOn = !this.off.has(id);
        root.classList.toggle("heads-off", !isOn);
        toggle.textContent = isOn ? "on" : "off";
        toggle.setAttribute("aria-checked", String(isOn));
        picture.setAttribute("aria-label", `Show the weights of ${fullName(one)}`);
        press(picture, one === this.selected);
        picture.replaceChildren(thumbnail(this.rows(one)));
      }
      this.showHead();
    }

    rows({ kind, layer, head }) {
      return this.found.seen[`${kind}.${layer}`][head];
    }

    write(place, { words }) {
      const right = NumberWords.rightWords(words, this.target);
      const isExact = words.join(" ") === this.target.join(" ");
      place.replaceChildren(
        ...words.flatMap((word, i) => [right[i] ? word : make("span", { class: "play-wrong" }, `✗\u00a0${word}`), " "]),
        make("span", { class: isExact ? "play-right" : "play-wrong" },
          `${isExact ? "✓ " : "– "}${verdict(words, this.target)}`));
    }

    select(one) {
      this.selected = one;
      this.cell = null;
      for (const [id, { picture }] of this.cards) press(picture, id === one.id);
      this.showHead();
    }

    // The words of the selected head's rows and columns. The last row wrote the end.
    labels() {
      const written = ["<bos>", ...this.found.words];
      return {
        encoder: [this.english, this.english],
        decoder: [written, written],
        cross: [written, this.english],
      }[this.selected.kind];
    }

    // The weights of the selected head as a grid, one tab stop, arrow keys from cell to cell.
    showHead() {
      const rows = this.rows(this.selected);
      const [queries, keys] = this.labels();
      const last = rows.length - 1;
      const [i, j] = this.cell ?? [last, Tensors.argmax(rows[last].weights)];
      const best = [Math.min(i, last), Math.min(j, rows[Math.min(i, last)].weights.length - 1)];
      const grid = Elements.weightGrid(`Weights of ${fullName(this.selected)}`, [queries, keys],
        rows.map(({ weights }) => weights), (a, b) => this.showCell(grid, a, b));
      const { exactMatch } = this.selected;
      this.arithmetic = make("p", { class: "heads-arithmetic", "aria-live": "polite" });
      this.detail.replaceChildren(
        make("p", {}, make("strong", {}, `${fullName(this.selected)}`.replace(/^./, (x) => x.toUpperCase())),
          `: ${KINDS[this.selected.kind][1]}. Without it ${percent(exactMatch)} of the test numbers are exact ` +
          `(${signed(exactMatch - HEADS_MODEL.exactMatch)}). Choose a cell:`),
        make("div", { class: "heads-scroll", tabindex: 0, role: "region", "aria-label": "Weights" }, grid.table),
        this.arithmetic);
      this.showCell(grid, ...best);
    }

    // From the product of a query and a key to the weight of its value.
    showCell(grid, i, j) {
      grid.choose(i, j);
      this.cell = [i, j];
      const [queries, keys] = this.labels();
      const { products, weights } = this.rows(this.selected)[i];
      const root = Math.sqrt(HeadsModel.size);
      const others = products.length - 1;
      this.arithmetic.replaceChildren(
        "Query of ", make("b", { class: "heads-query" }, queries[i]), " · key of ",
        make("b", { class: "heads-key" }, keys[j]), ` = ${signed(products[j])}; divided by √${HeadsModel.size} = ${root}: `,
        `${signed(products[j] / root)}; after the softmax ${others ? `beside ${others} other ${others === 1 ? "key" : "keys"}` : "alone"}: `,
        make("b", {}, percent(weights[j], 1)), " of the value of ", make("b", { class: "heads-value" }, keys[j]), ".");
    }
  }

  Elements.inPlaceOf("live-heads", () => new Surgery().root);
})();
