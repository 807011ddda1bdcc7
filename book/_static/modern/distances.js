"use strict";

// Positions as distances: a query and a key are moved along a line, and the hands of rotary positions turn; below them,
// what the distance does to the score, with ALiBi beside it. On the screen it takes the place of the still picture.
(() => {
  const { html: make, svg, button, slider } = Elements;
  const LENGTH = 32; // positions of the line
  const FAR = 900;
  const JUMP = 8; // positions, by Page Up and Page Down
  const HEADS = 8;
  const VECTOR = [1, 0, 1, 0, 1, 0, 1, 0]; // query and key: at position 0 both hands of each clock point up
  const THETAS = Modern.frequencies(VECTOR.length);
  const HIGHEST = Modern.rotaryScore(VECTOR, 0, VECTOR, 0);
  const [TOP, BOTTOM] = [1.6, -3]; // of the plot
  const HANDLES = {
    both: ["", "both positions"], // its words are the distance
    query: ["q", "position i of the query"],
    key: ["k", "position j of the key"],
  };
  const signed = (value, digits = 2) => value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−");

  // Where a hand ends that has turned clockwise from the top to (cos, sin).
  const tip = ([cos, sin]) => `${(40 * sin).toFixed(2)} ${(-40 * cos).toFixed(2)}`;

  // The hands of one pair, and the angle from the key's to the query's, less whole turns.
  function clock(queryHand, keyHand, angle) {
    const isLarge = angle % (2 * Math.PI) > Math.PI ? 1 : 0;
    const sector = `M0 0L${tip(keyHand)}A40 40 0 ${isLarge} 1 ${tip(queryHand)}Z`;
    return [
      svg("circle", { r: 45 }), svg("path", { d: sector }),
      svg("path", { class: "modern-key", d: `M0 0L${tip(keyHand)}` }),
      svg("path", { class: "modern-query", d: `M0 0L${tip(queryHand)}` }),
    ];
  }

  class Distances {
    constructor() {
      Object.assign(this, { i: 5, j: 2, start: 0, slope: 1 / 4 });
      this.build();
      this.update();
      this.said.textContent = "Drag q, k or the bar between them, which moves both; or use the arrow keys.";
    }

    build() {
      this.handles = Object.keys(HANDLES).map((name) => this.handle(name));
      this.ticks = Array.from({ length: LENGTH / 4 }, (_, n) =>
        make("span", { style: `--at: ${(4 * n) / (LENGTH - 1)}` }));
      this.line = make("div", { class: "modern-line" }, ...this.ticks, ...this.handles);
      this.where = make("p");
      this.said = make("p", { class: "modern-said", role: "status" });
      this.far = button("", () => this.act("both", this.j + (this.start ? -FAR : FAR), this.start ? 0 : FAR));
      this.clocks = THETAS.map(() => [svg("svg", { viewBox: "-48 -48 96 96", "aria-hidden": "true" }), make("p")]);
      this.sum = make("p");
      const head = slider("ALiBi, head a of 8", { min: 1, max: HEADS, value: 2 }, (a) => {
        this.slope = Modern.slope(a, HEADS);
        this.update();
      }, (a) => `${a}, slope 1/${1 / Modern.slope(a, HEADS)}`);
      this.bias = make("p");
      this.plot = svg("svg", { viewBox: `0 ${-TOP} ${LENGTH - 1} ${TOP - BOTTOM}`, preserveAspectRatio: "none" });
      const levels = [1, 0, -1, -2].map((y) =>
        make("span", { class: "modern-level", style: `--at: ${(TOP - y) / (TOP - BOTTOM)}` }, signed(y, 0)));
      const distances = [0, 8, 16, 24].map((far) => make("span", { style: `--at: ${far / (LENGTH - 1)}` }, String(far)));
      this.root = make("section", { class: "play modern", "aria-label": "Positions as distances" },
        make("div", { class: "play-row play-pills" }, this.where, this.far), this.line, this.said,
        make("div", { class: "modern-clocks" }, ...this.clocks.map((parts) => make("div", {}, ...parts))),
        make("div", { class: "modern-pair" },
          make("div", {}, this.sum, this.bias, head),
          make("div", { "aria-hidden": "true" },
            make("p", { class: "play-hint" }, "Score by distance: ", make("b", {}, "rotary"), ", ",
              make("span", { class: "modern-alibi" }, "ALiBi (dashed)")),
            make("div", { class: "modern-plot" }, this.plot, ...levels, ...distances))),
        make("p", { class: "play-note" }, "Query and key are the same vector, (1, 0) in each of four pairs of dimensions, " +
          "which turn by θ a position (12.2). The sector is the angle between them."));
    }

    // A slider on the line: dragged, or moved by keys.
    handle(name) {
      const [words, label] = HANDLES[name];
      const kind = `modern-handle modern-at-${name}`;
      const handle = make("div", { class: kind, role: "slider", tabindex: 0, "aria-label": label }, words);
      let grabbed = null;
      handle.addEventListener("pointerdown", (event) => {
        handle.setPointerCapture(event.pointerId);
        handle.focus();
        grabbed = this.pointed(event) - this.place(name);
        this.before = null;
      });
      handle.addEventListener("pointermove", (event) => {
        if (grabbed !== null) this.act(name, Math.round(this.pointed(event) - grabbed), this.start, true);
      });
      handle.addEventListener("lostpointercapture", () => { grabbed = null; });
      handle.addEventListener("keydown", (event) => {
        const place = this.place(name);
        const [least, most] = this.range(name);
        const next = {
          ArrowRight: place + 1, ArrowUp: place + 1, PageUp: place + JUMP, End: most,
          ArrowLeft: place - 1, ArrowDown: place - 1, PageDown: place - JUMP, Home: least,
        }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        this.act(name, next);
      });
      return handle;
    }

    // The position under the pointer, between two of them too.
    pointed({ clientX }) {
      const { left, width } = this.line.getBoundingClientRect();
      return this.start + ((clientX - left) / width) * (LENGTH - 1);
    }

    place(name) {
      return name === "query" ? this.i : this.j;
    }

    // A key is not after its query: attention is causal.
    range(name) {
      const [first, last] = [this.start, this.start + LENGTH - 1];
      return { query: [this.j, last], key: [first, this.i], both: [first, last - (this.i - this.j)] }[name];
    }

    // Move one or both, and say what becomes of the score since then or, in a drag, since its beginning.
    act(name, wanted, start = this.start, goesOn = false) {
      if (!goesOn || !this.before) this.before = { distance: this.i - this.j, score: this.rotary() };
      this.start = start;
      const [least, most] = this.range(name);
      const shift = Math.min(most, Math.max(least, wanted)) - this.place(name);
      if (!shift) return;
      if (name !== "key") this.i += shift;
      if (name !== "query") this.j += shift;
      this.update();
      const { distance, score } = this.before;
      this.said.textContent = name === "both"
        ? `Both have moved, and all hands have turned. Distance and score are still ${distance} and ${signed(this.rotary())}.`
        : `Distance ${distance} → ${this.i - this.j}, score ${signed(score)} → ${signed(this.rotary())}.`;
    }

    rotary() {
      return Modern.rotaryScore(VECTOR, this.i, VECTOR, this.j);
    }

    update() {
      const { i, j } = this;
      const distance = i - j;
      this.where.replaceChildren("Query at position ", make("b", { class: "modern-query" }, `i = ${i}`), ", key at ",
        make("b", { class: "modern-key" }, `j = ${j}`), ", distance ", make("b", {}, `i − j = ${distance}`));
      this.ticks.forEach((tick, n) => { tick.textContent = this.start + 4 * n; });
      this.line.style.setProperty("--i", (i - this.start) / (LENGTH - 1));
      this.line.style.setProperty("--j", (j - this.start) / (LENGTH - 1));
      this.handles.forEach((handle, n) => {
        const name = Object.keys(HANDLES)[n];
        const [least, most] = this.range(name);
        const said = name === "both" ? `query ${i}, key ${j}` : `${this.place(name)}, distance ${distance}`;
        const values = { min: least, max: most, now: this.place(name), text: said };
        for (const [key, value] of Object.entries(values)) handle.setAttribute(`aria-value${key}`, value);
      });
      this.handles[0].textContent = distance;
      this.far.textContent = this.start ? `Both ${FAR} back` : `Both ${FAR} on`;
      this.turn(distance);
      this.draw(distance);
    }

    turn(distance) {
      const [query, key] = [Modern.rotate(VECTOR, this.i), Modern.rotate(VECTOR, this.j)];
      const products = THETAS.map((theta, t) => {
        const [q, k] = [query, key].map((vector) => vector.slice(2 * t, 2 * t + 2));
        const product = q[0] * k[0] + q[1] * k[1]; // the cosine of the angle
        const [picture, words] = this.clocks[t];
        picture.replaceChildren(...clock(q, k, distance * theta));
        words.replaceChildren(`θ = ${theta}`, make("br"),
          `${distance}θ = ${signed(distance * theta, theta < 0.01 ? 3 : 2)}`, make("br"), `cos = ${signed(product)}`);
        return product;
      });
      const sum = products.map((product) => signed(product)).join(" + ").replaceAll("+ −", "− ");
      this.sum.replaceChildren(make("b", {}, "Rotary"), ` (12.1): (${sum}) / √8\u00a0=\u00a0`, make("b", {}, signed(this.rotary())));
    }

    // What ALiBi does, and both scores by distance.
    draw(distance) {
      const biased = (far) => Modern.alibiScore(VECTOR, far, VECTOR, 0, this.slope);
      const turned = (far) => Modern.rotaryScore(VECTOR, far, VECTOR, 0);
      this.bias.replaceChildren(make("b", { class: "modern-alibi" }, "ALiBi"),
        ` (12.3): ${signed(HIGHEST)} − ${distance}/${1 / this.slope} = `, make("b", {}, signed(biased(distance))),
        `, weight\u00a0×\u00a0${Math.exp(-this.slope * distance).toPrecision(2)}`);
      const curve = (name, score) => {
        const points = Array.from({ length: 4 * (LENGTH - 1) + 1 }, (_, n) => `${n / 4} ${(-score(n / 4)).toFixed(3)}`);
        const dot = svg("path", { class: `${name} modern-dot`, d: `M${distance} ${-score(distance)}h.01` });
        return [svg("path", { class: name, d: `M${points.join("L")}` }), dot];
      };
      this.plot.replaceChildren(svg("path", { d: `M0 0H${LENGTH}` }), svg("path", { d: `M${distance} ${-TOP}V${-BOTTOM}` }),
        ...curve("modern-rotary", turned), ...curve("modern-alibi", biased));
    }
  }

  Elements.inPlaceOf("live-distances", () => new Distances().root);
})();
