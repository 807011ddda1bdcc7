"""What readers download: the PDF, the ePub, the zip, and the site that links to them."""

import io
import posixpath
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
import zipfile
from fnmatch import fnmatch
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from urllib.parse import unquote, urldefrag

import numpy as np
import pikepdf
import pypdfium2
import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from browser import launched
from downloads import write_notebooks
from epub import entry, simplify, write_epub
from lxml.html import fromstring
from pages import Page, opened, read_book, read_page, relink
from pdf import document
from stamp import COLAB

from companion.visualization import explore_many
from tests.book.conftest import RAW
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

EXERCISES = re.compile(r"\d+ Exercises")  # the title of a section of every chapter

SHEET = {
    "width": 178,
    "height": 257,
}  # millimetres that an A4 sheet has between its margins
MILLIMETRE = 96 / 25.4
STICKING_OUT = """width => [...document.querySelectorAll("body *")].filter(
    element => element.getBoundingClientRect().right > width + 1
).map(element => element.outerHTML.slice(0, 200))"""
XHTML, OPF = "{http://www.w3.org/1999/xhtml}", "{http://www.idpf.org/2007/opf}"
MATH = "{http://www.w3.org/1998/Math/MathML}math"
IN_THE_BOOK = (
    # neither source code nor pictures, nor what a plot refers to
    r'<a [^>]*href="((?!\w+:|\.\./_)[^"#]*)#?([^"]*)"'
)
SCREEN_ONLY = {"script", "form", "input", "button", "select", "style", "iframe"}


class Mark(NamedTuple):
    level: int
    title: str
    sheet: int


@pytest.fixture(scope="module")
def made(html, chromium, tmp_path_factory):
    """A folder with all downloads of the built book, as the command makes them."""
    folder = tmp_path_factory.mktemp("downloads")
    (folder / "html").symlink_to(html)
    command = [
        sys.executable,
        str(ROOT / "book" / "tools" / "downloads.py"),
        "--build",
        str(folder),
    ]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def pdf(made):
    with pikepdf.open(made / "downloads" / "attention.pdf") as pdf:
        yield pdf


@pytest.fixture(scope="module")
def printed(made):
    """What a reader sees of the PDF: the text of each sheet, white space made one, and the bookmarks."""
    with pypdfium2.PdfDocument(made / "downloads" / "attention.pdf") as pdf:
        sheets = [
            " ".join(sheet.get_textpage().get_text_bounded().split()) for sheet in pdf
        ]
        marks = [
            Mark(mark.level, mark.get_title(), mark.get_dest().get_index())
            for mark in pdf.get_toc()
        ]
    return SimpleNamespace(sheets=sheets, marks=marks)


@pytest.fixture(scope="module")
def epub(made):
    """All files of the ePub by their names."""
    with zipfile.ZipFile(made / "downloads" / "attention.epub") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def texts(epub):
    """The ePub's files in XHTML, read as XML."""
    return {
        name: ET.fromstring(content)
        for name, content in epub.items()
        if name.endswith(".xhtml")
    }


def names_of_pages():
    toc = (ROOT / "_toc.yml").read_text("utf-8")
    files = re.findall(r"^[\s-]*(?:root|file): (\S+)", toc, re.MULTILINE)
    return [Path(file).stem for file in files]


def articles(html):
    """What the web pages say, by their names, in the order of the book."""
    pages = {
        name: (html / "book" / f"{name}.html").read_text("utf-8")
        for name in names_of_pages()
    }
    return {
        name: page[page.index("<article") : page.index("</article>")]
        for name, page in pages.items()
    }


def titles(html):
    """The pages' titles, in order: those of the table of contents, and the headings of those without."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    given = {
        Path(one["file"]).stem: one.get("title")
        for part in toc["parts"]
        for one in part["chapters"]
    }
    headings = {
        name: re.search(r"<h1>(.*?)<a ", text)[1]
        for name, text in articles(html).items()
    }
    return [given.get(name) or heading for name, heading in headings.items()]


def numbers(html):
    """The numbers of all formulas."""
    texts = (
        re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL)
        for text in articles(html).values()
    )
    return [number for text in texts for number in re.findall(r"\\tag\{(.*?)\}", text)]


def test_the_pdf_says_what_it_is(pdf):
    config = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))
    information = pdf.docinfo
    assert (information.Title, information.Author) == (
        config["title"],
        config["author"],
    )
    assert pdf.Root.Lang == "en"
    assert pdf.Root.MarkInfo.Marked
    assert pdf.Root.PageMode == "/UseOutlines"


def test_the_pdf_has_a_bookmark_for_each_page_of_the_book_and_for_its_sections(
    printed, html
):
    assert [mark.title for mark in printed.marks if mark.level == 0] == [
        "Contents",
        *titles(html),
    ]
    places = [mark.sheet for mark in printed.marks if mark.level == 0]
    assert places == sorted(set(places))
    exercises = [mark for mark in printed.marks if EXERCISES.fullmatch(mark.title)]
    assert len(exercises) == sum(name[0].isdigit() for name in names_of_pages())
    assert all(
        mark.title[: len(mark.title) // 2] * 2 != mark.title for mark in printed.marks
    )
    assert all(
        mark.level == 1 and mark.title in printed.sheets[mark.sheet]
        for mark in exercises
    )


def test_the_contents_of_the_pdf_have_the_right_numbers(printed):
    for mark in printed.marks[1:]:
        if mark.level == 0:
            assert f" {mark.title} {mark.sheet + 1}" in printed.sheets[1]
            over_and_under_its_head = f"{mark.title} {mark.sheet + 1} {mark.title}"
            assert printed.sheets[mark.sheet].startswith(over_and_under_its_head)


def test_the_pdf_has_the_faces_of_the_book(pdf):
    faces = {
        str(face.get("/BaseFont"))
        for sheet in pdf.pages
        for face in sheet.Resources.get("/Font", {}).values()
    }
    for name in ("BookSerif-Regular", "BookSans-Regular", "BookCode-Regular"):
        assert any(face.endswith(f"+{name}") for face in faces)


def test_the_pdf_has_each_formula_set_and_each_number(printed, html):
    text = " ".join(printed.sheets)
    assert not RAW.findall(text)
    assert numbers(html)
    assert not [number for number in numbers(html) if f"({number})" not in text]


def test_links_inside_the_pdf_lead_somewhere(pdf, html):
    notes = [note for sheet in pdf.pages for note in sheet.obj.get("/Annots", [])]
    targets = {str(note.Dest) for note in notes if "/Dest" in note}
    assert targets <= set(pdf.Root.Dests.keys())
    for name, article in articles(html).items():
        links = re.sub(r'<a class="headerlink".*?</a>', "", article)
        for page, fragment in re.findall(IN_THE_BOOK, links):
            assert (
                f"/{Path(page).stem or name}--{fragment}".removesuffix("--") in targets
            )


def test_all_that_a_plot_of_the_pdf_refers_to_is_there(html):
    _, body = document(read_book(html))
    used = set(re.findall(r'(?:<use [^>]*href="|url\()#([^")]+)', body))
    assert len(used) > 100
    assert used <= set(re.findall(r' id="([^"]*)"', body))


def test_the_pdf_has_every_picture(pdf, html):
    objects = [
        one
        for sheet in pdf.pages
        for one in sheet.Resources.get("/XObject", {}).values()
    ]
    shown = {one.objgen for one in objects if one.Subtype == "/Image"}
    written = {
        source
        for text in articles(html).values()
        for source in re.findall(r'<img[^>]*src="(.*?\.png)"', text)
    }
    assert written
    assert len(shown) > len(written), "the cover has one more"


def test_nothing_is_wider_than_a_sheet(html, chromium):
    book = read_book(html)
    with opened(book, *document(book)) as page:
        page.emulate_media(media="print")
        page.set_viewport_size(
            {side: int(length * MILLIMETRE) for side, length in SHEET.items()}
        )
        assert not page.evaluate(STICKING_OUT, int(SHEET["width"] * MILLIMETRE))
        assert page.locator("mjx-container").count() > 1000
        assert page.locator("mjx-merror").count() == 0


def test_the_epub_is_packed_as_readers_expect(made, epub):
    with zipfile.ZipFile(made / "downloads" / "attention.epub") as archive:
        first = archive.infolist()[0]
    assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
    assert epub["mimetype"] == b"application/epub+zip"
    package = ET.fromstring(epub["book/package.opf"])
    assert package.find(f".//{OPF}meta[@property='dcterms:modified']") is not None
    items = {item.get("id"): item for item in package.iter(f"{OPF}item")}
    listed = {f"book/{item.get('href')}" for item in items.values()}
    assert listed == {*epub} - {
        "mimetype",
        "META-INF/container.xml",
        "book/package.opf",
    }
    order = [
        items[entry.get("idref")].get("href") for entry in package.iter(f"{OPF}itemref")
    ]
    assert order == [
        "cover.xhtml",
        "contents.xhtml",
        *(f"{name}.xhtml" for name in names_of_pages()),
    ]
    for item in items.values():
        marked = "mathml" in item.get("properties", "")
        assert marked == (b"<math " in epub[f"book/{item.get('href')}"])


def test_links_and_pictures_of_the_epub_are_in_it(epub, texts):
    places = {
        name: [e.get("id") for e in text.iter() if e.get("id")]
        for name, text in texts.items()
    }
    for name, text in texts.items():
        assert len(places[name]) == len(set(places[name])), f"{name} has an id twice"
        for element in text.iter():
            for address in (element.get("href"), element.get("src")):
                if address and not re.match(r"\w+:", address):
                    path, fragment = urldefrag(unquote(address))
                    target = (
                        posixpath.join(posixpath.dirname(name), path) if path else name
                    )
                    assert target in epub, f"{name}: {address}"
                    assert not fragment or fragment in places[target], (
                        f"{name}: {address}"
                    )


def test_the_epub_has_nothing_that_only_a_screen_can_use(texts):
    for name, text in texts.items():
        tags = {element.tag.removeprefix(XHTML) for element in text.iter()}
        assert not tags & SCREEN_ONLY, name
        assert (
            text.get("lang"),
            text.find(f"{XHTML}head/{XHTML}title") is not None,
        ) == ("en", True)
        assert all(image.get("alt") for image in text.iter(f"{XHTML}img"))
        assert all("open" in folded.attrib for folded in text.iter(f"{XHTML}details"))
        assert not [
            e.attrib
            for e in text.iter()
            if any(key.startswith("on") for key in e.attrib)
        ]


def test_the_epub_has_each_formula_as_mathml_and_each_number(texts, html):
    found = []
    for name, article in articles(html).items():
        text = texts[f"book/{name}.xhtml"]
        assert len(list(text.iter(MATH))) == len(
            re.findall(r'class="math notranslate', article)
        ), name
        found += [
            number.text.strip("()")
            for number in text.findall(f".//{XHTML}span[@class='number']")
        ]
        assert not RAW.findall("".join(text.itertext())), name
    assert found == numbers(html)


def test_formulas_of_the_epub_have_no_letter_or_mark_that_only_mathjax_knows(
    epub, texts
):
    for text in texts.values():
        for math in text.iter(MATH):
            for element in math.iter():
                assert element.tag.split("}")[1] not in {"merror", "mlabeledtr"}
                assert element.get("mathvariant", "normal") == "normal"
                assert not [name for name in element.attrib if name.startswith("data-")]
    assert "ℝ" in epub["book/08_synthesizer.xhtml"].decode()


def test_the_contents_of_the_epub_name_every_page_and_its_sections(texts, html):
    (nav,) = texts["book/contents.xhtml"].iter(f"{XHTML}nav")
    entries = [(link.get("href"), link.text) for link in nav.iter(f"{XHTML}a")]
    pages = [
        (f"{name}.xhtml", title)
        for name, title in zip(names_of_pages(), titles(html), strict=True)
    ]
    assert all(title for _, title in entries)
    assert [one for one in entries if "#" not in one[0]] == pages
    chapters = sum(name[0].isdigit() for name in names_of_pages())
    assert sum(bool(EXERCISES.fullmatch(title)) for _, title in entries) == chapters


def test_a_section_whose_heading_is_a_link_has_an_entry_with_its_text():
    body = fromstring(
        '<div><section id="one"><h2><a href="01.html">Chapter 1: A &amp; B</a> </h2></section></div>'
    )
    written = fromstring(entry(Page("api", "Drawings", "", body)))
    links = [(link.get("href"), link.text) for link in written.iter("a")]
    assert links == [
        ("api.xhtml", "Drawings"),
        ("api.xhtml#one", "Chapter 1: A & B"),
    ]


def test_a_browser_shows_the_epub_without_a_complaint(made, chromium, tmp_path):
    with zipfile.ZipFile(made / "downloads" / "attention.epub") as archive:
        archive.extractall(tmp_path)
    complaints = visited(
        [tmp_path / "book" / f"{name}.xhtml" for name in ("cover", "02_bahdanau")]
    )
    assert not complaints


def visited(paths):
    """What a browser without a network complains of when it opens files."""
    complaints = []
    with launched() as browser:
        page = browser.new_page(offline=True)
        page.on("requestfailed", lambda request: complaints.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console",
            lambda said: complaints.append(said.text) if said.type == "error" else None,
        )
        for path in paths:
            page.goto(path.as_uri())
            page.wait_for_load_state("networkidle")
            assert page.evaluate(
                "[...document.images].every(i => i.loading === 'lazy' || i.naturalWidth > 0)"
            )
    return complaints


def test_the_zip_works_where_it_is_unpacked(made, html, chromium, tmp_path):
    with zipfile.ZipFile(made / "downloads" / "attention.zip") as archive:
        names = archive.namelist()
        archive.extractall(tmp_path)
    built = {
        f"attention/{path.relative_to(html).as_posix()}"
        for path in html.rglob("*")
        if path.is_file()
    }
    assert {name for name in names if not name.endswith("/")} == {
        name for name in built if not name.startswith("attention/.")
    } - {"attention/ready"}
    paths = [Path(name) for name in names]
    assert paths == sorted(paths)
    pages = ("index.html", "book/index.html", "book/02_bahdanau.html", "search.html")
    assert not visited([tmp_path / "attention" / page for page in pages])


def test_the_notebooks_come_with_the_wheel_that_their_first_cell_finds(tmp_path):
    write_notebooks(tmp_path / "notebooks.zip")
    with zipfile.ZipFile(tmp_path / "notebooks.zip") as archive:
        contents = {Path(name): archive.read(name) for name in archive.namelist()}
    *notebooks, wheel = contents
    assert {path.parent for path in contents} == {Path("attention-notebooks")}
    stored = {path.name: path.read_bytes() for path in ROOT.glob("book/*.ipynb")}
    assert {path.name: contents[path] for path in notebooks} == stored
    assert fnmatch(wheel.name, "*companion*.whl")
    with zipfile.ZipFile(io.BytesIO(contents[wheel])) as archive:
        assert "attention_course/__init__.py" in archive.namelist()


def test_the_site_links_to_the_downloads(made, chromium):
    site = made / "site"
    welcome = (site / "book" / "index.html").read_text("utf-8")
    links = re.findall(r'href="\.\./(downloads/[^"]+)"', welcome)
    assert [Path(link).suffix for link in links] == [".pdf", ".epub", ".zip", ".zip"]
    for link in links:
        assert (site / link).read_bytes() == (made / link).read_bytes()
    assert (
        "make downloads"
        not in welcome[welcome.index("<article") : welcome.index("</article>")]
    )
    with launched() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.goto((site / "book" / "index.html").as_uri())
        found = (
            Axe()
            .run(page, ".downloads", options={"resultTypes": ["violations"]})
            .response["violations"]
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


def test_the_built_pages_themselves_have_no_link_to_a_download(html):
    assert 'href="../downloads' not in (html / "book" / "index.html").read_text("utf-8")


DOWNLOADS = '<div class="downloads docutils container">\n<p><code>make downloads</code></p></div>'


def page_of(tmp_path, content, title="A title"):
    """A page as the theme writes it, with a Colab button over its text, read again."""
    path = tmp_path / "02_page.html"
    button = (
        f'<div class="bd-header-article"><a href="{COLAB}/github/x">Colab</a></div>'
    )
    article = f'<section id="s"><h1>Heading<a class="headerlink">#</a></h1>{content}</section>'
    path.write_text(
        f'<html>{button}<article class="bd-article">{article}</article></html>', "utf-8"
    )
    return read_page(path, title, "Part")


def test_a_page_is_read_without_what_only_a_screen_can_use(tmp_path):
    folded = "<details><summary><p>{}</p></summary><pre>{}</pre></details>"
    cell = f'<div class="cell tag_hide-cell docutils">{folded}</div>'
    code = '<span class="k">def</span> f'
    page = page_of(
        tmp_path,
        cell.format("Setup", "install")
        + cell.format("Solution", "solved")
        + f'<div class="highlight"><pre>{code}</pre></div>{DOWNLOADS}'
        + '<img src="a.png" loading="lazy" alt="A">',
    )
    assert (page.name, page.title, page.part) == ("02_page", "A title", "Part")
    said = [text.strip() for text in page.body.itertext() if text.strip()]
    assert said == ["A title", "Solution", "solved", "def", "f"]
    assert [span.get("class") for span in page.body.iter("span")] == ["k"]
    assert [dict(image.attrib) for image in page.body.iter("img")] == [
        {"src": "a.png", "alt": "A"}
    ]
    assert [folded.get("open") for folded in page.body.iter("details")] == [""]
    assert page_of(tmp_path, "", title=None).title == "Heading"


def test_an_explorer_becomes_the_table_of_its_open_map(tmp_path):
    maps = {
        "one": np.array([[0.5, 0.5], [0.5, 0.5]]),
        "two": np.array([[0.25, 0.75], [1.0, 0.0]]),
    }
    shown = explore_many(
        {name: (values, ["a", "b"], ["<x>", "y"]) for name, values in maps.items()},
        "Looks",
        first="two",
    )
    page = page_of(
        tmp_path, f'<div class="output text_html">{shown._repr_html_()}</div>'
    )
    assert not {element.tag for element in page.body.iter()} & SCREEN_ONLY
    rows = [[cell.text_content() for cell in row] for row in page.body.iter("tr")]
    assert rows == [["", "<x>", "y"], ["a", "25", "75"], ["b", "100", ""]]
    shades = re.findall(
        r", ([\d.]+)\)",
        " ".join(cell.get("style", "") for cell in page.body.iter("td")),
    )
    assert shades == ["0.19", "0.56", "0.75"]
    said = page.body.findtext(".//figcaption/p")
    assert said.startswith("Looks. ")
    assert said.endswith(" This is two, one of 2 maps; the web page has them all.")


def test_a_lonely_map_has_no_others(tmp_path):
    shown = explore_many({"Looks": (np.ones((1, 1)), ["a"], ["x"])}, "Looks")
    page = page_of(
        tmp_path, f'<div class="output text_html">{shown._repr_html_()}</div>'
    )
    assert page.body.findtext(".//figcaption/p") == (
        "Looks. Weights in percent; cells below 0.5 % are left blank."
    )


def test_links_are_led_to_the_new_places_and_a_page_that_is_missing_is_named():
    links = (
        "<p>"
        + "".join(
            f'<a href="{to}">a</a>'
            for to in ("#x", "b.html", "b.html#y", "https://z/c.html")
        )
        + "</p>"
    )
    one = Page("a", "A", "", fromstring(links))
    relink(
        [one, Page("b", "B", "", fromstring("<p></p>"))],
        lambda name, fragment: f"{name}|{fragment}",
    )
    assert one.body.xpath(".//@href") == ["a|x", "b|", "b|y", "https://z/c.html"]
    with pytest.raises(ValueError, match=r"a links to gone\.html, which is no page"):
        relink(
            [Page("a", "A", "", fromstring('<p><a href="gone.html#x">a</a></p>'))], str
        )


@pytest.mark.parametrize(
    ("alphabet", "capital", "expected"),
    [("script", "L", "ℒ"), ("script", "N", "𝒩"), ("double-struck", "R", "ℝ")],
)
def test_letters_of_other_alphabets(alphabet, capital, expected):
    def simple(text):
        math = fromstring(f'<math><mi mathvariant="{alphabet}">{text}</mi></math>')
        simplify(math)
        return math.find("mi")

    assert (simple(capital).text, dict(simple(capital).attrib)) == (expected, {})
    with pytest.raises(ValueError, match="not found"):
        simple("1")


def test_a_formula_that_mathjax_cannot_read_is_an_error(html, chromium, tmp_path):
    small = tmp_path / "html"
    (small / "book").mkdir(parents=True)
    (small / "_static").symlink_to(html / "_static")
    for name in names_of_pages():
        formula = r'<span class="math notranslate">\(\frac{1\)</span>'
        (small / "book" / f"{name}.html").write_text(
            f'<html><body><article class="bd-article"><h1>A</h1><p>{formula}</p></article></body></html>'
        )
    with pytest.raises(ValueError, match=r"MathJax cannot read \\\(\\frac\{1"):
        write_epub(small, tmp_path / "a.epub")
