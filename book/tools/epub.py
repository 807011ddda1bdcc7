"""The book as an ePub: one file a page, formulas as MathML, a table of contents, a cover, and no scripts."""

import re
import uuid
import zipfile
from datetime import UTC, datetime
from html import escape
from mimetypes import MimeTypes
from pathlib import Path
from string import ascii_uppercase

import lxml.etree
from lxml.html import HtmlElement
from lxml.html.builder import E
from pages import FORMULAS, Book, Page, cover, opened, read_book, relink, stylesheet
from playwright.sync_api import ViewportSize

CONTAINER = """\
<?xml version="1.0" encoding="UTF-8"?>
<container version="1.0" xmlns="urn:oasis:names:tc:opendocument:xmlns:container">
<rootfiles><rootfile full-path="book/package.opf" media-type="application/oebps-package+xml"/></rootfiles>
</container>
"""
DOCUMENT = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE html>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops" lang="en" xml:lang="en">
<head><title>{title}</title><link rel="stylesheet" href="style.css"/></head>
<body>{body}</body>
</html>
"""
PACKAGE = """\
<?xml version="1.0" encoding="UTF-8"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="identifier" xml:lang="en">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:identifier id="identifier">urn:uuid:{identifier}</dc:identifier>
<dc:title>{title}</dc:title>
<dc:creator>{author}</dc:creator>
<dc:language>en</dc:language>
<meta property="dcterms:modified">{modified:%Y-%m-%dT%H:%M:%SZ}</meta>
<meta property="schema:accessMode">textual</meta>
<meta property="schema:accessMode">visual</meta>
<meta property="schema:accessModeSufficient">textual</meta>
<meta property="schema:accessibilityFeature">alternativeText</meta>
<meta property="schema:accessibilityFeature">MathML</meta>
<meta property="schema:accessibilityFeature">tableOfContents</meta>
<meta property="schema:accessibilityHazard">none</meta>
</metadata>
<manifest>{manifest}</manifest>
<spine>{spine}</spine>
</package>
"""
TAG = re.compile(r"\\tag\{([^{}]*)\}")
TO_MATHML = """async formulas => {
    const written = [];
    for (const [formula, display] of formulas) written.push(await MathJax.tex2mmlPromise(formula, {display}));
    return written;
}"""
MATHML = "{http://www.w3.org/1998/Math/MathML}"
APPLY, THIN = "\u2061", "0.167em"
CAPITALS = {
    "double-struck": "𝔸𝔹ℂ𝔻𝔼𝔽𝔾ℍ𝕀𝕁𝕂𝕃𝕄ℕ𝕆ℙℚℝ𝕊𝕋𝕌𝕍𝕎𝕏𝕐ℤ",
    "script": "𝒜ℬ𝒞𝒟ℰℱ𝒢ℋℐ𝒥𝒦ℒℳ𝒩𝒪𝒫𝒬ℛ𝒮𝒯𝒰𝒱𝒲𝒳𝒴𝒵",
}
COVER_SIZE = ViewportSize(width=1200, height=1600)
SPECIAL = {"cover.png": "cover-image", "contents.xhtml": "nav"}
INSIDE = {"mathml": b"<math ", "svg": b"<svg "}
TYPES = MimeTypes()
TYPES.add_type("application/xhtml+xml", ".xhtml")


def write_epub(html: Path, path: Path) -> None:
    """Write the book that is built in the folder ``html`` into the file ``path``."""
    book = read_book(html)
    relink(book.pages, lambda name, place: f"{name}.xhtml#{place}".removesuffix("#"))
    formulas = [formula for page in book.pages for formula in page.body.xpath(FORMULAS)]
    with opened(book, stylesheet(book, "cover.css"), cover(book)) as browser:
        written = browser.evaluate(TO_MATHML, [source(formula) for formula in formulas])
        browser.set_viewport_size(COVER_SIZE)
        picture = browser.screenshot()
    for formula, mathml in zip(formulas, written, strict=True):
        insert(formula, mathml)
    files = {"cover.png": picture, "style.css": stylesheet(book, "epub.css").encode()}
    files |= images(book)
    shown = f'<img src="cover.png" alt="{escape(book.title)}"/>'
    files["cover.xhtml"] = document(book.title, shown)
    nav = f'<nav epub:type="toc">{book.listed(entry)}</nav>'
    files["contents.xhtml"] = document("Contents", nav)
    for page in book.pages:
        files[f"{page.name}.xhtml"] = document(page.title, content(page.body))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
        archive.writestr("META-INF/container.xml", CONTAINER)
        archive.writestr("book/package.opf", package(book, files))
        for name in sorted(files):
            archive.writestr(f"book/{name}", files[name])


def source(formula: HtmlElement) -> tuple[str, bool]:
    """The TeX of a formula, and whether it is displayed on its own line."""
    tex = TAG.sub("", formula.text).strip()
    return tex[2:-2], tex.startswith(r"\[")


def insert(formula: HtmlElement, mathml: str) -> None:
    """Replace the TeX of a formula by MathML, followed by its number if it has one.

    Raises:
        ValueError: MathJax does not understand the formula.
    """
    math = lxml.etree.fromstring(mathml, lxml.etree.XMLParser(remove_blank_text=True))
    if math.find(f".//{MATHML}merror") is not None:
        raise ValueError(f"MathJax cannot read {formula.text}")
    simplify(math)
    number = TAG.search(formula.text)
    math.set("alttext", source(formula)[0].strip())
    formula.text = None
    formula.append(math)
    if number:
        formula.append(E.span(f"({number[1]})", {"class": "number"}))


def simplify(math: lxml.etree._Element) -> None:
    """Replace what only MathJax understands: letters of other alphabets, and the space around functions.

    Raises:
        ValueError: such a letter is no capital.
    """
    for element in math.iter():
        for name in list(element.attrib):
            if name.startswith("data-"):
                del element.attrib[name]
            elif element.get(name) == "thickmathspace":
                element.set(name, "0.278em")
        if capitals := CAPITALS.get(element.get("mathvariant")):
            del element.attrib["mathvariant"]
            element.text = capitals[ascii_uppercase.index(element.text)]
    for apply in [sign for sign in math.iter(f"{MATHML}mo") if sign.text == APPLY]:
        function, argument = apply.getprevious(), apply.getnext()
        before = function.getprevious()
        if before is not None and before.tag != f"{MATHML}mo":
            function.addprevious(lxml.etree.Element(f"{MATHML}mspace", width=THIN))
        if argument is not None and argument.tag != f"{MATHML}mo":
            apply.set("rspace", THIN)


def images(book: Book) -> dict[str, bytes]:
    """The pictures by their names in the ePub, which the pages have from now on."""
    found = {}
    for page in book.pages:
        for image in page.body.iter("img"):
            path = book.html / "book" / image.get("src")
            image.set("src", f"images/{path.name}")
            found[f"images/{path.name}"] = path.read_bytes()
    return found


def content(body: HtmlElement) -> str:
    """The content of a page as XML."""
    return "".join(lxml.etree.tostring(child, encoding="unicode") for child in body)


def document(title: str, body: str) -> bytes:
    """A page of the ePub as a file."""
    return DOCUMENT.format(title=escape(title), body=body).encode()


def entry(page: Page) -> str:
    """A page and its sections in the table of contents."""
    sections = "".join(
        f'<li><a href="{page.name}.xhtml#{section.get("id")}">'
        f"{escape(section.find('h2').text_content().strip())}</a></li>"
        for section in page.body.xpath(".//section[h2]")
    )
    below = f"<ol>{sections}</ol>" if sections else ""
    return f'<li><a href="{page.name}.xhtml">{escape(page.title)}</a>{below}</li>'


def package(book: Book, files: dict[str, bytes]) -> str:
    """The package document: metadata with the time of the build, all files, and the order of reading."""
    names = sorted(files)
    manifest = "".join(
        f'<item id="f{number}" href="{name}" {properties(name, files)}/>'
        for number, name in enumerate(names)
    )
    order = ["cover", "contents", *(page.name for page in book.pages)]
    places = (names.index(f"{name}.xhtml") for name in order)
    built = (book.html / "index.html").stat().st_mtime
    return PACKAGE.format(
        identifier=uuid.uuid5(uuid.NAMESPACE_OID, book.title),
        title=escape(book.title),
        author=escape(book.author),
        modified=datetime.fromtimestamp(built, UTC),
        manifest=manifest,
        spine="".join(f'<itemref idref="f{place}"/>' for place in places),
    )


def properties(name: str, files: dict[str, bytes]) -> str:
    """The attributes of a file in the package document: its type, and what is special about it."""
    found = [kind for kind, tag in INSIDE.items() if tag in files[name]]
    special = SPECIAL.get(name, " ".join(found) if name.endswith(".xhtml") else "")
    kind = f'media-type="{TYPES.guess_type(name)[0]}"'
    return f'{kind} properties="{special}"' if special else kind
