// The controls of the attention bench, apart from the points in the plane.
const benchControls = (() => {
  "use strict";

  const { SETTINGS, canSample } = benchState;
  const SIZES = {
    local: "Radius r",
    atrous: "Rate ρ",
    strided: "Stride ℓ",
    fixed: "Stride ℓ",
    gaussian: "Radius D",
  };
  const MARKUP = `
    <div><label for="bench-score">Score</label>
      <select id="bench-score" name="score">
        <option value="dot">dot</option>
        <option value="scaled">scaled dot</option>
        <option value="cosine">cosine</option>
        <option value="bilinear">bilinear</option>
        <option value="additive">additive</option>
        <option value="distance">distance</option>
      </select></div>
    <div><label for="bench-temperature"><span>Temperature τ</span> <b></b></label>
      <input id="bench-temperature" name="temperature" type="range"></div>
    <div><label for="bench-mask">Mask</label>
      <select id="bench-mask" name="mask">
        <option value="none">none</option>
        <option value="padding">padding</option>
        <option value="causal">causal</option>
      </select></div>
    <div><label for="bench-window">Window</label>
      <select id="bench-window" name="window">
        <option value="all">all keys</option>
        <option value="local">local</option>
        <option value="atrous">atrous</option>
        <option value="strided">strided</option>
        <option value="fixed">fixed</option>
        <option value="gaussian">Gaussian</option>
      </select></div>
    <div><label for="bench-position"><span>Query position i</span> <b></b></label>
      <input id="bench-position" name="position" type="range"></div>
    <div><label for="bench-centre"><span>Centre p</span> <b></b></label>
      <input id="bench-centre" name="centre" type="range"></div>
    <div><label for="bench-size"><span></span> <b></b></label>
      <input id="bench-size" name="size" type="range"></div>
    <fieldset><legend>Attention</legend>
      <label><input type="radio" name="choice" value="soft"> soft</label>
      <label><input type="radio" name="choice" value="hard"> hard</label>
    </fieldset>
    <div class="play-row">
      <button type="button" name="again">Sample again</button>
      <button type="button" name="more">Sample 100 more</button>
      <button type="button" name="step">Step</button>
    </div>`;

  // The slider of the temperature moves in equal ratios, so large that two digits tell its
  // values apart.
  const SLIDERS = {
    temperature: {
      least: Math.log10(SETTINGS.temperature.least),
      most: Math.log10(SETTINGS.temperature.most),
      step: 0.05,
      toSlider: Math.log10,
      fromSlider: (value) => Number((10 ** value).toPrecision(2)),
    },
    ...Object.fromEntries(["position", "centre", "size"].map((name) => [
      name, { ...SETTINGS[name], toSlider: (value) => value, fromSlider: (value) => value },
    ])),
  };

  // Which of the controls that not every state needs matter in this one.
  function needed({ mask, window, choice }) {
    const gaussian = window === "gaussian";
    return {
      position: mask === "causal" || (window !== "all" && !gaussian),
      centre: gaussian,
      size: window !== "all",
      step: mask === "causal" || window !== "all",
      again: choice === "hard",
      more: choice === "hard",
    };
  }

  // A step along the sequence, and from its end back to its beginning: the query's position, or half a position
  // for the centre of a window.
  function step({ window, position, centre }) {
    const [name, next] = window === "gaussian" ? ["centre", centre + 0.5] : ["position", position + 1];
    const { least, most } = SETTINGS[name];
    return { [name]: next > most ? least : next };
  }

  // Controls in an element, which tell every change to a function: all, or those that `only` names. `words` has
  // other words for a control or an option.
  function make(root, change, only, words = {}) {
    root.innerHTML = MARKUP;
    for (const [name, text] of Object.entries(words)) {
      const renamed = root.querySelector(`option[value="${name}"], label[for="bench-${name}"] span`);
      if (renamed) renamed.textContent = text;
    }
    if (words.gaussian) { // a chapter's windows are those that it names
      for (const option of root.querySelectorAll('[name="window"] option')) {
        if (!Object.hasOwn(words, option.value)) option.remove();
      }
    }
    const control = (name) => root.querySelector(`[name="${name}"]`);
    const label = (name, part) => root.querySelector(`label[for="bench-${name}"] ${part}`);
    const choices = root.querySelectorAll('[name="choice"]');
    const hard = root.querySelector('[value="hard"]');
    const isWanted = (name) => !only || only.includes(name);
    let shown;

    for (const name of ["score", "mask", "window"]) {
      control(name).addEventListener("change", () => change({ [name]: control(name).value }));
    }
    for (const [name, { least, most, step, fromSlider }] of Object.entries(SLIDERS)) {
      Object.assign(control(name), { min: least, max: most, step });
      control(name).addEventListener("input", () =>
        change({ [name]: fromSlider(Number(control(name).value)) }));
    }
    for (const choice of choices) {
      choice.addEventListener("change", () => change({ choice: choice.value }));
    }
    const sampleMore = (count) => {
      const { most } = SETTINGS.seed;
      change({ seed: shown.seed === most ? 1 : Math.min(shown.seed + count, most) });
    };
    control("again").addEventListener("click", () => sampleMore(1));
    control("more").addEventListener("click", () => sampleMore(100));
    control("step").addEventListener("click", () => change(step(shown)));
    for (const name of ["score", "temperature", "mask", "window"]) {
      control(name).parentElement.hidden = !isWanted(name);
    }
    root.querySelector("fieldset").hidden = !isWanted("choice");

    function update(state) {
      shown = { ...state };
      for (const name of ["score", "mask", "window"]) control(name).value = state[name];
      for (const [name, { toSlider }] of Object.entries(SLIDERS)) {
        control(name).value = toSlider(state[name]);
        control(name).setAttribute("aria-valuetext", state[name]);
        label(name, "b").textContent = state[name];
      }
      for (const choice of choices) choice.checked = choice.value === state.choice;
      hard.disabled = !canSample(state);
      label("size", "span").textContent = words.size ?? SIZES[state.window] ?? "";
      const isNeeded = needed(state);
      for (const name of ["position", "centre", "size"]) {
        control(name).parentElement.hidden = !isNeeded[name] || !isWanted(name);
      }
      for (const name of ["again", "more", "step"]) {
        control(name).hidden = !isNeeded[name] || !isWanted(name);
      }
    }

    return { update };
  }

  return { needed, make };
})();
