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
      <button type="button" class="bench-button">Sample again</button>
    </fieldset>`;

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
      again: choice === "hard",
    };
  }

  // Controls in an element, which tell every change to a function.
  function make(root, change) {
    root.innerHTML = MARKUP;
    const control = (name) => root.querySelector(`[name="${name}"]`);
    const label = (name, part) => root.querySelector(`label[for="bench-${name}"] ${part}`);
    const choices = root.querySelectorAll('[name="choice"]');
    const hard = root.querySelector('[value="hard"]');
    const again = root.querySelector("button");
    let seed;

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
    again.addEventListener("click", () => change({ seed: (seed % SETTINGS.seed.most) + 1 }));

    function update(state) {
      seed = state.seed;
      for (const name of ["score", "mask", "window"]) control(name).value = state[name];
      for (const [name, { toSlider }] of Object.entries(SLIDERS)) {
        control(name).value = toSlider(state[name]);
        control(name).setAttribute("aria-valuetext", state[name]);
        label(name, "b").textContent = state[name];
      }
      for (const choice of choices) choice.checked = choice.value === state.choice;
      hard.disabled = !canSample(state);
      label("size", "span").textContent = SIZES[state.window] ?? "";
      const isNeeded = needed(state);
      again.hidden = !isNeeded.again;
      for (const name of ["position", "centre", "size"]) {
        control(name).parentElement.hidden = !isNeeded[name];
      }
    }

    return { update };
  }

  return { needed, make };
})();
