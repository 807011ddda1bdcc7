// A chapter is laid out in slices while it loads, and so the page answers meanwhile: `layout.html` marks the page,
// and `book.css` lets the blocks wait that are not on the screen.
if (document.documentElement.classList.contains("in-slices")) {
  const SLICE = 120; // elements
  const blocks = [...document.querySelectorAll(".bd-article section section > :not(section)")];
  const layOutNext = () => {
    for (let size = 0; blocks.length && size < SLICE; ) {
      const block = blocks.shift();
      block.style.contentVisibility = "visible";
      size += 1 + block.getElementsByTagName("*").length;
    }
    document.body.getBoundingClientRect();
    if (blocks.length) setTimeout(layOutNext);
  };
  setTimeout(layOutNext);
}

// The keyboard reaches what can be scrolled.
{
  const scrolls = (part) =>
    part.scrollWidth > part.clientWidth || part.scrollHeight > part.clientHeight;
  const observer = new ResizeObserver((entries) => {
    const parts = entries.map(({ target }) => target);
    const scrolling = parts.filter(scrolls);
    for (const part of parts) part.removeAttribute("tabindex");
    for (const part of scrolling) part.tabIndex = 0;
  });
  const MAY_SCROLL = "pre, .cell_output > .output, .pst-scrollable-table-container";
  for (const part of document.querySelectorAll(MAY_SCROLL)) observer.observe(part);
}
