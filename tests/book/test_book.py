"""The built book: whole, offline, and with an address only where _config.yml gives one."""

import gzip
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
import yaml
from book_pages import name_box
from docutils import nodes
from docutils.utils import new_document
from PIL import Image
from stamp import COLAB, repository_url, site_url, stamp

import companion
from attention_course.data import numbers
from tests.conftest import ROOT

EXAMPLE = "https://github.com/some-one/a-book"
PUBLISHED = "https://some-one.github.io/a-book"
IN_COLAB = f"{COLAB}/github/some-one/a-book/blob/main/book/"
ADDRESS = re.compile(
    r"(?:git\+(?:https?|ssh|git)://|colab\.research\.google\.com/github/)[\w.~%/-]+"
)
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?"
    r"\b(?:src|href|data)=[\"']?((?:https?:)?//[^\"'> ]+)"
    r"|(?:@import|url\()\s*(?:url\()?[\"']?((?:https?:)?//[^\"') ]+)",
    re.IGNORECASE,
)
IN_STYLE = re.compile(r"""url\(["']?([^"')#]+)""")
# Bytes of a chapter as it is sent, compressed, without fonts, MathJax and pictures: these come one by one.
SENT = 400_000


def contents():
    """Every file that the table of contents names, without its ending."""
    toc = (ROOT / "_toc.yml").read_text("utf-8")
    return [
        file.removesuffix(".ipynb")
        for file in re.findall(r"^[\s-]*(?:root|file): (\S+)", toc, re.MULTILINE)
    ]


def tracked_files():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT
    )
    return [
        ROOT / name
        for name in listed.stdout.split("\0")
        if name and (ROOT / name).is_file()
    ]


def test_every_page_of_the_contents_is_built_and_no_other(html):
    built = {
        path.relative_to(html).with_suffix("").as_posix()
        for path in html.rglob("*.html")
    }
    built = {name for name in built if not name.startswith("_")}
    assert built == {*contents(), "index", "search"}


def test_every_figure_of_the_pages_is_there_and_described(html):
    for page in html.glob("book/*.html"):
        for tag in re.findall(r"<img\b[^>]*>", page.read_text("utf-8")):
            source = re.search(r'src="([^"]+)"', tag)[1]
            assert source.startswith("data:") or (page.parent / source).is_file(), tag
            assert re.search(r'alt="[^"]+"', tag), f"{page.name}: {tag}"


def test_nothing_is_loaded_from_another_host(html):
    for path in html.rglob("*"):
        if path.suffix in {".html", ".css"}:
            found = [
                one or other for one, other in LOADED.findall(path.read_text("utf-8"))
            ]
            assert not found, f"{path.relative_to(html)}: {found}"


@pytest.mark.parametrize(
    "text",
    [
        '<script async src="https://cdn.example/x.js">',
        '<link rel="stylesheet" href="//fonts.example/a.css"/>',
        "@import url('https://fonts.example/a.css')",
        "src: url(https://fonts.example/a.woff2)",
    ],
)
def test_the_scan_sees_what_it_looks_for(text):
    assert LOADED.search(text)


class Links(HTMLParser):
    """What a page points at, and the anchors in it that others can point at."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.places = [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = {name: value for name, value in attributes if value}
        self.targets += [
            found[name] for name in ("href", "src", "action") if name in found
        ]
        self.places |= {found["id"]} if "id" in found else set()


def dead_links(folder):
    """Every link, picture, script and style of a folder's pages that leads nowhere in that folder."""
    kinds = ("*.html", "book/*.html")
    pages = {
        path: Links(path.read_text("utf-8"))
        for kind in kinds
        for path in folder.glob(kind)
    }
    targets = [
        (path, target) for path, page in pages.items() for target in page.targets
    ]
    styles = {
        Path(os.path.normpath(path.parent / urlsplit(target).path))
        for path, target in targets
    }
    for style in styles:
        if style.suffix == ".css" and style.is_file():
            targets += [
                (style, target) for target in IN_STYLE.findall(style.read_text("utf-8"))
            ]
    return [
        f"{path.name}: {target}"
        for path, target in targets
        if leads_nowhere(path, target, pages)
    ]


def leads_nowhere(path, target, pages):
    """Whether a page has a target inside the site that is not there."""
    address, fragment = urldefrag(target)
    if urlsplit(address).scheme or address.startswith("//"):
        return False
    inside = unquote(urlsplit(address).path)
    goal = Path(os.path.normpath(path.parent / inside)) if inside else path
    return not goal.exists() or (
        goal in pages and unquote(fragment) not in pages[goal].places
    )


def test_every_link_leads_somewhere(html):
    assert not dead_links(html)


@pytest.mark.parametrize(
    "planted",
    [
        '<a href="no.html">',
        '<a href="no.html#here">',
        '<a href="book/page.html#nowhere">',
        '<a href="#nowhere">',
        '<img src="_images/no.png">',
        '<link rel="stylesheet" href="no.css?v=1">',
        '<script src="no.js?v=1">',
        '<form action="no.html">',
        '<link rel="stylesheet" href="style.css">',
    ],
)
def test_a_planted_dead_link_is_found(planted, tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "page.html").write_text(
        '<p id="here"></p><a href="../index.html#top">'
    )
    (tmp_path / "style.css").write_text(
        "p { background: url('no.png') }" if "style" in planted else ""
    )
    alive = '<h1 id="top"><a href="book/page.html#here"><a href="#top"><a href="https://elsewhere.example/no">'
    (tmp_path / "index.html").write_text(alive)
    assert not dead_links(tmp_path)
    (tmp_path / "index.html").write_text(alive + planted)
    (dead,) = dead_links(tmp_path)
    assert (
        re.search(r'="([^"]*)"[^=]*$', planted)[1] in dead
        or dead == "style.css: no.png"
    )


def test_the_errata_lead_to_the_common_mistakes_of_every_chapter(html):
    links = Links((html / "book" / "errata.html").read_text("utf-8")).targets
    sections = [link for link in links if link.endswith(("#traps", "#common-mistakes"))]
    chapters = [path.name for path in sorted(html.glob("book/[0-9]*.html"))]
    assert [link.partition("#")[0] for link in sections] == chapters


def test_the_map_leads_to_every_chapter_and_names_it(html):
    text = (html / "book" / "index.html").read_text("utf-8")
    links = re.findall(
        r'<a [^>]*href="((\d\d)_[^"]*)"><span[^>]*><strong>(\d+) (\w[^<]+)</strong> ([^<]+)',
        text,
    )
    assert {int(number) for _, _, number, _, _ in links} == set(range(1, 14))
    assert len({name for *_, name, _ in links}) == 13
    for address, file, number, _, words in links:
        assert int(file) == int(number), address
        assert len(words) > 5
        assert "#" in address


def written(count):
    """A number in words up to ninety-nine, and in figures above."""
    return "-".join(numbers.english_words(count)) if count < 100 else str(count)


def test_the_welcome_page_and_the_readme_count_rightly():
    readme = (ROOT / "README.md").read_text("utf-8")
    text = (ROOT / "book" / "index.md").read_text("utf-8")
    errata = (ROOT / "book" / "errata.md").read_text("utf-8")
    rows = re.findall(r"^\| (?!who \|)", errata, re.MULTILINE)
    exercises = {
        number
        for path in ROOT.glob("book/[0-9]*.md")
        for number in re.findall(r'check\("([\d.]+)"', path.read_text("utf-8"))
    }
    for things, count in (("discrepancies", len(rows)), ("exercises", len(exercises))):
        assert f"**{written(count).capitalize()} {things}" in text, (things, count)
    assert f"lists {written(len(rows))} places" in readme
    assert f"{len(exercises)} of them check the answer" in readme


def test_the_results_repeat_what_the_chapters_find():
    text = (ROOT / "book" / "results.md").read_text("utf-8")
    entries = re.findall(
        r"^- \[Chapter \d+\]\((\d\d\w+)\.ipynb\)(.*?)(?=^- |\Z)", text, re.M | re.DOTALL
    )
    assert len(entries) == 13
    for chapter, entry in entries:
        page = (ROOT / "book" / f"{chapter}.md").read_text("utf-8")
        summary = re.search(
            r"^> \*\*Result\*\* .*$|^## \d+ Summary\n[^#]*", page, re.M
        )[0]
        for figure in re.findall(r"\d+\.\d+|\d+ %", entry):
            assert figure in summary, (chapter, figure)


def loaded(page):
    """The files that a page loads before a reader scrolls, without fonts and MathJax."""
    tags = re.findall(
        r'<(?:img|script|link)\b(?![^>]*data-late="(?!live-(?:translation|memory)"))[^>]*>',
        page.read_text("utf-8"),
    )
    found = [
        re.search(r'(?:src|href)="([^"#?]+\.(?:png|svg|js|css))', tag) for tag in tags
    ]
    paths = {
        Path(os.path.normpath(page.parent / one[1]))
        for one in found
        if one and ":" not in one[1]
    }
    return [path for path in paths if "mathjax" not in path.parts]


def test_no_chapter_is_heavy(html):
    for page in html.glob("book/[0-9]*.html"):
        files = [path for path in loaded(page) if path.suffix in {".css", ".js"}]
        assert len(files) > 10
        sent = [len(gzip.compress(path.read_bytes())) for path in (page, *files)]
        assert sum(sent) < SENT, page.name


def test_no_page_of_the_reference_is_heavy(html):
    for page in html.glob("book/api*.html"):
        assert len(gzip.compress(page.read_bytes())) < 30_000, page.name


def test_icons_are_a_font_and_pictures_are_loaded_when_they_are_near(html):
    for page in (html / "search.html", *html.glob("book/*.html")):
        text = page.read_text("utf-8")
        assert "fontawesome.js" not in text
        assert ("searchindex.js" in text) == (page.name == "search.html")
        for picture in re.findall(r"<img [^>]*src=[^>]*>", text):
            roomy = r'<img width="\d+" height="\d+" loading="lazy" '
            assert re.match(roomy, picture), picture


def test_every_picture_of_the_map_is_used_and_small():
    text = (ROOT / "book" / "index.md").read_text("utf-8")
    paths = list((ROOT / "book" / "_static" / "map").iterdir())
    assert set(re.findall(r"_static/map/(\w+)\.png", text)) == {x.stem for x in paths}
    assert all(path.stat().st_size < 2000 for path in paths)


def test_mathjax_is_complete(html):
    mathjax = html / "_static" / "mathjax"
    assert 'type="text/plain" src="../_static/mathjax/startup.js"' in (
        html / "book" / "notation.html"
    ).read_text("utf-8")
    assert (mathjax / "startup.js").is_file()
    assert (mathjax / "tex-chtml.js").is_file()  # which makes the PDF
    assert (mathjax / "input" / "tex" / "extensions" / "ams.js").is_file()
    assert list(mathjax.glob("output/chtml/fonts/woff-v2/*.woff"))


def test_the_description_of_a_chapter_is_no_line_about_time(html):
    for page in html.glob("book/[0-9]*.html"):
        head = page.read_text("utf-8").split("<article", 1)[0]
        description = re.search(r'name="description" content="([^"]*)"', head)[1]
        assert len(description) > 60
        assert "min to read" not in description


def test_only_the_quotation_below_the_title_is_a_box():
    first, later, below = (nodes.block_quote() for _ in range(3))
    page = new_document("page")
    page += nodes.section("", nodes.title("", "Title"), first, later)
    page[0] += nodes.section("", nodes.title("", "1 Section"), below)
    name_box(None, page)
    found = [quotation["classes"] for quotation in (first, later, below)]
    assert found == [["at-a-glance"], [], []]


def test_a_caption_has_a_number_and_stands_on_the_page_once(html):
    for page in html.glob("book/[0-9]*.html"):
        text = page.read_text("utf-8")
        chapter, captions = int(page.stem[:2]), text.count("<figcaption>")
        numbers = re.findall(r"<strong>Figure (\d+)\.(\d+)\.</strong>", text)
        assert numbers == [(str(chapter), str(n + 1)) for n in range(captions)]


def test_folded_cells_carry_their_title(html):
    for page in html.glob("book/[0-9]*.html"):
        text = page.read_text("utf-8")
        assert '<summary><p class="admonition-title">Setup</p></summary>' in text
        assert "Show code cell" not in text


def test_the_reference_has_every_module_of_the_package():
    folder = Path(companion.__file__).parent
    paths = [
        path.relative_to(folder.parent).with_suffix("") for path in folder.rglob("*.py")
    ]
    modules = {
        ".".join(path.parts).removesuffix(".__init__")
        for path in paths
        if path.stem != "__main__"
    }
    empty = {
        "companion",
        "companion._checks",
        "companion._transforms",
        "companion.attention.kernels",
    }
    pages = [path.read_text("utf-8") for path in ROOT.glob("book/api*.md")]
    described = re.findall(r"automodule:: ([\w.]+)", "".join(pages))
    assert set(described) == modules - empty
    assert len(described) == len(set(described))


def test_no_file_has_an_address_of_its_own():
    known = {f"git+{repository_url()}", repository_url()} - {"git+", ""}
    colab = "colab.research.google.com/github/" + "/".join(
        repository_url().split("/")[-2:]
    )
    for path in tracked_files():
        if path.suffix not in {".gif", ".ico", ".png", ".woff2"}:
            for address in ADDRESS.findall(path.read_text("utf-8")):
                mine = address in known or (
                    repository_url() and address.startswith(colab)
                )
                assert mine, f"{path.relative_to(ROOT)} names {address}"
    assert "[project.urls]" not in (ROOT / "pyproject.toml").read_text("utf-8")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A copy of the book, its chapters alone, that has a public address."""
    copy = tmp_path_factory.mktemp("elsewhere") / "book"
    for path in tracked_files():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    config = copy / "_config.yml"
    text, count = re.subn(
        r'(?m)^  url: ".*"$', f'  url: "{EXAMPLE}"', config.read_text()
    )
    assert count == 1
    config.write_text(text)
    contents = {"format": "jb-book", "root": "book/notation", "chapters": []}
    contents["chapters"] = [
        {"file": f"book/{path.name}"} for path in sorted(copy.glob("book/[0-9]*.ipynb"))
    ]
    (copy / "_toc.yml").write_text(yaml.safe_dump(contents))
    stamp(copy)
    return copy


def test_with_an_address_every_place_names_it(elsewhere):
    git = f"git+{EXAMPLE}"
    chapters = sorted(elsewhere.glob("book/[0-9]*.md"))
    assert chapters
    for chapter in chapters:
        assert chapter.read_text("utf-8").count(git) == 1
        assert chapter.with_suffix(".ipynb").read_text("utf-8").count(git) == 1


def test_with_an_address_a_chapter_has_a_button_that_opens_it_in_colab(elsewhere):
    build = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", build, "build", "."]
    result = subprocess.run(command, capture_output=True, text=True, cwd=elsewhere)
    assert result.returncode == 0, result.stdout + result.stderr
    html = elsewhere / "_build" / "html"
    for page in html.glob("book/[0-9]*.html"):
        links = set(re.findall(r'href="(https://colab[^"]*)"', page.read_text("utf-8")))
        assert links == {f"{IN_COLAB}{page.stem}.ipynb"}
    pages = list(html.glob("book/*.html"))
    assert len({picture_of(page, html) for page in pages}) == len(pages) > 12


def picture_of(page, html):
    """The picture that is shown with a link to a page, which is addressed, there, and as large as it says."""
    text = page.read_text("utf-8")
    said = dict(re.findall(r'property="og:([\w:]+)" content="([^"]*)"', text))
    assert said["url"] == f"{PUBLISHED}/book/{page.name}"
    path = html / said["image"].removeprefix(f"{PUBLISHED}/")
    with Image.open(path) as image:
        size = int(said["image:width"]), int(said["image:height"])
        assert image.size == size
    return path


@pytest.mark.parametrize(
    ("repository", "site"),
    [
        ("", ""),
        (EXAMPLE, PUBLISHED),
        ("https://github.com/Some-One/a.b", "https://some-one.github.io/a.b"),
        ("https://example.org/some-one/a-book", ""),
    ],
)
def test_the_address_of_the_site_follows_from_that_of_a_repository_on_github(
    repository, site
):
    assert site_url(repository) == site


@pytest.mark.skipif(bool(repository_url()), reason="this book has an address")
def test_without_an_address_no_page_has_a_colab_button(html):
    for page in html.glob("book/*.html"):
        assert not re.findall(
            r'href="[^"]*(?:colab\.|executablebooks/jupyter-book)[^"]*"',
            page.read_text("utf-8"),
        )


def test_a_browser_finds_an_icon_at_the_root(html):
    assert (html / "favicon.ico").read_bytes().startswith(b"\x00\x00\x01\x00")
