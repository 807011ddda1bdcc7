// A filter for the errata: by words, chapter, and kind of source. Without this script all rows are shown.
{
  // A kind of source, by what stands in a row's first cell.
  const KINDS = {
    "a paper": /^the paper(?!’s code)/,
    "the code of a paper": /(authors|paper|article)’s? code|its code/,
    "an article or tutorial": /^an article|tutorial|textbook|notes|accounts/,
    "a library or repository": /librar|repositor|^nn\.|Annotated|PyTorch|one of them/,
    "common code": /^common code/,
    "often said or written": /^easily|^often|draft/,
  };
  const chapters = [...document.querySelectorAll("article section section")].filter(
    (section) => section.querySelector("table"),
  );
  const rows = chapters.flatMap((chapter) =>
    [...chapter.querySelectorAll("tbody tr")].map((row) => ({
      row,
      chapter,
      source: row.cells[0].textContent.trim().replaceAll("'", "’"),
      text: row.textContent.toLowerCase(),
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

  const words = document.createElement("input");
  words.type = "search";
  const chapter = choice(chapters.map(heading));
  const kind = choice(Object.keys(KINDS));
  const count = document.createElement("output");
  const form = document.createElement("form");
  form.role = "search";
  form.ariaLabel = "Errata";
  form.append(
    labelled("Words", words),
    labelled("Chapter", chapter),
    labelled("Source", kind),
    count,
  );

  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/);
    for (const one of rows) {
      one.row.hidden = !(
        (!chapter.value || heading(one.chapter) === chapter.value) &&
        (!kind.value || KINDS[kind.value].test(one.source)) &&
        wanted.every((word) => one.text.includes(word))
      );
    }
    for (const section of chapters) {
      section.hidden = rows.every((one) => one.chapter !== section || one.row.hidden);
    }
    const shown = rows.filter((one) => !one.row.hidden).length;
    count.textContent = `${shown} of ${rows.length} rows`;
  };

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.querySelector(".errata-filter").append(form);
  filter();
}
