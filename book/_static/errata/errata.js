// A filter for the errata: by words, chapter, and kind of source. Without this script all rows are shown.
{
  // A kind of source, by what stands in a row's first cell.
  const KINDS = {
    "a paper": /^the papers?\b(?!’s code)/,
    "the code of a paper": /(authors|paper)’s? (later )?code|its code/,
    "an article or textbook": /article|textbook/,
    "a tutorial": /tutorial/,
    "a library": /librar|PyTorch(?!’s chatbot)/,
    "an implementation": /implementation/,
  };
  // Formulas are compared as they look, as far as readers can type that: √dk for both \sqrt{d_k} and √d_k.
  const SIGNS = {
    alpha: "α",
    approx: "≈",
    bar: "",
    beta: "β",
    cdot: "·",
    circ: "∘",
    dots: "…",
    ell: "ℓ",
    lambda: "λ",
    langle: "⟨",
    mathcal: "",
    mathrm: "",
    rangle: "⟩",
    sigma: "σ",
    sqrt: "√",
    tau: "τ",
    text: "",
    top: "⊤",
    varepsilon: "ε",
  };
  const plain = (text) =>
    text
      .replace(/\\[()]|\\([a-z]+)\s*/gi, (_, name) => SIGNS[name] ?? name ?? "")
      .replace(/[\\{}_^$]/g, "")
      .toLowerCase();

  const chapters = [...document.querySelectorAll("article section section")].filter(
    (section) => section.querySelector("table"),
  );
  const rows = chapters.flatMap((chapter) =>
    [...chapter.querySelectorAll("tbody tr")].map((row) => ({
      row,
      chapter,
      source: row.cells[0].textContent.trim().replaceAll("'", "’"),
      text: plain(row.textContent),
    })),
  );

  const labelled = (text, field) => {
    const label = document.createElement("label");
    label.append(`${text} `, field);
    return label;
  };
  const choice = (options) => {
    const select = document.createElement("select");
    select.append(new Option("all", ""), ...options.map((name) => new Option(name)));
    return select;
  };
  const heading = (chapter) => chapter.querySelector("h2").firstChild.textContent;
  const entry = (chapter) => document.querySelector(`.page-toc li:has(> a[href="#${chapter.id}"])`);

  const words = document.createElement("input");
  words.type = "search";
  const chapter = choice(chapters.map(heading));
  const kind = choice(Object.keys(KINDS));
  const count = document.createElement("output");
  const all = document.createElement("button");
  all.type = "button";
  all.textContent = "Show all";
  const form = document.createElement("form");
  form.role = "search";
  form.ariaLabel = "Errata";
  form.append(
    labelled("Words", words),
    labelled("Chapter", chapter),
    labelled("Source", kind),
    count,
    all,
  );

  const filter = () => {
    const wanted = plain(words.value).split(/\s+/);
    for (const one of rows) {
      one.row.hidden = !(
        (!chapter.value || heading(one.chapter) === chapter.value) &&
        (!kind.value || KINDS[kind.value].test(one.source)) &&
        wanted.every((word) => one.text.includes(word))
      );
    }
    for (const section of chapters) {
      section.hidden = rows.every((one) => one.chapter !== section || one.row.hidden);
      entry(section).hidden = section.hidden; // in the page's list of contents
    }
    const shown = rows.filter((one) => !one.row.hidden).length;
    count.textContent = shown ? `${shown} of ${rows.length} rows` : "No row matches.";
    all.hidden = shown === rows.length;
  };

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  all.addEventListener("click", () => {
    form.reset();
    filter();
    words.focus();
  });
  document.querySelector(".errata-filter").append(form);
  filter();
}
