// A drawing or plot is enlarged by a tap or by its button. There it can be saved as an SVG file, with a line below it
// that says where it is from.
{
  const SVG = "http://www.w3.org/2000/svg";
  const ENDING = /\s*\.$/; // of "Figure 6.3."
  const LETTER = 0.52; // its mean width, for its height of 1
  const said = (name) => document.querySelector(`meta[property="og:${name}"]`)?.content;

  const make = (name, attributes, text = "") => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = text;
    return element;
  };

  // On white paper. Colours that a file has no style sheet for are those without one.
  const withCredit = (drawing, credit) => {
    const [width, height] = drawing.getAttribute("viewBox").split(" ").slice(2).map(Number);
    const size = Math.min(width / 40, (0.96 * width) / (LETTER * credit.length));
    const line = 2 * size;
    const scale = drawing.getAttribute("width") / width;
    const file = make("svg", {
      xmlns: SVG,
      viewBox: `0 0 ${width} ${height + line}`,
      width: width * scale,
      height: (height + line) * scale,
      "font-family": "system-ui, sans-serif",
      style: "--paper: #ffffff; --ink: #1d2329",
    });
    const inside = drawing.cloneNode(true);
    inside.setAttribute("width", width);
    inside.setAttribute("height", height);
    const position = { x: width / 2, y: height + size, "text-anchor": "middle" };
    file.append(
      make("rect", { width: "100%", height: "100%", fill: "#ffffff" }),
      inside,
      make("text", { ...position, "font-size": size, fill: "#55616b" }, credit),
    );
    return file;
  };

  const save = (file, name) => {
    const link = document.createElement("a");
    const text = new XMLSerializer().serializeToString(file);
    link.href = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  const button = (text, action) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.addEventListener("click", action);
    return made;
  };

  let enlarged;
  const saving = button("Save as SVG", (event) => {
    event.stopPropagation(); // it closes nothing
    const { drawing, named } = enlarged;
    const credit = [`${named}, from “${said("site_name")}”`, said("url")].filter(Boolean).join(", ");
    save(withCredit(drawing, credit), `${named.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.svg`);
  });
  const bar = document.createElement("p");
  bar.append(button("Close"), saving);
  const dialog = document.createElement("dialog");
  dialog.className = "enlarged";
  dialog.addEventListener("click", () => dialog.close());
  (document.querySelector(".bd-article") ?? document.body).append(dialog); // the search has no article

  // As large as the screen, where its texts are large enough, and otherwise around the place that was tapped.
  const enlarge = (drawing, named, opener, tapped) => {
    enlarged = { drawing, named };
    const { left, width } = drawing.getBoundingClientRect();
    const copy = drawing.cloneNode(true);
    copy.style.minWidth = `${drawing.getAttribute("width")}px`;
    copy.style.minHeight = `${drawing.getAttribute("height")}px`;
    dialog.ariaLabel = named;
    dialog.replaceChildren(bar, copy);
    opener.focus({ preventScroll: true }); // to which the focus returns
    dialog.showModal();
    dialog.scrollTo(((tapped - left) / width) * dialog.scrollWidth - dialog.clientWidth / 2, 0);
  };

  for (const drawing of document.querySelectorAll(".bd-article figure > :is(.drawing, .plot)")) {
    const number = drawing.parentElement.querySelector("figcaption strong")?.textContent.replace(ENDING, "");
    const named = number ?? said("title");
    const opener = button("Enlarge", ({ clientX }) => enlarge(drawing, named, opener, clientX));
    opener.className = "enlarge";
    opener.ariaLabel = `Enlarge ${named}`;
    drawing.addEventListener("click", ({ clientX }) => enlarge(drawing, named, opener, clientX));
    drawing.after(opener);
  }
}
