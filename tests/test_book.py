"""The built book: whole, offline, and with an address only where _config.yml gives one."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from stamp import COLAB, README_PART, repository_url, stamp, stamp_readme

import companion
from tests.conftest import ROOT

pytestmark = pytest.mark.book

EXAMPLE = "https://github.com/some-one/a-book"
IN_COLAB = f"{COLAB}/github/some-one/a-book/blob/main/book/"
ADDRESS = re.compile(r"(?:git\+(?:https?|ssh|git)://|colab\.research\.google\.com/github/)[\w.~%/-]+")
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?"
    r"\b(?:src|href|data)=[\"']?((?:https?:)?//[^\"'> ]+)"
    r"|(?:@import|url\()\s*(?:url\()?[\"']?((?:https?:)?//[^\"') ]+)",
    re.IGNORECASE,
)


def contents():
    """Every file that the table of contents names, without its ending."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    files = [toc["root"], *(chapter["file"] for part in toc["parts"] for chapter in part["chapters"])]
    return [file.removesuffix(".ipynb") for file in files]


def tracked_files():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


def test_every_page_of_the_contents_is_built_and_no_other(html):
    built = {path.relative_to(html).with_suffix("").as_posix() for path in html.rglob("*.html")}
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
            found = [one or other for one, other in LOADED.findall(path.read_text("utf-8"))]
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


def test_links_between_pages_lead_somewhere(html):
    for page in html.rglob("book/*.html"):
        for target in re.findall(r'<a\b[^>]*?href="([^"#:]+)(?:#[^"]*)?"', page.read_text("utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_mathjax_is_complete(html):
    mathjax = html / "_static" / "mathjax"
    assert (mathjax / "tex-chtml.js").is_file()
    assert (mathjax / "input" / "tex" / "extensions" / "ams.js").is_file()
    assert list(mathjax.glob("output/chtml/fonts/woff-v2/*.woff"))


def test_folded_cells_carry_their_title(html):
    for page in html.glob("book/[0-9]*.html"):
        text = page.read_text("utf-8")
        assert '<summary><p class="admonition-title">Setup</p></summary>' in text
        assert "Show code cell" not in text


def test_the_reference_has_every_module_of_the_package():
    folder = Path(companion.__file__).parent
    paths = [path.relative_to(folder.parent).with_suffix("") for path in folder.rglob("*.py")]
    modules = {".".join(path.parts).removesuffix(".__init__") for path in paths if path.stem != "__main__"}
    empty = {"companion", "companion.data", "companion.experiments"}
    described = re.findall(r"automodule:: ([\w.]+)", (ROOT / "book" / "api.md").read_text("utf-8"))
    assert set(described) == modules - empty
    assert len(described) == len(set(described))


def test_no_file_has_an_address_of_its_own():
    known = {f"git+{repository_url()}", repository_url()} - {"git+", ""}
    colab = "colab.research.google.com/github/" + "/".join(repository_url().split("/")[-2:])
    for path in tracked_files():
        if path.suffix not in {".png", ".ico", ".woff"}:
            for address in ADDRESS.findall(path.read_text("utf-8")):
                mine = address in known or (repository_url() and address.startswith(colab))
                assert mine, f"{path.relative_to(ROOT)} names {address}"
    assert "[project.urls]" not in (ROOT / "pyproject.toml").read_text("utf-8")


def test_the_readme_is_stamped():
    readme = (ROOT / "README.md").read_text("utf-8")
    notebooks = sorted(path.relative_to(ROOT) for path in ROOT.glob("book/[0-9]*.ipynb"))
    assert README_PART.search(readme)
    assert readme == stamp_readme(readme, repository_url(), notebooks), "run `make stamp`"


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory):
    """A copy of the book, its chapters alone, that has a public address."""
    copy = tmp_path_factory.mktemp("elsewhere") / "book"
    for path in tracked_files():
        target = copy / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    config = copy / "_config.yml"
    text, count = re.subn(r'(?m)^  url: ".*"$', f'  url: "{EXAMPLE}"', config.read_text())
    assert count == 1
    config.write_text(text)
    contents = {"format": "jb-book", "root": "book/notation", "chapters": []}
    contents["chapters"] = [{"file": f"book/{path.name}"} for path in sorted(copy.glob("book/[0-9]*.ipynb"))]
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
        assert f"{IN_COLAB}{chapter.stem}.ipynb" in (elsewhere / "README.md").read_text("utf-8")


def test_with_an_address_a_chapter_has_a_button_that_opens_it_in_colab(elsewhere):
    build = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", build, "build", "."]
    result = subprocess.run(command, capture_output=True, text=True, cwd=elsewhere)
    assert result.returncode == 0, result.stdout + result.stderr
    for page in elsewhere.glob("_build/html/book/[0-9]*.html"):
        links = set(re.findall(r'href="(https://colab[^"]*)"', page.read_text("utf-8")))
        assert links == {f"{IN_COLAB}{page.stem}.ipynb"}


@pytest.mark.skipif(bool(repository_url()), reason="this book has an address")
def test_without_an_address_no_page_has_a_colab_button(html):
    for page in html.glob("book/*.html"):
        assert not re.findall(
            r'href="[^"]*(?:colab\.|executablebooks/jupyter-book)[^"]*"', page.read_text("utf-8")
        )


def test_a_browser_finds_an_icon_at_the_root(html):
    assert (html / "favicon.ico").read_bytes().startswith(b"\x00\x00\x01\x00")
