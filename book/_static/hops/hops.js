"use strict";

// A question in two steps: facts that can be changed, and which of them the two layers of a ConvS2S attend to. On the
// screen it takes the place of the still picture.
(() => {
  const { html: make, svg, button, press, percent } = Elements;
  const { argmax, shuffled } = Tensors;
  const { things, facts: FACTS, asked: ASKED, steps, record } = HOPS_MODEL;
  const CHAINS = 3; // of two facts each, in training
  const CLEAR = 0.7; // the weight of a fact that is said to be read

  // One change, by which the chain that is asked for has three facts: its second fact leads on to another chain.
  function lengthened(facts, asked) {
    const inside = new Map(facts);
    const middle = inside.get(asked);
    const [joins] = facts.find(([a, b]) => !inside.has(b) && a !== middle);
    return facts.map(([a, b]) => [a, a === middle ? joins : b]);
  }

  // From a thing to where it is, and on, to the end or to where a circle closes.
  function chainOf(facts, asked) {
    const inside = new Map(facts);
    const chain = [asked];
    while (inside.has(chain.at(-1)) && chain.indexOf(chain.at(-1)) === chain.length - 1) chain.push(inside.get(chain.at(-1)));
    return chain;
  }

  // A question as in training.
  function sample() {
    const order = shuffled(things);
    const chains = Array.from({ length: CHAINS }, (_, i) => order.slice(3 * i, 3 * i + 3));
    return [shuffled(chains.flatMap(([a, b, c]) => [[a, b], [b, c]])), chains[0][0]];
  }

  class Hops {
    constructor() {
      this.withoutFirst = false;
      this.build();
      this.open(FACTS, ASKED);
    }

    build() {
      this.cut = button("Remove the first context", () => {
        this.withoutFirst = !this.withoutFirst;
        this.show();
      });
      this.answer = make("p", { class: "hops-answer" });
      this.reason = make("p", { class: "play-hint hops-reason" });
      this.rows = FACTS.map((_, i) => this.row(i));
      this.link = svg("svg", { viewBox: `0 0 1 ${FACTS.length}`, preserveAspectRatio: "none", "aria-hidden": "true" });
      this.rows[0].cells[0].after(make("td", { rowspan: FACTS.length, role: "presentation" }, this.link));
      const head = (text) => make("th", { scope: "col" }, text);
      this.root = make("section", { class: "play hops", "aria-label": "A question in two steps" },
        make("p", {}, make("strong", {}, "Move a thing by its menu, or press its name to ask where it is. Which fact does each layer read?")),
        make("div", { class: "play-row play-pills", role: "group", "aria-label": "Facts" },
          button("A chain of three", () => this.open(lengthened(FACTS, ASKED), ASKED)),
          button("Other facts", () => this.open(...sample())),
          button("Start again", () => {
            this.withoutFirst = false;
            this.open(FACTS, ASKED);
          }),
          this.cut),
        make("div", { role: "status" }, this.answer, this.reason),
        make("table", {},
          make("thead", {}, make("tr", {}, head("thing"), head("is in"),
            head("layer 1"), make("td", { role: "presentation" }), head("layer 2"))),
          make("tbody", {}, ...this.rows.map(({ root }) => root))),
        make("p", { class: "play-note" }, "A ConvS2S with two attending layers, trained as in this section for " +
          `${steps.toLocaleString("en")} steps on chains of two facts, and computed on this page. Of ${record.questions.toLocaleString("en")} test questions it answers ` +
          `${percent(record.right)}, and without the first context ${percent(record.rightWithoutFirstContext)}. Attention weights are sums over the two words of a fact. The curve is the first context.`));
    }

    // A fact: what it is about, where that is, and a cell for the weight of each layer.
    row(i) {
      const ask = button("", () => this.open(this.facts, this.facts[i][0]));
      const inside = make("select", {}, ...things.map((thing) => make("option", {}, thing)));
      inside.addEventListener("change", () =>
        this.open(this.facts.map(([a, b], k) => [a, k === i ? inside.value : b]), this.asked));
      const cells = [1, 2].map((layer) => make("td", { class: `hops-weight hops-layer-${layer}` }, make("span"), make("div")));
      const root = make("tr", {}, make("th", { scope: "row" }, ask), make("td", {}, inside), ...cells);
      return { root, ask, inside, cells };
    }

    open(facts, asked) {
      this.facts = facts;
      this.asked = asked;
      this.show();
    }

    show() {
      const { facts, asked, withoutFirst } = this;
      const found = HopsModel.answer(facts, asked, withoutFirst);
      const onFacts = found.weights.map((weights) => facts.map((_, i) => weights[2 * i] + weights[2 * i + 1]));
      const most = onFacts.map(argmax);
      press(this.cut, withoutFirst);
      this.rows.forEach(({ ask, inside, cells }, i) => {
        const [a, b] = facts[i];
        ask.textContent = a;
        press(ask, a === asked);
        ask.setAttribute("aria-label", `Where is the ${a}?`);
        inside.setAttribute("aria-label", `The ${a} is in`);
        [...inside.options].forEach((option) => { option.disabled = option.value === a; });
        inside.value = b;
        cells.forEach((cell, k) => {
          cell.classList.toggle("hops-most", i === most[k]);
          cell.firstChild.textContent = percent(onFacts[k][i]);
          cell.style.setProperty("--weight", onFacts[k][i].toFixed(3));
        });
      });
      const [from, to] = most.map((i) => i + 0.5);
      this.link.replaceChildren(...(withoutFirst ? [] : [svg("path", { d: `M0 ${from} C0.6 ${from} 0.4 ${to} 1 ${to}` })]));
      this.say(found, onFacts);
    }

    // The answer, whether it is where the chain ends, and what was read for it.
    say({ thing, probability }, onFacts) {
      const chain = chainOf(this.facts, this.asked);
      const isCircle = chain.indexOf(chain.at(-1)) < chain.length - 1;
      const isRight = thing === chain.at(-1);
      this.answer.replaceChildren(`Where is the ${this.asked}? `,
        make("span", { class: isCircle ? "" : `play-${isRight ? "right" : "wrong"}` },
          `In the ${thing}${isCircle ? "" : isRight ? " ✓" : " ✗"}`), ` (${percent(probability)})`);
      const reads = onFacts.map((weights, k) => {
        const [a, b] = this.facts[argmax(weights)];
        return `layer ${k + 1} reads ${Math.max(...weights) > CLEAR ? `“${a} in ${b}”` : "no fact clearly"}`;
      });
      const why = this.withoutFirst ? "Layer 2 does not receive what layer 1 has found."
        : chain.length === 2 ? `No fact says where the ${chain[1]} is.`
          : chain.length > 3 ? "Two layers take two steps." : "";
      this.reason.textContent = `${chain.join(" → ")}: ${reads.join(", ")}. ${why}`;
    }
  }

  Elements.inPlaceOf("live-hops", () => new Hops().root);
})();
