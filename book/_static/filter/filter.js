// A filter for the rows of the errata and the terms of the glossary: by words, section, and kind of source or letter.
// Without this script all are shown.
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

  const glossary = document.querySelector("dl.glossary");
  const sections = [...document.querySelectorAll("article section section")].filter((section) =>
    section.querySelector(glossary ? "dl" : "table"),
  );
  const rows = sections.flatMap((section) =>
    [...section.querySelectorAll(glossary ? "dl.glossary > dt" : "tbody tr")].map((row) => {
      const parts = glossary ? [row, row.nextElementSibling] : [row];
      return {
        parts,
        section,
        source: (row.cells?.[0] ?? row).textContent.trim().replaceAll("'", "’"),
        text: plain(parts.map((part) => part.textContent).join(" ")),
      };
    }),
  );
  const letters = [...new Set(rows.map(({ source }) => source[0].toUpperCase()))].sort();
  const kinds = glossary
    ? Object.fromEntries(letters.map((letter) => [letter, new RegExp(`^${letter}`, "i")]))
    : KINDS;

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
  const heading = (section) => section.querySelector("h2").firstChild.textContent;
  const entry = (section) => document.querySelector(`.page-toc li:has(> a[href="#${section.id}"])`);

  const words = document.createElement("input");
  words.type = "search";
  const section = choice(sections.map(heading));
  const kind = choice(Object.keys(kinds));
  const count = document.createElement("output");
  const all = document.createElement("button");
  all.type = "button";
  all.textContent = "Show all";
  const form = document.createElement("form");
  form.role = "search";
  form.ariaLabel = document.querySelector("h1").firstChild.textContent;
  form.append(
    labelled("Words", words),
    labelled(glossary ? "Subject" : "Chapter", section),
    labelled(glossary ? "Letter" : "Source", kind),
    count,
    all,
  );

  const filter = () => {
    const wanted = plain(words.value).split(/\s+/);
    let shown = 0;
    for (const row of rows) {
      row.isShown =
        (!section.value || heading(row.section) === section.value) &&
        (!kind.value || kinds[kind.value].test(row.source)) &&
        wanted.every((word) => row.text.includes(word));
      for (const part of row.parts) part.hidden = !row.isShown;
      shown += row.isShown;
    }
    for (const one of sections) {
      one.hidden = !rows.some((row) => row.section === one && row.isShown);
      entry(one).hidden = one.hidden; // in the page's list of contents
    }
    const things = glossary ? "terms" : "rows";
    count.textContent = shown ? `${shown} of ${rows.length} ${things}` : `No ${things.slice(0, -1)} matches.`;
    all.hidden = shown === rows.length;
  };
  const showAll = () => {
    form.reset();
    filter();
  };

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  all.addEventListener("click", () => {
    showAll();
    words.focus();
  });
  // A link may lead to what is hidden.
  addEventListener("hashchange", () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target?.closest("[hidden]")) return;
    showAll();
    target.scrollIntoView();
  });
  document.querySelector(".page-filter").append(form);
  filter();
}
