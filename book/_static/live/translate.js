"use strict";

// The live translation. On the screen it takes the place of each still picture.
(() => {
  const { html: make, button, percent } = Elements;
  const { Stage, attention } = TranslationStage;
  const FIRST = 299792458;
  const EXAMPLES = [
    [500, "short and seen in training, but wrong without attention"],
    [97, "never seen in training, but exact with and without attention"],
    [1984, "a year"],
    [153000111010, "hard for both models"],
    [299792458, "the speed of light in metres per second"],
    [4294967296, "two to the power of 32"],
    [999999999998, "one of the longest"],
  ];
  const PLAYING = 6000; // milliseconds for a whole translation …
  const SLOWEST = 600; // … and at most for one word
  const CHOOSE = "Choose a French word on the right to see which English words it attends to.";
  const PRESS = "Press Play or Step to translate the number word by word.";
  const KEYS = "The keys are the states of a bidirectional recurrent network. Each of them also " +
    "carries information about the neighbouring words, so the weights need not point at the word " +
    "that is translated.";
  const PAUSE = 500; // after the last key, until the result is read out

  const calm = window.matchMedia("(prefers-reduced-motion: reduce)");
  const models = {};
  const translations = new Map(); // of each model and number, as soon as they are known
  const widgets = [];
  let trained = null; // the numbers of the training set, as soon as they are known

  function wordsThatAre(count, what) {
    return `${count} ${count === 1 ? "word" : "words"} ${what}`;
  }

  // How many words are crossed out or, where none is, how many the translation lacks.
  function mistakes(isRight, target) {
    const wrong = isRight.filter((right) => !right).length;
    if (wrong) return wordsThatAre(wrong, "wrong or extra");
    return wordsThatAre(target.length - isRight.length, "missing");
  }

  // A model's translation, which is computed once.
  function withModel(name, number) {
    const key = `${name} ${number}`;
    if (!translations.has(key)) translations.set(key, compute(name, number));
    return translations.get(key);
  }

  function compute(name, number) {
    const target = NumberWords.french(number);
    models[name] ??= TranslationModel.load(LIVE_MODEL.models[name], name === "withAttention");
    const { words, weights } = models[name].translate(NumberWords.english(number));
    const isRight = NumberWords.rightWords(words, target);
    const isExact = words.join(" ") === target.join(" ");
    return {
      words,
      weights,
      isRight,
      isExact,
      verdict: isExact ? "exact" : mistakes(isRight, target),
      value: NumberWords.valueOfFrench(words),
    };
  }

  // All that the page shows of a number.
  function translate(number) {
    const source = NumberWords.english(number);
    const attended = withModel("withAttention", number);
    const fixed = withModel("withoutAttention", number);
    const steps = Math.max(attended.words.length, fixed.words.length);
    return { number, source, attended, fixed, steps };
  }

  // What a wrong translation says: another number, or nothing that is a number.
  function said({ isExact, value }) {
    if (isExact) return "";
    return value ? `says ${NumberWords.withCommas(value)}` : "says no number";
  }

  function sentence(name, translation) {
    return `${name}: ${[translation.verdict, said(translation)].filter(Boolean).join(", ")}.`;
  }

  // What the result says about the models: whether they have seen the number, and what follows.
  function meaning({ number, attended, fixed }) {
    if (!trained) return "";
    const written = NumberWords.withCommas(number);
    const seen = trained.has(number);
    const start = `${seen ? "Both models have" : "Neither model has"} seen ${written} in training`;
    if (attended.isExact && fixed.isExact) {
      return `${start}, ${seen ? "and" : "yet"} both translate it.`;
    }
    if (attended.isExact) {
      return seen ? `${start}; without attention, the translation is still wrong.`
        : `${start}; only the one with attention translates it.`;
    }
    if (fixed.isExact) return `${start}; here only the one without attention translates it.`;
    return `${start}; it is hard for both.`;
  }

  function random() {
    const digits = 1 + Math.floor(12 * Math.random());
    return Math.floor(10 ** (digits - 1) * (1 + 9 * Math.random()));
  }

  function note() {
    const { withAttention, withoutAttention } = LIVE_MODEL.exactMatch;
    return make("p", { class: "play-note" },
      "Two models, computed on this page: nothing you type leaves it. They have the same number " +
      "of parameters and were trained for the same number of steps; only the access to the English " +
      `words differs. Of ${NumberWords.withCommas(LIVE_MODEL.testNumbers)} test numbers, the model with ` +
      `attention translates ${percent(withAttention, 1)} exactly, the one without ` +
      `${percent(withoutAttention, 1)}.`);
  }

  class Widget {
    constructor() {
      widgets.push(this);
      this.id = `live-${widgets.length}`;
      this.written = 0; // how many words are shown
      this.chosen = null; // the position of the French word whose weights are shown
      this.hovered = null; // the same, under the pointer
      this.newest = null; // the position of the word just written, where it is done step by step
      this.playing = null; // the timer
      this.stage = new Stage({
        choose: (i) => this.choose(i),
        hover: (i) => this.hover(i),
      });
      this.build();
    }

    build() {
      this.input = make("input", {
        id: `${this.id}-input`, type: "text", autocomplete: "off",
        spellcheck: "false", enterkeyhint: "go", "aria-describedby": `${this.id}-problem`,
      });
      this.input.addEventListener("input", () => this.typed());
      this.form = make("form", { class: "play-form" },
        make("label", { for: this.input.id }, "Type a number"),
        this.input,
        make("button", { type: "submit" }, "Translate"));
      this.form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.submit();
      });
      const examples = make("div",
        { class: "play-row play-pills live-examples", role: "group", "aria-label": "Examples" },
        ...EXAMPLES.map(([number, why]) =>
          button(NumberWords.withCommas(number), () => this.use(number), { title: why })),
        button("random", () => this.use(random())));
      this.problem = make("p", { class: "play-problem", id: `${this.id}-problem` });
      this.heads = make("div", { class: "live-heads" });
      this.meaning = make("p", { class: "live-meaning" });
      this.now = make("p", { class: "live-now" });
      this.playButton = button("Play", () => this.togglePlaying());
      this.backButton = button("Back", () => this.goTo(this.written - 1));
      const steps = make("div", { class: "play-row", role: "group", "aria-label": "Word by word" },
        this.playButton,
        button("Step", () => this.goTo(this.written < this.found.steps ? this.written + 1 : 1)),
        this.backButton,
        button("Reset", () => this.goTo(0)));
      this.result = make("p", { class: "live-result" });
      this.spoken = make("p", { class: "play-unseen", role: "status" });
      this.table = make("details", { class: "live-table" },
        make("summary", {}, "The weights as a table"));
      this.table.addEventListener("toggle", () => this.fillTable());
      this.shown = make("div", { class: "live-shown" },
        this.heads, this.meaning, steps, this.stage.root, this.now,
        make("p", { class: "live-keys" }, KEYS), this.result, this.table);
      this.root = make("section", { class: "play live", "aria-label": "Live translation" },
        make("p", { class: "live-intro" },
          "English number words are translated into French by two trained models."),
        this.form, examples, this.problem, this.shown, this.spoken, note());
    }

    // An example, as if it had been typed.
    use(number) {
      this.input.value = NumberWords.withCommas(number);
      this.submit();
    }

    // A number that the address names, with its whole translation.
    open(number) {
      this.input.value = NumberWords.withCommas(number);
      this.accept();
      this.finish();
    }

    // At every key: the finished translation at once.
    typed() {
      if (!this.accept()) return;
      this.finish();
      this.speakResult();
    }

    // At Enter or a button: word by word, unless the reader wants no motion.
    submit() {
      if (!this.accept()) return;
      history.replaceState(null, "", `#number=${this.found.number}`);
      if (calm.matches) {
        this.finish();
        this.speakResult();
      } else {
        this.write(0);
        this.togglePlaying();
      }
    }

    // Translate what is typed. Where that is no such number, say so, and dim what is shown.
    accept() {
      const { number, problem = "" } = NumberWords.read(this.input.value);
      this.problem.textContent = problem;
      this.input.setAttribute("aria-invalid", String(problem !== ""));
      this.shown.inert = problem !== "";
      if (problem) {
        this.stop();
        this.speak(problem);
      } else {
        this.show(number);
      }
      return !problem;
    }

    show(number) {
      this.stop();
      this.found = translate(number);
      this.chosen = this.hovered = this.newest = null;
      this.stage.show(this.found);
      this.fillTable();
      this.tell();
    }

    // The whole translation, with the weights of all words.
    finish() {
      this.stop();
      this.written = this.found.steps;
      this.chosen = this.newest = null;
      this.update();
    }

    // So many words, and the weights of the last.
    goTo(step) {
      this.stop();
      this.write(step);
      this.speak(this.now.textContent);
    }

    write(step) {
      this.written = Math.min(Math.max(step, 0), this.found.steps);
      this.chosen = this.newest = this.written > 0 ? this.written - 1 : null;
      this.update();
    }

    togglePlaying() {
      if (this.playing) {
        this.stop();
        return;
      }
      if (this.written === this.found.steps) this.write(0);
      this.playing = setInterval(() => this.playOn(), Math.min(PLAYING / this.found.steps, SLOWEST));
      this.playButton.textContent = "Pause";
    }

    // One more word, or the end of the play.
    playOn() {
      if (this.written < this.found.steps) {
        this.write(this.written + 1);
      } else {
        this.finish();
        this.speakResult();
      }
    }

    stop() {
      clearInterval(this.playing);
      this.playing = null;
      this.playButton.textContent = "Play";
    }

    choose(i) {
      if (this.playing) this.finish();
      this.chosen = i;
      this.newest = null;
      this.update();
    }

    hover(i) {
      if (this.playing) return;
      this.hovered = i;
      this.update();
    }

    update() {
      const current = this.hovered ?? this.chosen;
      this.stage.update(this.written, current, this.newest);
      this.now.textContent = this.sentenceOf(current);
      this.backButton.setAttribute("aria-disabled", String(this.written === 0));
    }

    sentenceOf(current) {
      const { attended, fixed } = this.found;
      if (current === null) return this.written === 0 ? PRESS : CHOOSE;
      if (current in attended.words) {
        return `“${attended.words[current]}” attends to ${attention(this.found, current)}.`;
      }
      return `With attention, the translation has ended. Without: “${fixed.words[current]}”.`;
    }

    // The result above the picture, and as sentences above and below it.
    tell() {
      const { number, attended, fixed } = this.found;
      const written = NumberWords.withCommas(number);
      const seen = trained?.has(number);
      const judged = (title, translation) => make("p", {},
        make("span", { class: "live-language" }, "French"),
        make("strong", {}, title),
        translation.isExact
          ? make("span", { class: "live-verdict play-right" }, "✓ exact")
          : make("span", { class: "live-verdict play-wrong" }, translation.verdict),
        make("span", { class: "live-verdict" }, said(translation)));
      this.heads.replaceChildren(
        judged("without attention", fixed),
        make("p", {},
          make("span", { class: "live-language" }, "English"),
          make("strong", {}, written),
          make("span", {}, trained ? `${seen ? "" : "never "}seen in training` : "")),
        judged("with attention", attended));
      this.meaning.textContent = meaning(this.found);
      this.result.textContent = [
        sentence("With attention", attended),
        sentence("Without attention", fixed),
      ].join(" ");
    }

    speakResult() {
      this.speak(`${this.result.textContent} ${this.meaning.textContent}`.trim());
    }

    // Read a text out, once the reader pauses.
    speak(text) {
      clearTimeout(this.speaking);
      this.speaking = setTimeout(() => { this.spoken.textContent = text; }, PAUSE);
    }

    fillTable() {
      if (!this.table.open) return;
      const { source, attended } = this.found;
      const head = make("tr", {},
        make("td"), ...source.map((word) => make("th", { scope: "col" }, word)));
      const rows = attended.words.map((word, i) => make("tr", {},
        make("th", { scope: "row" }, word),
        ...source.map((_, j) => make("td", {}, String(Math.round(100 * attended.weights[i][j]))))));
      const table = make("table", {},
        make("caption", {},
          "Attention weights in per cent: a row for each French, a column for each English word."),
        make("thead", {}, head), make("tbody", {}, ...rows));
      this.table.querySelector(".live-scroll")?.remove();
      this.table.append(make("div",
        { class: "live-scroll", tabindex: "0", role: "region", "aria-label": "Attention weights" },
        table));
    }
  }

  // The number in the page's address, such as …#number=1984, if there is one.
  function numberInAddress() {
    const asked = location.hash.match(/^#number=([\d,]+)$/);
    return NumberWords.read(asked ? asked[1] : "").number;
  }

  const pause = () => new Promise((resume) => setTimeout(resume));

  // What is shown first is computed in several tasks, so that the page stays responsive. A model's first run is
  // slow, so it gets a short number.
  async function prepare(number) {
    for (const n of [EXAMPLES[0][0], number]) {
      for (const name of ["withAttention", "withoutAttention"]) {
        withModel(name, n);
        await pause();
      }
    }
  }

  async function start() {
    await prepare(numberInAddress() ?? FIRST);
    await Elements.inPlaceOf("live-translation", async () => {
      const widget = new Widget();
      await pause();
      widget.open(numberInAddress() ?? FIRST);
      return widget.root;
    });
    addEventListener("hashchange", () => {
      const number = numberInAddress();
      if (number) widgets.forEach((widget) => widget.open(number));
    });
    // Which numbers are training numbers is computed in slices, once all else has been shown.
    TrainingNumbers.generate().then((numbers) => {
      trained = numbers;
      for (const widget of widgets) {
        widget.tell();
        widget.update();
      }
    });
  }

  start();
})();
