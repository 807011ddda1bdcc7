// A chapter is laid out in slices while it loads, so that the page stays responsive: `layout.html` marks the page,
// and `book.css` lets the blocks wait that are not on the screen.
if (document.documentElement.classList.contains("in-slices")) {
  const SLICE = 60; // elements
  const blocks = [...document.querySelectorAll(".bd-article section section[id] > :not(section)")];
  const sizeOf = (block) => 1 + block.getElementsByTagName("*").length;

  const layOut = (most) => {
    let size = 0;
    do {
      size += sizeOf(blocks[0]);
      blocks.shift().style.contentVisibility = "visible";
    } while (blocks.length && size + sizeOf(blocks[0]) <= most);
    document.body.getBoundingClientRect(); // which needs the layout
  };
  const layOutNext = () => {
    if (!blocks.length) return;
    layOut(SLICE);
    setTimeout(layOutNext);
  };
  setTimeout(layOutNext);

  // What a link leads to must not move afterwards, when the blocks above it get their heights.
  const beforeLink = ({ target }) => {
    if (blocks.length && target.closest("a[href*='#']")) layOut(Infinity);
  };
  addEventListener("click", beforeLink, { capture: true });
}

// The keyboard reaches what can be scrolled. The theme sees to it, too, but lays the page out anew for each part, when
// it is loaded and whenever anything in it changes: it finds no part.
{
  const ofTheme = "pre, .nboutput > .output_area, ";
  document.querySelectorAll = (selector) =>
    Document.prototype.querySelectorAll.call(document, selector.startsWith(ofTheme) ? "none" : selector);

  const TABLE = ".pst-scrollable-table-container";
  const MAY_SCROLL = `pre, figure, .cell_output > .output, mjx-container[display="true"], ${TABLE}`;
  const canScroll = (part) =>
    part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight;
  const mark = (parts) => {
    const scrolling = new Set([...parts].filter(canScroll)); // before anything changes
    for (const part of parts) {
      if (scrolling.has(part)) part.tabIndex = 0;
      else part.removeAttribute("tabindex");
    }
  };
  const observer = new ResizeObserver((entries) =>
    mark(new Set(entries.map(({ target }) => target.closest(MAY_SCROLL)))));
  for (const part of document.querySelectorAll(`${MAY_SCROLL}, ${TABLE} > table`)) observer.observe(part);
  window.watchScrolling = (part) => observer.observe(part); // a formula, when it has been set
  // A face that comes late changes what is inside a part, and not the part's size.
  document.fonts.addEventListener("loadingdone", () => mark(document.querySelectorAll(MAY_SCROLL)));
}
