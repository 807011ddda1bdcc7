// A bench, on its page or in a chapter: a plane, bars and controls that follow one state.
const benchWidget = (() => {
  "use strict";

  const { show, showPoint } = benchDrawing;
  const { REACH } = benchState;
  const STEP = 0.1; // of an arrow key
  const LARGE_STEP = 0.5; // with Shift
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  const QUIET = 300; // milliseconds without a change before it is in the address and read out

  const MARKUP = `
    <div class="bench-parts">
      <div class="bench-controls"></div>
      <div class="bench-bars">
        <p class="play-hint bench-gaussian">Pale bars: weights before the Gaussian, after which
          they sum to less than 1.</p>
        <p class="bench-summary"></p>
        <p class="play-unseen" aria-live="polite"></p>
      </div>
      <div class="bench-plane">
        <p class="play-hint">Drag the query or a key, which is its own value. Green: weights.
          Orange: lines of equal score.</p>
      </div>
    </div>
    <p class="play-hint" role="status"></p>
    <details><summary>All numbers</summary><table>
      <caption>The keys, and what each step makes of their scores.</caption>
      <thead><tr><th scope="col">Key</th><th scope="col">(x, y)</th><th scope="col">Score</th>
        <th scope="col">Logit</th><th scope="col">Weight</th></tr></thead>
      <tbody></tbody>
    </table></details>`;

  // `only` names the controls, if not all; `words` has other words for some (see controls.js).
  // `onUpdate` gets the state at every change, `onSettle` when the reader pauses.
  function make({ state, only, words, onUpdate = () => {}, onSettle = () => {} }) {
    const root = Elements.html("section", { class: "play bench", "aria-label": "Attention bench" });
    root.innerHTML = MARKUP;
    const find = (selector) => root.querySelector(selector);
    const say = (text) => { find('[role="status"]').textContent = text; };

    let settling; // the timer that waits until the reader pauses
    const plane = benchPlane.make(state.keys);
    const bars = benchBars.make();
    const controls = benchControls.make(find(".bench-controls"), change, only, words);
    const queryHandle = plane.handles.at(-1);
    let selected = queryHandle; // the handle that a click in the plane moves

    // What a reader sees ---------------------------------------------------------------

    function update(changes = {}) {
      Object.assign(state, changes);
      if (state.choice === "hard" && !benchState.canSample(state)) {
        state.choice = "soft";
        say("Hard attention samples from weights that sum to 1. Under a Gaussian window they do not.");
      }
      const result = attention.attend(state);
      plane.update(state, result);
      find(".bench-gaussian").hidden = state.window !== "gaussian";
      bars.update(state, result);
      controls.update(state);
      describeHandles(result);
      onUpdate(state);
      fillTable(result);
      find(".bench-summary").textContent = summary(result);
    }

    // What a reader does is drawn at once; a little later it is in the address and read out.
    function change(changes) {
      say("");
      update(changes);
      clearTimeout(settling);
      settling = setTimeout(settle, QUIET);
    }

    function settle() {
      clearTimeout(settling);
      onSettle(state);
      speak();
    }

    function speak() {
      find("[aria-live]").textContent = find(".bench-summary").textContent;
    }

    function summary({ largest, sampled, weights, output, expected, means }) {
      if (largest < 0) return "Every key is masked: all weights are 0, and so is the output.";
      const weight = show(weights[largest]);
      if (state.choice === "hard") {
        return `Key ${sampled + 1} was sampled, with probability ${show(weights[sampled])}; the most `
          + `probable is key ${largest + 1}, with ${weight}. The output is ${showPoint(output)}; `
          + `the mean over many samples is ${showPoint(expected)}.${soFar(means, expected)}`;
      }
      const sum = attention.sum(weights);
      const less = sum < 0.995 ? ` The weights sum to ${show(sum)}.` : "";
      const most = weights[largest] > 0.5
        ? `The query attends mostly to key ${largest + 1}, with weight ${weight}.`
        : `The largest weight is that of key ${largest + 1}, ${weight}.`;
      return `${most}${less} The output is ${showPoint(output)}.`;
    }

    // How far the mean of the samples is from that of many.
    function soFar(means, expected) {
      if (means.length < 2) return "";
      const mean = means.at(-1);
      const apart = Math.hypot(...mean.map((value, axis) => value - expected[axis]));
      return ` The mean of the ${means.length} samples is ${showPoint(mean)}, at a distance of ${show(apart)}.`;
    }

    function describeHandles({ visible }) {
      [...state.keys, state.query].forEach(([x, y], index) => {
        const masked = visible[index] === false ? ", masked" : "";
        plane.handles[index].setAttribute("aria-valuenow", x);
        plane.handles[index].setAttribute("aria-valuetext", `x ${show(x)}, y ${show(y)}${masked}`);
      });
    }

    function fillTable({ scores, visible, logits, weights }) {
      find("tbody").replaceChildren(...state.keys.map((key, j) => {
        const row = document.createElement("tr");
        const head = document.createElement("th");
        head.scope = "row";
        head.textContent = j + 1;
        row.append(head);
        const logit = visible[j] ? show(logits[j], 4) : "masked";
        const cells = [showPoint(key), show(scores[j], 4), logit, show(weights[j], 4)];
        for (const words of cells) row.insertCell().textContent = words;
        return row;
      }));
    }

    // What belongs to one key is marked in the plane and among the bars.
    function mark(event) {
      const key = event.target.closest("[data-key]")?.dataset.key;
      for (const part of root.querySelectorAll("[data-key]")) {
        part.classList.toggle("lit", part.dataset.key === key);
      }
    }

    // The query and the keys, to be moved ----------------------------------------------

    const within = (value) => Math.round(Math.min(Math.max(value, -REACH), REACH) * 100) / 100;

    function move(handle, point) {
      const goal = point.map(within);
      if (handle === queryHandle) change({ query: goal });
      else change({ keys: state.keys.map((key, j) => (handle === plane.handles[j] ? goal : key)) });
    }

    function pointOf(event) {
      const place = new DOMPoint(event.clientX, event.clientY);
      const { x, y } = place.matrixTransform(plane.svg.getScreenCTM().inverse());
      return benchPlane.toPlane(x, y);
    }

    function select(handle) {
      selected.classList.remove("selected");
      selected = handle;
      selected.classList.add("selected");
    }

    // Where handles overlap, the one whose centre is nearest is meant.
    function nearest([x, y]) {
      const distances = [...state.keys, state.query].map(([a, b]) => Math.hypot(a - x, b - y));
      return plane.handles[distances.lastIndexOf(Math.min(...distances))];
    }

    function grasp(event) {
      const handle = nearest(pointOf(event));
      event.preventDefault();
      handle.setPointerCapture(event.pointerId);
      handle.focus({ preventScroll: true });
    }

    function press(event, index) {
      const direction = ARROWS[event.key];
      if (!direction || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      const step = event.shiftKey ? LARGE_STEP : STEP;
      const from = [...state.keys, state.query][index];
      move(plane.handles[index], from.map((value, axis) => value + step * direction[axis]));
    }

    function prepare(handle, index) {
      const attributes = {
        role: "slider",
        tabindex: 0,
        "aria-label": handle === queryHandle ? "Query" : `Key ${index + 1}`,
        "aria-valuemin": -REACH,
        "aria-valuemax": REACH,
      };
      for (const [name, value] of Object.entries(attributes)) handle.setAttribute(name, value);
      handle.addEventListener("focus", () => select(handle));
      handle.addEventListener("keydown", (event) => press(event, index));
      handle.addEventListener("click", (event) => event.stopPropagation());
      handle.addEventListener("pointerdown", grasp);
      handle.addEventListener("pointermove", (event) => {
        if (handle.hasPointerCapture(event.pointerId)) move(handle, pointOf(event));
      });
    }

    find(".bench-plane").prepend(plane.svg);
    find(".bench-bars").prepend(bars.svg);
    plane.svg.setAttribute("role", "group");
    plane.svg.setAttribute("aria-label", "A query and six keys in the plane, which arrow keys move");
    bars.svg.setAttribute("aria-label", "Scores and weights as bars; a table has all numbers");
    plane.handles.forEach(prepare);
    plane.svg.addEventListener("click", (event) => move(selected, pointOf(event)));
    root.addEventListener("pointerover", mark);
    select(queryHandle);
    update();

    // Another state, as it was sent or chosen.
    function showState(next) {
      say("");
      state = next;
      update();
    }

    return { root, change, settle, say, speak, showState };
  }

  return { make };
})();
