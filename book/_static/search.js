// Search among the texts of all pages: chapters first, then the reference, then the package. Each page that has all
// words is found once, at the section that says most about them, with a passage from it.
{
  const MOST_NAMES = 20; // of the package
  const BEFORE = 80; // letters of a passage before the words
  const LETTERS = 240; // of a passage
  const weightOf = (page) => (/^book\/\d/.test(page) ? 3 : /^book\/(api_|compatib)/.test(page) ? 0.3 : 1);

  const ASIDE = /Exercises|Common mistakes|Summary|Further reading|What the papers? measured/;

  const wordsOf = (query) =>
    [...query.toLowerCase().matchAll(/[\p{L}\p{N}]+/gu)].map(([word]) => word.replace(/(?<=...)s$/, ""));
  const patternOf = (words) => new RegExp(`(?<![\\p{L}\\p{N}])${words.join("\\p{L}*[^\\p{L}\\p{N}]+")}\\p{L}*`, "giu");
  const count = (text, pattern) => text.match(pattern)?.length ?? 0;

  const search = (words) => {
    const together = patternOf(words);
    const each = words.map((word) => patternOf([word]));
    const found = [];
    for (const [page, sections] of TEXTS) {
      const whole = sections.flat().join(" ");
      if (!each.every((pattern) => count(whole, pattern))) continue;
      const ranked = sections.map((section, index) => {
        const [, heading, text] = section;
        const mentions = count(text, together) + 0.2 * Math.min(...each.map((pattern) => count(text, pattern)));
        const named = count(heading, together) ? 8 + 30 / heading.length : 0;
        const score = named + (10 * mentions) / (mentions + 4) - index / 1000; // of two alike, the first
        return { section, score: ASIDE.test(heading) ? score / 3 : score };
      });
      const best = ranked.reduce((one, other) => (other.score > one.score ? other : one));
      const all = count(whole, together);
      found.push({ page, title: sections[0][1], ...best, rank: weightOf(page) * (best.score + (20 * all) / (all + 20)) });
    }
    return found.sort((one, other) => other.rank - one.rank);
  };

  const passage = (text, words) => {
    const at = Math.max(0, text.search(patternOf(words)), text.search(patternOf(words.slice(0, 1))));
    const start = at <= BEFORE ? 0 : text.indexOf(" ", at - BEFORE) + 1;
    const end = start + LETTERS < text.length ? text.lastIndexOf(" ", start + LETTERS) : text.length;
    return `${start ? "… " : ""}${text.slice(start, end)}${end < text.length ? " …" : ""}`;
  };

  const withMarks = (text, words) => {
    const part = document.createElement("p");
    part.className = "context";
    let done = 0;
    for (const match of text.matchAll(new RegExp(words.map((word) => patternOf([word]).source).join("|"), "giu"))) {
      const mark = document.createElement("mark");
      mark.textContent = match[0];
      part.append(text.slice(done, match.index), mark);
      done = match.index + match[0].length;
    }
    part.append(text.slice(done));
    return part;
  };

  const entry = (page, anchor, title, ...more) => {
    const item = document.createElement("li");
    const link = document.createElement("a");
    link.href = `${document.documentElement.dataset.content_root}${page}.html${anchor}`;
    link.textContent = title;
    item.append(link, ...more);
    Search.output.append(item);
  };

  Search.query = (query) => {
    const [, , , , names] = Search._parseQuery(query);
    const words = wordsOf(query);
    const found = words.length ? search(words) : [];
    for (const { page, title, section: [anchor, heading, text] } of found) {
      const where = heading === title ? title : `${title} › ${heading}`;
      entry(page, `#${anchor}`, where, withMarks(passage(text, words), words));
    }
    const objects = [...names].flatMap((name) => Search.performObjectSearch(name, names));
    objects.sort((one, other) => other[4] - one[4]);
    for (const [page, name, anchor, description] of objects.slice(0, MOST_NAMES)) {
      entry(page, anchor, name, ` (${description})`);
    }
    Search.stopPulse();
    Search.title.innerText = "Search results";
    Search.status.innerText = found.length ? `${found.length} pages have these words.` : "No page has all these words.";
  };
}
