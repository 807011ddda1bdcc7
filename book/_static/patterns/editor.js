"use strict";

// The pattern editor: what one layer of a sparse pattern computes, and what several of them reach.
(() => {
  const { html: make, svg, button, slider, press } = Elements;
  const { N, SIDE } = Patterns;
  const MOST = 4; // layers
  const [WIDE, HIGH] = [10 * N, 210]; // of the layers' drawing
  const SIZES = {
    radius: { name: "Radius r", of: ["local", "sparse", "in turn"] },
    rate: { name: "Rate ρ", of: ["atrous", "sparse", "in turn"] },
    stride: { name: "Stride ℓ", of: ["strided", "fixed"] },
    expressive: { name: "Last positions c", of: ["fixed"] },
  };
  const SAID = {
    local: ({ radius }) => `|i − j| ≤ ${radius}`,
    atrous: ({ rate }) => `(i − j) mod ${rate} = 0`,
    sparse: (sizes) => `${SAID.local(sizes)} or ${SAID.atrous(sizes)}`,
    "in turn": (sizes) => `${SAID.atrous(sizes)} in layers 1 and 3, ${SAID.local(sizes)} in layers 2 and 4`,
    strided: ({ stride }) => `i − j ≤ ${stride} or (i − j) mod ${stride} = 0`,
    fixed: ({ stride, expressive }) =>
      `⌊j / ${stride}⌋ = ⌊i / ${stride}⌋ or j mod ${stride} ≥ ${stride - expressive}`,
  };
  const grouped = (count) => count.toLocaleString("en");
  const inLayers = (count) => `${count} ${count === 1 ? "layer" : "layers"}`;

  // A percentage that is 100 only if nothing is missing.
  function percent(part, whole) {
    const value = part < whole ? Math.min(Math.round((1000 * part) / whole) / 10, 99.9) : 100;
    return `${value}\u00a0%`;
  }

  // The squares of a matrix as one path, with one rectangle for neighbours in a row.
  function squares(rows, isDrawn, side = 1) {
    let d = "";
    rows.forEach((row, i) => {
      for (let j = 0; j < row.length; j++) {
        const begin = j;
        while (j < row.length && isDrawn(row[j])) j++;
        if (j > begin) d += `M${begin * side} ${i * side}h${(j - begin) * side}v${side}h${(begin - j) * side}z`;
      }
    });
    return d;
  }

  // Buttons that are pressed or not.
  const choice = (words, onClick) => button(words, onClick, { "aria-pressed": "false" });
  const row = (name, buttons) =>
    make("div", { class: "play-row play-pills", role: "group", "aria-label": name }, ...buttons);

  // A square matrix to point at.
  function matrix(onPoint) {
    const picture = svg("svg", { viewBox: `0 0 ${N} ${N}`, role: "img" });
    point(picture, onPoint);
    return { picture, title: make("p", { class: "patterns-title" }), numbers: make("p") };
  }

  // Tells the row and the column of N where a mouse is, or a finger taps.
  function point(picture, onPoint) {
    const at = (event) => {
      const { left, top, width, height } = picture.getBoundingClientRect();
      const cell = (part) => Math.max(0, Math.min(N - 1, Math.floor(part * N)));
      onPoint(cell((event.clientY - top) / height), cell((event.clientX - left) / width));
    };
    picture.addEventListener("pointerdown", at);
    picture.addEventListener("pointermove", (event) => event.pointerType === "mouse" && at(event));
  }

  // What is reached after 1, 2, … layers is paler and paler.
  const after = (layer) => ({ class: "patterns-after", style: `--shade: ${[1, 0.65, 0.42, 0.24][layer - 1]}` });
  const key = (...parts) => make("p", { class: "patterns-key" },
    ...parts.map(([attributes, words]) => make("span", {}, make("i", attributes), words)));

  class Editor {
    constructor() {
      this.state = { pattern: "atrous", radius: 4, rate: 8, stride: 8, expressive: 2, causal: false, isSorted: false,
        layers: MOST, query: 37, key: 10 };
      this.build();
      this.change({});
    }

    build() {
      const change = (changes) => this.change(changes);
      this.patterns = Patterns.NAMES.map((pattern) => choice(pattern, () => change({ pattern })));
      this.sizes = Object.fromEntries(Object.entries(SIZES).map(([size, { name }]) =>
        [size, slider(name, { min: 1, max: 16 }, (value) => change({ [size]: value }))]));
      this.causal = choice("causal", () => change({ causal: !this.state.causal }));
      this.sorted = choice("sort by class", () => change({ isSorted: !this.state.isSorted }));
      this.layers = Array.from({ length: MOST }, (_, t) => choice("", () => change({ layers: t + 1 })));
      this.rule = make("p", { class: "patterns-rule" });
      this.mask = matrix((row, column) => change({ query: this.order[row], key: this.order[column] }));
      this.reach = matrix((query, column) => change({ query, key: column }));
      const last = { min: 0, max: N - 1 };
      this.query = slider("Query i, at the top", last, (query) => change({ query }));
      this.key = slider("Key j, an input", last, (input) => change({ key: input }));
      this.stage = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img" });
      point(this.stage, (row, column) => change({ key: column }));
      this.told = make("p", { class: "patterns-told", "aria-live": "polite" });
      this.root = make("section", { class: "play patterns", "aria-label": "Pattern editor" },
        make("p", { class: "play-hint" }, "Choose a pattern, its sizes, and how many layers have it: begin with sparse and two layers."),
        row("Pattern", this.patterns), this.rule,
        make("div", { class: "patterns-sizes" }, ...Object.values(this.sizes)),
        row("Options", [this.causal, this.sorted]), row("Layers", ["Pairs connected after", ...this.layers]),
        make("div", { class: "patterns-matrices" },
          make("div", {}, this.mask.title, this.mask.picture,
            key([{ class: "patterns-allowed" }, "allowed"], [{ class: "patterns-computed" }, "computed, then masked"],
              [{ class: "patterns-skipped" }, "skipped"]),
            this.mask.numbers),
          make("div", {}, this.reach.title, this.reach.picture,
            key([after(1), "after 1 layer"], [after(2), "2"], [after(3), "3"], [after(4), "4"]),
            this.reach.numbers)),
        make("div", { class: "patterns-stage" }, this.query, this.stage, this.key), this.told);
    }

    change(changes) {
      const state = Object.assign(this.state, changes);
      state.expressive = Math.min(state.expressive, state.stride); // a block has no more
      this.kinds = Patterns.masks(state);
      this.fewest = Patterns.fewest(this.kinds);
      this.showControls();
      this.showMask();
      this.showReach();
      this.showStage();
    }

    showControls() {
      const { pattern, query, key: input, isSorted } = this.state;
      this.patterns.forEach((one, index) => press(one, Patterns.NAMES[index] === pattern));
      this.sizes.expressive.querySelector("input").max = this.state.stride;
      for (const [size, { of }] of Object.entries(SIZES)) {
        this.sizes[size].hidden = !of.includes(pattern);
        this.sizes[size].set(this.state[size]);
      }
      const isCausal = Patterns.isCausal(this.state);
      press(this.causal, isCausal);
      this.causal.disabled = Patterns.ALWAYS_CAUSAL.includes(pattern);
      this.sorted.disabled = !SIZES.rate.of.includes(pattern);
      press(this.sorted, isSorted && !this.sorted.disabled);
      this.query.set(query);
      this.key.set(input);
      const rule = SAID[pattern](this.state);
      this.rule.textContent = `Query i may attend to key j if ${rule}${isCausal ? ", and j ≤ i" : ""}.`;
    }

    // One layer: the tiles that are computed, and in them the scores that are allowed.
    showMask() {
      const { pattern, layers, query, key: input } = this.state;
      const mask = Patterns.ofLayer(this.kinds, layers);
      this.order = Patterns.order(this.sorted.disabled ? {} : this.state);
      const drawn = this.order.map((i) => this.order.map((j) => mask[i][j]));
      const tiles = Patterns.tiles(drawn);
      const crosses = tiles.flatMap((row, a) => row.flatMap((isComputed, b) =>
        (isComputed ? [] : [`M${b * SIDE} ${a * SIDE}l${SIDE} ${SIDE}m0 ${-SIDE}l${-SIDE} ${SIDE}`])));
      const lines = tiles.map((_, a) => `M0 ${a * SIDE}h${N}M${a * SIDE} 0v${N}`).join("");
      const [i, j] = [this.order.indexOf(query), this.order.indexOf(input)];
      this.mask.picture.replaceChildren(
        svg("path", { class: "patterns-computed", d: squares(tiles, Boolean, SIDE) }),
        svg("path", { class: "patterns-skipped", d: crosses.join("") }),
        svg("path", { class: "patterns-allowed", d: squares(drawn, Boolean) }),
        svg("path", { class: "patterns-lines", d: lines }), ...this.chosen(i, j));
      const inTurn = this.kinds.length > 1;
      const number = Patterns.scores(mask);
      const computed = tiles.flat().filter(Boolean).length;
      this.mask.title.textContent = inTurn ? `Layer ${layers}: ${layers % 2 ? "atrous" : "local"}` : "One layer";
      this.mask.numbers.replaceChildren(
        make("b", {}, `${grouped(number)} of ${grouped(N * N)} scores`), ` (${percent(number, N * N)}), in `,
        make("b", {}, `${computed} of ${tiles.flat().length} tiles`), ` of ${SIDE} × ${SIDE}`);
      this.mask.picture.ariaLabel = `The mask of one layer, ${pattern}: ${this.mask.numbers.textContent}`;
    }

    // All layers: which keys each query has received information from.
    showReach() {
      const { layers, query, key: input } = this.state;
      const all = Patterns.isCausal(this.state) ? (N * (N + 1)) / 2 : N * N;
      const counts = this.layers.map((_, t) => this.fewest.flat().filter((needed) => needed <= t + 1).length);
      this.layers.forEach((one, t) => {
        press(one, t + 1 === layers);
        one.textContent = `${inLayers(t + 1)}: ${percent(counts[t], all)}`;
      });
      const reached = Array.from({ length: layers }, (_, t) => svg("path", { ...after(t + 1),
        d: squares(this.fewest, (needed) => Math.max(needed, 1) === t + 1) }));
      this.reach.picture.replaceChildren(...reached, ...this.chosen(query, input));
      this.reach.title.textContent = `After ${inLayers(layers)}`;
      const cost = Array.from({ length: layers }, (_, t) => Patterns.scores(Patterns.ofLayer(this.kinds, t + 1)))
        .reduce((sum, scores) => sum + scores);
      this.reach.numbers.replaceChildren(
        make("b", {}, `${grouped(counts[layers - 1])} of ${grouped(all)} pairs`),
        `${all < N * N ? " with j ≤ i" : ""} (${percent(counts[layers - 1], all)}), by ${grouped(cost)} scores`);
      this.reach.picture.ariaLabel =
        `Which keys reach which queries ${this.reach.title.textContent.toLowerCase()}: ${this.reach.numbers.textContent}`;
    }

    // The row of the query and the square of the pair.
    chosen(i, j) {
      return [svg("rect", { class: "patterns-chosen", x: 0, y: i, width: N, height: 1 }),
        svg("rect", { class: "patterns-chosen", x: j - 1, y: i - 1, width: 3, height: 3 })];
    }

    // The layers: the receptive field of the query, and a path to the key.
    showStage() {
      const { layers, query, key: input } = this.state;
      const levels = Patterns.field(this.kinds, query, layers);
      const path = Patterns.path(this.kinds, this.fewest, query, input, layers);
      const place = (position, level) => `${10 * position + 5} ${10 + (level * (HIGH - 20)) / layers}`;
      const dots = (rows) => rows.flatMap((row, level) => row.map((at) => `M${place(at, level)}h0`)).join("");
      const every = levels.map(() => Array.from({ length: N }, (_, at) => at));
      const links = levels.slice(1).flatMap((row, level) => row.map(({ at, above }) =>
        `M${place(above, level)}L${place(at, level + 1)}`)).join("");
      const ends = dots([[query], ...Array(layers - 1).fill([]), [input]]);
      this.stage.replaceChildren(
        svg("path", { class: "patterns-links", d: links }),
        svg("path", { class: "patterns-dots", d: dots(every) }),
        svg("path", { class: "patterns-field", d: dots(levels.map((row) => row.map(({ at }) => at))) }),
        svg("path", { class: "patterns-path", d: path.length ? `M${path.map(place).join("L")}` : "" }),
        svg("path", { class: "patterns-ends", d: ends }));
      const size = levels.at(-1).length;
      this.told.textContent = `${this.tell(path)} In all, ${size} of ${N} inputs reach query ${query}.`;
      this.stage.ariaLabel = `The layers from the inputs to query ${query}. ${this.told.textContent}`;
    }

    tell(path) {
      const { pattern, layers, rate, query, key: input } = this.state;
      const needed = this.fewest[query][input];
      if (path.length) {
        const hops = path.filter((position, t) => t > 0 && position !== path[t - 1]);
        return `Query ${query} attends to ${[hops.length ? hops[0] : "itself", ...hops.slice(1)].join(", which attended to ")}.`;
      }
      if (needed < Infinity) return `Input ${input} does not reach query ${query} in ${inLayers(layers)}: it takes ${needed}.`;
      const never = `Input ${input} never reaches query ${query}, however many layers there are`;
      if (Patterns.isCausal(this.state) && input > query) return `${never}: it is later.`;
      if (pattern !== "atrous") return `${never}.`;
      return `${never}: ${Math.abs(query - input)} is no multiple of ${rate}.`;
    }
  }

  Elements.inPlaceOf("live-patterns", () => new Editor().root);
})();
