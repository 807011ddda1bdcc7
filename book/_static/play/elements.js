"use strict";

// Elements of a page, with attributes, and with children or text; text is never read as HTML.
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

  return { html, svg, button };
})();
