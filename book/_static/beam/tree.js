"use strict";

// The tree of a beam search on one's own number: what each step keeps, ends and drops, and what is found.
(() => {
  const { html: make, svg, button, slider, percent } = Elements;
  const { search, judge, wordsOf, EOS } = BeamSearch;
  const FIRST = 7164;
  const EXAMPLES = [7164, 500, 914005000067, 1984, 6925];
  const WIDTH = { min: 1, max: 5, step: 1, value: 2 };
  const ALPHA = { min: 0, max: 4, step: 0.5, value: 0 };
  const BADGE = ["1st", "2nd", "3rd", "4th", "5th"];
  const signed = (value) => value.toFixed(2).replace("-0.00", "0.00").replace("-", "−");
  const wordOf = (token) => (token === EOS ? "<eos>" : token === undefined ? "<bos>" : LIVE_MODEL.target[token]);
  const startsWith = ({ tokens }, prefix) => prefix.tokens.every((token, i) => tokens[i] === token);
  const same = (a, b) => a.tokens.join() === b.tokens.join();

  class BeamTree {
    constructor() {
      this.width = WIDTH.value;
      this.alpha = ALPHA.value;
      this.build();
      this.open(FIRST);
    }

    build() {
      this.input = make("input", { id: "beam-input", type: "text", autocomplete: "off", spellcheck: "false",
        enterkeyhint: "go", "aria-describedby": "beam-problem" });
      this.input.addEventListener("input", () => this.accept());
      const form = make("form", { class: "play-form" }, make("label", { for: "beam-input" }, "Type a number"), this.input);
      form.addEventListener("submit", (event) => event.preventDefault());
      this.problem = make("p", { class: "play-problem", id: "beam-problem", role: "status" });
      this.verdict = make("p", { class: "beam-verdict", role: "status" });
      this.tree = make("div", { class: "beam-tree", role: "grid", "aria-label": "Prefixes that the beam keeps" });
      this.found = make("table");
      this.step = make("table", { class: "beam-step" });
      this.shown = make("div", {},
        make("div", { class: "beam-sliders" },
          slider("Beam width B", WIDTH, (width) => this.change({ width })),
          slider("Length penalty α", ALPHA, (alpha) => this.change({ alpha }))),
        this.verdict,
        make("p", { class: "play-hint" },
          make("span", { class: "beam-of-best" }, "Best hypothesis"), ", ",
          make("span", { class: "beam-of-greedy" }, "greedy decoding"),
          ", each with its log-probability; pale prefixes lead to no hypothesis. Select a prefix to see what follows."),
        make("div", { class: "beam-parts" }, this.tree, make("div", {}, this.found, this.step)));
      this.root = make("section", { class: "play beam", "aria-label": "Beam search" },
        form,
        make("div", { class: "play-row play-pills", role: "group", "aria-label": "Examples" },
          ...EXAMPLES.map((number) => button(NumberWords.withCommas(number), () => this.open(number)))),
        this.problem, this.shown,
        make("p", { class: "play-note" }, "The model without attention of chapter 2, computed on this page: an encoder of two " +
          `directions and a decoder that gets one vector. By greedy decoding ${percent(LIVE_MODEL.exactMatch.withoutAttention)} of ` +
          `${LIVE_MODEL.testNumbers} test numbers are exact.`));
    }

    open(number) {
      this.input.value = NumberWords.withCommas(number);
      this.accept();
    }

    accept() {
      const { number, problem = "" } = NumberWords.read(this.input.value);
      this.problem.textContent = problem;
      this.input.setAttribute("aria-invalid", String(problem !== ""));
      this.shown.inert = problem !== "";
      if (!problem) this.change({ number });
    }

    change(changes) {
      Object.assign(this, changes);
      const english = NumberWords.english(this.number);
      this.target = NumberWords.french(this.number);
      this.reference = judge(english, this.target, this.alpha);
      this.greedy = search(english, 1).found[0];
      this.result = search(english, this.width, this.alpha);
      this.best = this.result.found[0];
      this.verdict.replaceChildren(...this.judged());
      this.drawTree();
      this.listFound();
    }

    // Whether the search or the model is wrong, if one is.
    judged() {
      const [{ best, reference }, count] = [this, this.result.found.length];
      const kind = same(best, reference) ? "✓ Exact" : reference.score > best.score ? "Search error" : "Model error";
      const rank = this.result.found.findIndex((one) => same(one, reference));
      const scores = `(${signed(reference.score)} and ${signed(best.score)})`;
      const better = this.alpha ? "has a better score" : "is more probable";
      const why = {
        "✓ Exact": "the best hypothesis is the reference.",
        "Search error": `the reference ${better} than the best hypothesis ${scores}, and the search has lost it.`,
        "Model error": `the best hypothesis ${better} than the reference ${scores.replace(/\((.*) and (.*)\)/, "($2 and $1)")}, ` +
          `so no better search helps. ${rank > 0 ? `The reference is ${BADGE[rank]} of ${count}.` : "The reference is not in the beam."}`,
      }[kind];
      const english = NumberWords.english(this.number).join(" ");
      return [make("strong", { class: kind[0] === "✓" ? "play-right" : "play-wrong" }, `${kind}: `), why, make("br"), `English: ${english}`];
    }

    classOf(prefix) {
      const names = [];
      if (startsWith(this.best, prefix)) names.push("beam-best");
      if (startsWith(this.greedy, prefix)) names.push("beam-greedy");
      if (!this.result.found.some((one) => startsWith(one, prefix))) names.push("beam-dead");
      return names.join(" ");
    }

    // A row for each step: lines from the prefixes before, and the prefixes that it keeps. Where one has ended as one of
    // the hypotheses, it says as which.
    drawTree() {
      const { steps, found } = this.result;
      const kept = [[{ tokens: [], logProb: 0 }], ...steps.map((all) => all.filter(({ fate }) => fate === "kept"))];
      this.cells = kept.map((row) => row.map((prefix) => {
        const rank = found.findIndex((one) => one.tokens.at(-1) === EOS && same({ tokens: one.tokens.slice(0, -1) }, prefix));
        const word = wordOf(prefix.tokens.at(-1));
        return make("div", { class: `beam-cell ${this.classOf(prefix)}`, role: "gridcell", tabindex: -1 },
          make("span", {}, word), make("small", {}, signed(prefix.logProb)),
          ...(rank < 0 ? [] : [make("em", {}, `end, ${BADGE[rank]}`)]));
      }));
      const rows = this.cells.map((cells, t) => {
        const lines = svg("svg", { viewBox: `0 0 ${this.width} 1`, preserveAspectRatio: "none", "aria-hidden": "true" },
          ...(t ? kept[t] : []).map((prefix, slot) => svg("line",
            { x1: prefix.parent + 0.5, y1: 0, x2: slot + 0.5, y2: 1, class: this.classOf(prefix) })));
        return make("div", { class: "beam-row", role: "row" }, ...(t ? [lines] : []), ...cells);
      }).filter((row) => row.querySelector("[role]"));
      this.cells = this.cells.filter((row) => row.length);
      this.tree.style.setProperty("--width", this.width);
      this.tree.replaceChildren(...rows);
      Elements.walk(this.cells, (t, slot) => this.showStep(t, slot));
      // At first, the step at which the best hypothesis and greedy decoding part.
      const parting = this.best.tokens.findIndex((token, i) => token !== this.greedy.tokens[i]);
      const t = Math.min(Math.max(parting, 0), this.cells.length - 1);
      this.showStep(t, Math.max(kept[t].findIndex((prefix) => startsWith(this.best, prefix)), 0));
    }

    listFound() {
      const rows = this.result.found.map((one, rank) => this.hypothesis(BADGE[rank], one));
      if (!this.result.found.some((one) => same(one, this.reference))) rows.push(this.hypothesis("–", this.reference));
      this.found.replaceChildren(
        make("caption", {}, "Hypotheses found", rows.length > this.result.found.length ? ", and the reference" : ""),
        make("tbody", {}, ...rows));
    }

    hypothesis(rank, one) {
      const words = wordsOf(one);
      const value = NumberWords.valueOfFrench(words);
      const says = value ? NumberWords.withCommas(value) : "no number";
      return make("tr", { class: startsWith(this.best, one) ? "beam-best" : "" },
        make("th", { scope: "row" }, rank),
        make("td", {}, `${words.join(" ")} `,
          make("span", { class: same(one, this.reference) ? "play-right" : "play-wrong" },
            same(one, this.reference) ? "✓" : one.tokens.at(-1) === EOS ? `(${says})` : "(unfinished)")),
        make("td", {}, signed(one.logProb), ...(this.alpha ? [make("br"), `score ${signed(one.score)}`] : [])));
    }

    // The competition that follows a prefix: the extensions of the step, those of this prefix marked.
    showStep(t, slot) {
      this.cells.flat().forEach((cell) => {
        cell.tabIndex = -1;
        cell.classList.remove("beam-chosen");
      });
      this.cells[t][slot].tabIndex = 0;
      this.cells[t][slot].classList.add("beam-chosen");
      const { steps } = this.result;
      const extensions = steps[t] ?? [];
      this.step.replaceChildren(
        make("caption", {}, extensions.length ? `Step ${t + 1}: the ${extensions.length} best extensions` : "No step follows: the search has ended"),
        make("tbody", {}, ...extensions.map(({ tokens, parent, logProb, added, fate }) =>
          make("tr", { class: parent === slot ? "beam-chosen" : "" },
            make("th", { scope: "row" }, `${wordOf(tokens.at(-2))} → ${wordOf(tokens.at(-1))}`),
            make("td", {}, `${signed(logProb - added)} ${added < 0 ? "−" : "+"} ${Math.abs(added).toFixed(2)} = ${signed(logProb)}`),
            make("td", { class: `beam-${fate}` }, fate)))));
    }
  }

  Elements.inPlaceOf("live-beam", () => new BeamTree().root);
})();
