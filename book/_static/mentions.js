// The equation or figure that a text mentions, beside the mention: under the pointer, or where the keyboard is.
if ("popover" in HTMLElement.prototype) {
  const SOON = 200; // milliseconds, in which a pointer passes, or reaches the preview
  const EDGE = 8; // pixels
  const UNSET = ".math:not(:has(mjx-container))";

  const preview = document.createElement("div");
  preview.className = "mention-preview";
  preview.popover = "manual";
  (document.querySelector(".bd-article") ?? document.body).append(preview); // the search has no article

  let wanted;
  let timer;
  const want = (mention, delay) => {
    clearTimeout(timer);
    timer = setTimeout(() => (mention ? show(mention) : hide()), delay);
  };

  const hide = () => {
    clearTimeout(timer);
    wanted = undefined;
    preview.hidePopover();
  };

  const show = async (mention) => {
    wanted = mention;
    const target = document.getElementById(mention.hash.slice(1));
    if (target.matches(UNSET) || target.querySelector(UNSET)) await window.setAllFormulas?.();
    if (wanted !== mention) return;
    const copy = target.cloneNode(true);
    for (const part of copy.querySelectorAll(".headerlink, .enlarge")) part.remove();
    for (const part of [copy, ...copy.querySelectorAll("[id]")]) part.removeAttribute("id");
    preview.replaceChildren(copy);
    preview.showPopover();
    place(mention);
  };

  // Below the mention, or above it if it does not fit below and there is more room. What is larger scrolls.
  const place = (mention) => {
    const { left, top, bottom } = mention.getBoundingClientRect();
    const { clientWidth, clientHeight } = document.documentElement;
    preview.style.maxHeight = `${Math.max(top, clientHeight - bottom) - EDGE}px`;
    const { offsetWidth, offsetHeight } = preview;
    const start = Math.max(EDGE, Math.min(left, clientWidth - offsetWidth - EDGE));
    const below = bottom + offsetHeight <= clientHeight;
    preview.style.left = `${start + scrollX}px`;
    preview.style.top = `${(below ? bottom : top - offsetHeight) + scrollY}px`;
  };

  const ofMouse = (action) => (event) => event.pointerType === "mouse" && action();
  for (const mention of document.querySelectorAll('.mention:is([href^="#eq-"], [href^="#fig-"])')) {
    mention.addEventListener("pointerenter", ofMouse(() => want(mention, SOON)));
    mention.addEventListener("pointerleave", ofMouse(() => want(null, SOON)));
    mention.addEventListener("focus", () => mention.matches(":focus-visible") && want(mention, 0));
    mention.addEventListener("blur", hide);
    mention.addEventListener("click", hide);
  }
  preview.addEventListener("pointerenter", () => clearTimeout(timer));
  preview.addEventListener("pointerleave", () => want(null, SOON));
  addEventListener("keydown", ({ key }) => key === "Escape" && hide());
}
