// The attention bench on its page: it takes the place of the still picture.
(() => {
  "use strict";

  const { EXAMPLES } = benchState;
  const { html: make, button, press } = Elements;
  const INVITATION = "Drag the query q, and watch the weights and the output follow.";

  const figure = document.querySelector("figure.bench-figure");
  if (!figure) return;

  let hinted; // the example whose hint is shown, if any
  const examples = make("div", { class: "play-row", role: "group", "aria-label": "Examples" });
  const hint = make("p", { class: "bench-hint" });
  const bench = benchWidget.make({
    state: benchState.first(),
    onUpdate: describeExamples,
    onSettle: writeAddress,
  });

  // Each example is a section of this page, whose first paragraph says what to try. It has a
  // button in the bench, and one of its own that leads to the bench.
  function addExample(id) {
    const section = document.getElementById(id);
    const act = () => {
      showExample(id);
      bench.settle();
    };
    const name = section.querySelector("h3").firstChild.textContent;
    const choose = button(name, act, { "data-example": id });
    examples.append(choose);
    section.querySelector("p").after(button("Try it in the bench", () => {
      act();
      bench.root.scrollIntoView();
    }, { class: "play-button" }));
  }

  function showExample(id) {
    hinted = id;
    bench.showState(benchState.first(EXAMPLES[id]));
  }

  // A button is pressed as long as the bench shows its example as it was.
  function describeExamples(state) {
    const now = benchState.write(state);
    for (const example of examples.children) {
      const first = benchState.first(EXAMPLES[example.dataset.example]);
      press(example, benchState.write(first) === now);
    }
    hint.textContent = canFollowHint(state)
      ? document.querySelector(`#${hinted} p`).textContent : INVITATION;
  }

  // A hint leads away from its example, and is there as long as all controls that it may name.
  function canFollowHint(state) {
    if (!hinted) return false;
    const shown = benchControls.needed(state);
    const named = benchControls.needed(benchState.first(EXAMPLES[hinted]));
    return Object.keys(named).every((name) => shown[name] || !named[name]);
  }

  function writeAddress(state) {
    const changed = benchState.write(state);
    const plain = location.pathname + location.search;
    history.replaceState(null, "", changed ? `#${changed}` : plain);
  }

  // An address may hold settings, name an example, or lead to another part of the page.
  function readAddress() {
    if (!location.hash.includes("=")) return;
    const { state, wrong } = benchState.read(location.hash);
    hinted = undefined;
    bench.showState(state);
    bench.speak();
    bench.say(wrong.length ? `The bench ignores a part of the address: ${wrong.join("; ")}.` : "");
  }

  // A reader who follows a link to an example finds it in the bench, and the bench in view.
  function start() {
    const example = location.hash.slice(1);
    if (Object.hasOwn(EXAMPLES, example)) {
      showExample(example);
      addEventListener("load", () => requestAnimationFrame(() => bench.root.scrollIntoView()));
    } else {
      bench.showState(benchState.first());
      readAddress();
    }
  }

  async function copyLink() {
    bench.settle();
    try {
      await navigator.clipboard.writeText(location.href);
      bench.say("The link is copied.");
    } catch {
      bench.say("The browser does not allow it: copy the link from the address bar.");
    }
  }

  bench.root.prepend(examples, hint);
  bench.root.querySelector('[role="status"]').before(make("div", { class: "play-row bench-buttons" },
    button("Copy link", copyLink),
    button("Reset", () => {
      hinted = undefined;
      bench.change(benchState.first());
    })));
  Object.keys(EXAMPLES).forEach(addExample);
  start();
  addEventListener("hashchange", readAddress);
  figure.replaceWith(bench.root);
})();
