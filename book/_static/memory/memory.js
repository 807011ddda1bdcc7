"use strict";

// Facts are written into four memories and read back, side by side. On the screen it takes the place of the still picture.
(() => {
  const { html: make, button, slider, press } = Elements;
  const CITIES = ["Rome", "Oslo", "Lima", "Cairo"];
  // Keys of norm 1 in four dimensions: four are orthogonal, and no fifth is orthogonal to them.
  const KEYS = {
    Anna: [1, 0, 0, 0], Ben: [0, 1, 0, 0], Cleo: [0, 0, 1, 0], Dan: [0, 0, 0, 1],
    Eva: [0.5, 0.5, 0.5, 0.5], Finn: [0.5, 0.5, -0.5, -0.5], Gus: [0.5, -0.5, 0.5, -0.5], Hana: [0.5, -0.5, -0.5, 0.5],
  };
  const STORIES = {
    "Anna moves": "Anna Rome, Ben Oslo, Anna Lima",
    "Everybody moves": "Anna Rome, Ben Oslo, Cleo Lima, Dan Cairo, Anna Lima, Ben Cairo, Cleo Rome, Dan Oslo",
    "Eight people": "Anna Lima, Ben Oslo, Cleo Rome, Dan Cairo, Eva Oslo, Finn Rome, Gus Lima, Hana Cairo",
  };
  const KINDS = {
    linear: ["Linear attention", "adds", "S ← S + k vᵀ"],
    decay: ["Decay", "forgets, then adds", "S ← γ S + k vᵀ"],
    delta: ["Delta rule", "replaces", "S ← S + k (v − Sᵀk)ᵀ"],
    softmax: ["Softmax attention", "keeps every key", "softmax(K q)ᵀ V"],
  };
  const MOST = 16; // facts
  const SIZE = { rows: 4, columns: CITIES.length };

  const factOf = (person, city) => ({ person, city, k: KEYS[person], v: CITIES.map((name) => Number(name === city)) });
  const nearZero = (x) => Math.abs(x) < 1e-9;
  const short = (x) => (Math.abs(x) < 0.005 ? "" : String(Number(x.toFixed(2))).replace("-", "−"));

  // The cities with the largest similarity, if any is above zero.
  function found(answer) {
    const largest = Math.max(...answer);
    return nearZero(largest) || largest < 0 ? [] : CITIES.filter((_, b) => nearZero(answer[b] - largest));
  }

  // One memory: its answer as bars, what it wrote last, and below what it keeps.
  class Card {
    constructor(name) {
      const [title, verb, formula] = KINDS[name];
      const line = (cell) => CITIES.map(() => cell());
      this.cities = CITIES.map((city) => make("th", { scope: "col" }, city));
      this.head = make("th", { scope: "col" });
      this.bars = line(() => make("td", {}, make("span"), make("div")));
      this.written = line(() => make("td"));
      this.lastWrite = make("tr", {}, make("th", { scope: "row" }, "wrote"), ...this.written);
      this.kept = make("tbody", { class: name === "softmax" ? "memory-list" : "memory-state" });
      this.verdict = make("p", { class: "memory-verdict" });
      this.tally = make("p", { class: "play-hint" });
      const headed = (head, cells, attributes = {}) => make("tr", attributes, make("th", { scope: "row" }, head), ...cells);
      this.root = make("div", { class: "memory-card", role: "group", "aria-label": title },
        make("p", {}, make("strong", {}, title), make("br"), verb),
        make("p", { class: "memory-formula" }, formula), this.verdict,
        make("table", {},
          make("thead", {}, make("tr", {}, this.head, ...this.cities)),
          make("tbody", {}, headed("reads", this.bars, { class: "memory-answer" }), this.lastWrite),
          this.kept),
        this.tally);
    }

    update({ answer, truth, says, isRight, wrote, head, kept, tally }) {
      const scale = Math.max(1, ...answer, ...answer.map((x) => -2 * x)); // below zero there is half the room
      this.verdict.className = `memory-verdict ${truth ? `play-${isRight ? "right" : "wrong"}` : ""}`;
      this.verdict.textContent = truth ? `${says} ${isRight ? "✓" : "✗"}` : "–";
      this.cities.forEach((cell, b) => cell.classList.toggle("memory-truth", CITIES[b] === truth));
      this.bars.forEach((cell, b) => {
        this.colour(cell, answer[b]);
        cell.firstChild.textContent = short(answer[b]);
        cell.style.setProperty("--part", Math.abs(answer[b]) / scale);
      });
      this.lastWrite.style.visibility = wrote ? "visible" : "hidden";
      this.written.forEach((cell, b) => { cell.textContent = wrote ? short(wrote[b]) : ""; });
      while (this.kept.rows.length > kept.length) this.kept.lastChild.remove();
      while (this.kept.rows.length < kept.length) {
        this.kept.append(make("tr", {}, make("th", { scope: "row" }), ...CITIES.map(() => make("td"))));
      }
      kept.forEach(({ head, values, changed }, a) => {
        const [name, ...cells] = this.kept.rows[a].children;
        name.textContent = head;
        cells.forEach((cell, b) => {
          this.colour(cell, values[b]);
          cell.textContent = short(values[b]);
          cell.classList.toggle("memory-changed", changed(b));
        });
      });
      this.head.textContent = head;
      this.tally.textContent = tally;
    }

    colour(cell, x) {
      cell.classList.toggle("memory-negative", x < 0);
      cell.style.setProperty("--heat", Math.min(1, Math.abs(x)).toFixed(3));
    }
  }

  class Memory {
    constructor() {
      this.decay = 0.5;
      this.cards = Object.fromEntries(Object.keys(KINDS).map((name) => [name, new Card(name)]));
      this.people = Object.keys(KEYS).map((person) => button(person, () => this.ask(person)));
      this.places = CITIES.map((city) => button(city, () => this.tell(city)));
      this.undo = button("Undo", () => this.facts.length && this.open(this.facts.slice(0, -1), this.asked));
      this.story = make("p", { class: "memory-story" });
      this.moves = make("b");
      this.spoken = make("p", { class: "play-unseen", role: "status" });
      const row = (label, attributes, ...parts) => make("div", { class: "play-row", role: "group", ...attributes }, label, ...parts);
      this.cards.decay.root.append(slider("Decay γ", { min: 0, max: 1, step: 0.05, value: this.decay },
        (decay) => { this.decay = decay; this.show(); }, (decay) => decay.toFixed(2)));
      this.root = make("section", { class: "play memory", "aria-label": "Four memories" },
        row("", { class: "play-row play-pills", "aria-label": "Examples" }, ...Object.keys(STORIES).map((name) =>
          button(name, () => this.open(STORIES[name].split(", ").map((fact) => factOf(...fact.split(" "))), "Anna"))),
          button("Empty", () => this.open([], "Anna"))),
        this.story,
        row(make("b", {}, "Where is"), { "aria-label": "Where is" }, ...this.people),
        row(this.moves, { "aria-label": "Write a fact" }, ...this.places, this.undo),
        make("div", { class: "memory-cards" }, ...Object.values(this.cards).map(({ root }) => root)),
        this.spoken,
        make("p", { class: "play-note" }, "Keys have norm 1: those of Anna, Ben, Cleo and Dan are orthogonal, the " +
          "others have a cosine of ½ or −½ with each of them. The states have no feature map and no " +
          `denominator; the scores of softmax attention are ${Memories.SCALE} times the cosine, less ${Memories.SLOPE} for ` +
          "each later fact (ALiBi). “Wrote” is what the last fact added along its key, and frames mark what that changed."));
      this.root.querySelector(".play-pills button").click();
    }

    open(facts, asked) {
      this.facts = facts;
      this.ask(asked);
    }

    ask(person) {
      this.asked = person;
      this.show();
    }

    tell(city) {
      if (this.facts.length < MOST) this.open([...this.facts, factOf(this.asked, city)], this.asked);
    }

    // What each memory returns for a person.
    read(name, person) {
      const q = KEYS[person];
      if (name !== "softmax") return Memories.read(q, this.states[name].S);
      return this.facts.length ? Memories.attend(q, this.facts).context : CITIES.map(() => 0);
    }

    show() {
      const { facts, asked } = this;
      this.states = Object.fromEntries(Object.keys(KINDS).slice(0, 3).map((name) =>
        [name, Memories.remember(name, facts, { ...SIZE, decay: this.decay })]));
      const truths = Object.fromEntries(facts.map(({ person, city }) => [person, city]));
      const rightOf = (name, person) => found(this.read(name, person)).join() === truths[person];
      const told = Object.keys(truths);
      const last = facts.at(-1);
      const said = [];
      for (const [name, card] of Object.entries(this.cards)) {
        const answer = this.read(name, asked);
        const cities = found(answer);
        const says = cities.length > 2 ? "undecided" : cities.join(" or ") || "nothing";
        const isRight = rightOf(name, asked);
        const right = told.filter((person) => rightOf(name, person)).length;
        const numbers = name === "softmax" ? facts.length * (SIZE.rows + SIZE.columns) : SIZE.rows * SIZE.columns;
        card.update({
          answer, says, isRight, truth: truths[asked], kept: this.kept(name),
          head: name === "softmax" ? "fact" : `${asked}’s key`,
          wrote: last?.person === asked ? (this.states[name]?.u ?? last.v) : undefined,
          tally: `${numbers} numbers · ${right} of ${told.length} right`,
        });
        if (truths[asked]) said.push(`${KINDS[name][0]}: ${says}, ${isRight ? "right" : "wrong"}`);
      }
      this.people.forEach((one) => press(one, one.textContent === asked));
      this.places.forEach((one) => one.setAttribute("aria-disabled", String(facts.length === MOST)));
      this.undo.setAttribute("aria-disabled", String(!facts.length));
      this.moves.textContent = `${asked} ${truths[asked] ? "moves to" : "is in"}`;
      this.story.replaceChildren("Text: ", ...facts.flatMap(({ person, city }, i) =>
        [i ? "\u00a0· " : "", make(person === asked ? "b" : "span", {}, `${person}\u00a0${city}`)]), facts.length ? "" : "nothing yet");
      this.spoken.textContent = `${asked}: ${said.join("; ") || "nothing told"}.`;
    }

    // The rows below the answer: of the state, with the key that reads it, or of the list, with the weights.
    kept(name) {
      const { facts, asked } = this;
      if (name === "softmax") {
        const weights = facts.length ? Memories.attend(KEYS[asked], facts).weights : [];
        return facts.map(({ person, v }, j) =>
          ({ head: person, values: v.map((x) => x * weights[j]), changed: (b) => v[b] && j === facts.length - 1 }));
      }
      const { S, before = S } = this.states[name];
      const fraction = (x) => ({ 0.5: "½", [-0.5]: "−½" })[x] ?? x;
      return S.map((values, a) =>
        ({ head: fraction(KEYS[asked][a]), values, changed: (b) => !nearZero(values[b] - before[a][b]) }));
    }
  }

  Elements.inPlaceOf("live-memory", () => new Memory().root);
})();
