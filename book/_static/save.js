// A drawing or plot can be saved as an SVG file, with a line below it that says where it is from.
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

  for (const drawing of document.querySelectorAll(".bd-article figure > :is(.drawing, .plot)")) {
    const number = drawing.parentElement.querySelector("figcaption strong")?.textContent.replace(ENDING, "");
    const named = number ?? said("title");
    const credit = [`${named}, from “${said("site_name")}”`, said("url")].filter(Boolean).join(", ");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "save-drawing";
    button.textContent = "Save as SVG";
    button.ariaLabel = `Save as SVG: ${named}`;
    button.addEventListener("click", () =>
      save(withCredit(drawing, credit), `${named.toLowerCase().replace(/[^a-z0-9]+/g, "-")}.svg`),
    );
    drawing.after(button);
  }
}
