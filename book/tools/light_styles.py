"""Merge the style sheets of all pages into a small one, with only the rules and icons that the book uses.

`light_pages` calls `Style` when the pages have been written. The theme's sheets serve any site, and no page
is painted before they are loaded. Of their 540 kB the book uses 150.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import tinycss2
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from tinycss2.ast import AtRule, Node, QualifiedRule

LINK = re.compile(
    r'\s*<link (?=[^>]*rel="stylesheet")(?![^>]*media=)[^>]*href="([^"?]+)[^"]*"[^>]*>'
)
IMPORT = re.compile(r'@import "([^"]+)";')
MARKS = re.compile(
    r'\b(?:class|id|on\w+)="([^"]*)"|<script\b[^>]*>(.*?)</script>', re.DOTALL
)
WORD = re.compile(r"[\w-]+")
CLASS_OR_ID = re.compile(r"[.#]([\w-]+)")
ARGUMENTS = re.compile(r"\([^()]*\)|\[[^\]]*\]")
BUILT = {"bs-tooltip-auto"}  # Bootstrap assembles this name
WITH_RULES = "media", "supports"
LEFT_OUT = "charset", "font-face"
ICON = re.compile("[\uf000-\uf8ff]")
FONT = Path("vendor", "fontawesome", "webfonts", "fa-solid-900.ttf")
FONT_FACE = '@font-face{font-family:"Font Awesome 6 Free";font-weight:900;src:url(%s)}'


class Style:
    """The one sheet, `_static/site.css`, and the links of a page to it.

    Args:
        static: the folder `_static` of the site.
        pages: the text of every page.
        shared: the page that links to no sheet but those of all pages.
    """

    def __init__(self, static: Path, pages: Mapping[Path, str], shared: Path):
        links = LINK.findall(pages[shared])
        self.sheets = [(shared.parent / link).resolve() for link in links]
        scripts = (s for s in static.rglob("*.js") if "mathjax" not in s.parts)
        names = names_in(pages.values(), scripts)
        rules = "".join(used("".join(map(read, self.sheets)), names))
        font = font_of(map(ord, ICON.findall(rules)), static / FONT)
        face = FONT_FACE % f"{font.relative_to(static).as_posix()}?v={digest(font)}"
        self.path = (static / "site.css").resolve()
        self.path.write_text(f'@charset "UTF-8";\n{face}\n{rules}', "utf-8")
        self.version = digest(self.path)

    def linked(self, page: str, folder: Path) -> str:
        """A page of this folder with one link to this sheet in place of those that it replaces.

        The page's own sheets follow it.
        """
        address = Path(os.path.relpath(self.path, folder.resolve())).as_posix()
        one = f'\n<link rel="stylesheet" href="{address}?v={self.version}" />'

        def replace(link: re.Match[str]) -> str:
            sheet = (folder / link[1]).resolve()
            if sheet not in self.sheets:
                return link[0]
            return one if sheet == self.sheets[0] else ""

        return LINK.sub(replace, page)


def digest(file: Path) -> str:
    """Eight digits that change with the content, so that no browser keeps an old file."""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:8]


def read(sheet: Path) -> str:
    """The text of a style sheet, with those that it imports in place of their imports."""
    return IMPORT.sub(
        lambda found: read(sheet.parent / found[1]), sheet.read_text("utf-8")
    )


def names_in(pages: Iterable[str], scripts: Iterable[Path]) -> set[str]:
    """The classes and ids of pages, and the words of scripts, each of which may become one."""
    found = [mark for page in pages for marks in MARKS.findall(page) for mark in marks]
    found += [script.read_text("utf-8") for script in scripts]
    return BUILT | {word for text in found for word in WORD.findall(text)}


def used(style: str, names: set[str]) -> Iterator[str]:
    """The rules of a style sheet that can apply where there are no classes and ids but these."""
    return kept(tinycss2.parse_stylesheet(style, True, True), names)


def kept(rules: Iterable[Node], names: set[str]) -> Iterator[str]:
    """Those of the parsed rules that can apply."""
    for rule in rules:
        if isinstance(rule, QualifiedRule):
            selectors = tinycss2.serialize(rule.prelude).strip()
            if applies(selectors, names):
                yield f"{selectors}{{{tinycss2.serialize(rule.content).strip()}}}\n"
        elif isinstance(rule, AtRule) and rule.lower_at_keyword in WITH_RULES:
            inner = tinycss2.parse_rule_list(rule.content, True, True)
            if text := "".join(kept(inner, names)):
                condition = tinycss2.serialize(rule.prelude).strip()
                yield f"@{rule.at_keyword} {condition}{{\n{text}}}\n"
        elif isinstance(rule, AtRule) and rule.lower_at_keyword == "import":
            raise ValueError(f"cannot merge {rule.serialize()}")
        elif isinstance(rule, AtRule) and rule.lower_at_keyword not in LEFT_OUT:
            yield f"{rule.serialize()}\n"


def applies(selectors: str, names: set[str]) -> bool:
    """Whether all classes and ids of one of the selectors, which commas separate, are among the names."""
    required, found = selectors, 1
    while found:
        required, found = ARGUMENTS.subn("", required)
    return any(
        names.issuperset(CLASS_OR_ID.findall(one)) for one in required.split(",")
    )


def font_of(characters: Iterable[int], font: Path) -> Path:
    """Write a subset of a font with only these characters, and return its path."""
    part = TTFont(font, recalcTimestamp=False)
    subsetter = Subsetter(Options(layout_features=[], notdef_outline=False))
    subsetter.populate(unicodes=characters)
    subsetter.subset(part)
    part.flavor = "woff"
    path = font.with_name(f"{font.stem}-part.woff")
    part.save(path)
    return path
