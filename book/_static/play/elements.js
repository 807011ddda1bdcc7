"use strict";

// Elements of a page, with attributes, and with children or text; text is never read as HTML. And where they go.
const Elements = (() => {
  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  const html = (tag, attributes = {}, ...children) =>
    fill(document.createElement(tag), attributes, children);

  const svg = (tag, attributes = {}, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  function button(text, onClick, attributes = {}) {
    const element = html("button", { type: "button", ...attributes }, text);
    element.addEventListener("click", onClick);
    return element;
  }

  // A slider with its name and, in words, its value, which `set` changes.
  function slider(name, settings, onInput, words = String) {
    const input = html("input", { type: "range", "aria-label": name, ...settings });
    const shown = html("b"); // no output, which the label would be for
    const show = () => {
      shown.textContent = words(Number(input.value));
      input.setAttribute("aria-valuetext", shown.textContent);
    };
    input.addEventListener("input", () => {
      show();
      onInput(Number(input.value));
    });
    show();
    const set = (value) => {
      input.value = value;
      show();
    };
    return Object.assign(html("label", { class: "play-slider" }, html("span", {}, name), shown, input), { set });
  }

  const press = (element, isPressed) => element.setAttribute("aria-pressed", String(isPressed));

  const percent = (fraction, digits = 0) => `${(100 * fraction).toFixed(digits)}\u00a0%`;

  // Arrow keys lead from cell to cell, in rows; a cell that has the focus is shown.
  function walk(rows, show) {
    rows.forEach((row, i) => row.forEach((cell, j) => {
      cell.addEventListener("click", () => cell.focus());
      cell.addEventListener("focus", () => show(i, j));
      cell.addEventListener("keydown", (event) => {
        const next = { ArrowDown: [i + 1, j], ArrowUp: [i - 1, j], ArrowRight: [i, j + 1], ArrowLeft: [i, j - 1] }[event.key];
        if (!next) return;
        event.preventDefault();
        const goal = rows[next[0]];
        goal?.[Math.min(next[1], goal.length - 1)]?.focus();
      });
    }));
  }

  // Weights as a grid with the words of the queries and keys, one tab stop, arrow keys from cell to cell: the table, and a
  // function that marks a cell. `show` is called for the cell that has the focus.
  function weightGrid(label, [queries, keys], weights, show, write = () => "") {
    const cells = weights.map((line, a) => line.map((weight, b) =>
      html("td", { role: "gridcell", tabindex: -1, style: `--weight: ${weight.toFixed(3)}`,
        "aria-label": `${queries[a]} to ${keys[b]}: ${percent(weight)}` }, write(weight))));
    const body = cells.map((line, a) => html("tr", { role: "row" },
      html("th", { scope: "row", role: "rowheader" }, queries[a]), ...line));
    const head = html("tr", { role: "row" }, html("td", { role: "presentation" }),
      ...keys.slice(0, Math.max(...weights.map(({ length }) => length)))
        .map((word) => html("th", { scope: "col", role: "columnheader" }, html("span", {}, word))));
    const table = html("table", { class: "play-weights", role: "grid", "aria-label": label },
      html("thead", { role: "rowgroup" }, head), html("tbody", { role: "rowgroup" }, ...body));
    walk(cells, show);
    function choose(i, j) {
      cells.flat().forEach((cell) => {
        cell.tabIndex = -1;
        cell.classList.remove("play-chosen");
      });
      cells[i][j].tabIndex = 0;
      cells[i][j].classList.add("play-chosen");
    }
    return { table, choose };
  }

  // On the screen, what a function makes takes the place of each still picture of this class or, in a chapter, tag.
  async function inPlaceOf(name, makeRoot) {
    for (const place of document.querySelectorAll(`.${name}, .tag_${name}`)) {
      const picture = (place.querySelector("figure") ?? place).querySelector("img, svg");
      const still = picture.closest("a") ?? picture;
      const root = await makeRoot(place);
      still.classList.add("on-paper");
      still.parentElement.querySelector(".enlarge")?.remove();
      still.after(root);
    }
  }

  return { html, svg, button, slider, press, percent, walk, weightGrid, inPlaceOf };
})();
