"use strict";

// A KV cache that grows token by token: all keys, a window, and a window with sinks, in the bytes of a model that one
// chooses. On the screen it takes the place of the still picture.
(() => {
  const { html: make, svg, button, slider, press } = Elements;
  const CELLS = 32; // tokens that are drawn one by one
  const LATER = Array.from({ length: 12 }, (_, n) => [3 * 2 ** (n + 4), 2 ** (n + 6)]).flat(); // 48, 64, 96, 128, …
  const STEPS = [...Array.from({ length: CELLS }, (_, n) => n + 1), ...LATER];
  const SHARED = {
    "32, multi-head": { heads: 32 },
    "8, grouped": { heads: 8 },
    "1, multi-query": { heads: 1 },
    "latent, 512 + 64": { latent: 512, rotary: 64 },
  };
  const LIMITS = { layers: [1, 1000], "head dimension": [1, 1024] };
  const PACE = 180; // milliseconds a step
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const commas = (value) => value.toLocaleString("en");
  const several = (count, what) => `${commas(count)} ${what}${count === 1 ? "" : "s"}`;

  // Bytes in the largest unit that fits, as the chapter writes them.
  function inBytes(count) {
    const power = Math.min(4, Math.floor(Math.log2(count) / 10));
    const value = count / 1024 ** power;
    return `${commas(Number(value.toFixed(value < 100 ? 1 : 0)))}\u00a0${["bytes", "KiB", "MiB", "GiB", "TiB"][power]}`;
  }

  class Cache {
    constructor() {
      Object.assign(this, { step: 11, window: 4, sinks: 2 });
      Object.assign(this, { shared: Object.keys(SHARED)[0], layers: 32, "head dimension": 128 });
      this.timer = null;
      this.build();
      this.update();
    }

    get tokens() {
      return STEPS[this.step];
    }

    build() {
      this.token = slider("Tokens so far", { max: STEPS.length - 1, value: this.step }, (step) => {
        this.step = step;
        this.update();
      }, (step) => commas(STEPS[step]));
      const window = slider("Window", { min: 2, max: 12, value: 2 }, (power) => this.set({ window: 2 ** power }),
        (power) => commas(2 ** power));
      const sinks = slider("Sinks", { max: 8, value: this.sinks }, (count) => this.set({ sinks: count }));
      this.play = button("Play", () => this.toggle());
      const buttons = make("div", { class: "play-row", role: "group", "aria-label": "Token by token" }, this.play,
        button("Step", () => this.go(Math.min(this.step + 1, STEPS.length - 1))), button("Reset", () => this.go(0)));
      this.strips = [0, 1, 2].map(() => ({
        words: make("p"),
        picture: svg("svg", { preserveAspectRatio: "none", "aria-hidden": "true" }),
      }));
      this.said = make("p", { class: "modern-said", role: "status" });
      this.choices = Object.keys(SHARED).map((name) => button(name, () => this.set({ shared: name })));
      this.inputs = Object.keys(LIMITS).map((name) => this.number(name));
      this.problem = make("p", { class: "play-problem", role: "status" });
      this.formula = make("p");
      this.root = make("section", { class: "play modern", "aria-label": "A cache that grows" },
        buttons, this.token, ...this.strips.flatMap(({ words, picture }) => [words, picture]),
        make("p", { class: "play-hint" }, "Orange: the newest key. Crossed out: evicted."), this.said,
        make("div", { class: "modern-pair" }, window, sinks),
        make("div", { class: "play-row play-pills", role: "group", "aria-label": "Key–value heads" },
          "Key–value heads", ...this.choices),
        make("div", { class: "play-form" }, ...this.inputs.map(({ root }) => root)), this.problem, this.formula);
    }

    // A whole number that is typed.
    number(name) {
      const [least, most] = LIMITS[name];
      const input = make("input", { type: "text", inputmode: "numeric", value: this[name], autocomplete: "off" });
      input.addEventListener("input", () => {
        const value = /^\d{1,4}$/.test(input.value.trim()) ? Number(input.value) : 0;
        const isRight = value >= least && value <= most;
        input.setAttribute("aria-invalid", String(!isRight));
        this.problem.textContent = isRight ? "" : `The ${name} must be a whole number from ${least} to ${commas(most)}.`;
        this.formula.inert = !isRight;
        if (!isRight) return;
        this.set({ [name]: value });
      });
      return { root: make("label", {}, `${name} `, input), input };
    }

    toggle() {
      if (this.timer) return this.stop();
      const last = STEPS.length - 1;
      if (calm.matches) return this.go(this.step === last ? 0 : last);
      if (this.step === last) this.go(0);
      this.said.setAttribute("aria-live", "off");
      this.play.textContent = "Pause";
      this.timer = setInterval(() => {
        this.show(this.step + 1);
        if (this.step === last) this.stop();
      }, PACE);
      return undefined;
    }

    stop() {
      clearInterval(this.timer);
      this.timer = null;
      this.play.textContent = "Play";
      this.said.removeAttribute("aria-live");
    }

    go(step) {
      this.stop();
      this.show(step);
    }

    show(step) {
      const input = this.token.querySelector("input");
      input.value = step;
      input.dispatchEvent(new Event("input"));
    }

    set(changes) {
      Object.assign(this, changes);
      this.update();
    }

    update() {
      const { tokens, layers, window, sinks } = this;
      const { heads, latent, rotary } = SHARED[this.shared];
      const size = this["head dimension"];
      const numbers = Modern.numbers({ heads, size, latent, rotary });
      const rules = [
        ["all keys"],
        [`window of ${commas(window)}`, window],
        [`window of ${commas(window)} and ${several(sinks, "sink")}`, window, sinks],
      ];
      rules.forEach(([name, ...rule], n) => {
        const kept = Modern.kept(tokens, ...rule);
        this.strips[n].words.replaceChildren(make("b", {}, name), `: ${several(kept.count, "key")}, `,
          make("b", {}, inBytes(Modern.cacheBytes(layers, numbers, kept.count))));
        this.draw(this.strips[n].picture, kept);
      });
      this.said.textContent = this.sentence();
      for (const choice of this.choices) press(choice, choice.textContent === this.shared);
      this.inputs[1].input.disabled = Boolean(latent);
      const each = latent ? `(${latent} + ${rotary})` : `2 × ${heads} heads × ${size}`;
      const bytes = Modern.cacheBytes(layers, numbers);
      this.formula.replaceChildren(`${layers} layers × ${each} × 2 bytes = ${commas(bytes)} bytes = `,
        make("b", {}, `${inBytes(bytes)} a token`));
    }

    // A strip as wide as 32 tokens or, later, as all of them. Keys that stay are filled, those that have left crossed out.
    draw(picture, { first, start }) {
      const { tokens } = this;
      const width = Math.max(CELLS, tokens);
      picture.setAttribute("viewBox", `0 0 ${width} 1`);
      const cells = tokens <= CELLS ? Array.from({ length: tokens }, (_, n) => [n, n + 1])
        : [[0, first], [first, start], [start, tokens - 1], [tokens - 1, tokens]];
      const gap = tokens <= CELLS ? 0.12 : 0;
      const isLast = ([from]) => from < first || from >= start; // what stays is drawn last, however little it is
      const drawn = cells.filter(([from, to]) => to > from).sort((a, b) => isLast(a) - isLast(b));
      picture.replaceChildren(...drawn.flatMap(([from, to]) => {
        const isGone = from >= first && from < start;
        const name = isGone ? "modern-gone" : to === tokens ? "modern-new" : "modern-kept";
        const box = { x: from + gap / 2, y: 0.04, width: Math.max(to - from - gap, isGone ? 0 : width / 400), height: 0.92 };
        if (to === tokens) box.x = to - gap / 2 - box.width;
        const cross = `M${from + 0.2} 0.2L${to - 0.2} 0.8M${from + 0.2} 0.8L${to - 0.2} 0.2`;
        return [svg("rect", { class: name, ...box }), ...(isGone && gap ? [svg("path", { d: cross })] : [])];
      }));
    }

    // What the last token has made the caches forget.
    sentence() {
      const { tokens, window, sinks } = this;
      const evicted = tokens - window;
      if (evicted < 1) return "No key has left a window yet.";
      if (tokens > CELLS) return `The window has evicted ${commas(evicted)} of ${commas(tokens)} keys, the first ones among them.`;
      if (evicted <= sinks) return `Token ${tokens}: the window evicts key ${evicted}, which the last cache keeps as a sink.`;
      return `Token ${tokens}: both windows evict key ${evicted}.`;
    }
  }

  Elements.inPlaceOf("live-cache", () => new Cache().root);
})();
