"""Command: make the downloads from the built book, a PDF, an ePub and a zip, and the site that links to them.

    python book/tools/downloads.py pdf epub zip site

The site is a copy of the built pages in ``_build/site``, with those downloads that have been made.
"""

import argparse
import re
import shutil
from pathlib import Path

from archive import write_archive
from epub import write_epub
from pdf import write_pdf
from stamp import ROOT

NAME = "attention"
KINDS = {
    "pdf": ("PDF", "to print, or to read without a browser"),
    "epub": ("ePub", "for a reader of electronic books"),
    "zip": (
        "the pages themselves",
        "to unpack anywhere, and to open without a network",
    ),
}
LIST = re.compile(r'(<div class="downloads docutils container">).*?(</div>)', re.DOTALL)
WELCOME = Path("book", "index.html")
READY = "ready"  # the file by which `make` knows that the pages are complete


def write_zip(html: Path, path: Path) -> None:
    """Write all files of the built pages into one zip file, in which they have a folder of their own."""
    write_archive(
        path, ((f"{NAME}/{name}", (html / name).read_bytes()) for name in files(html))
    )


def files(html: Path) -> list[str]:
    """The files of the built pages, in order, without what only the building needs."""
    names = sorted(
        path.relative_to(html).as_posix() for path in html.rglob("*") if path.is_file()
    )
    return [name for name in names if name != READY and not name.startswith(".")]


def write_site(html: Path, folder: Path, site: Path) -> None:
    """Copy the built pages, and let the first one link to the downloads that are in ``folder``."""
    shutil.rmtree(site, ignore_errors=True)
    for name in files(html):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(html / name, site / name)
    made = [
        path for path in (folder / f"{NAME}.{kind}" for kind in KINDS) if path.is_file()
    ]
    if made:
        target = site / "downloads"
        target.mkdir()
        for path in made:
            shutil.copyfile(path, target / path.name)
        welcome = site / WELCOME
        welcome.write_text(linked(welcome.read_text("utf-8"), made), "utf-8")


def linked(page: str, made: list[Path]) -> str:
    """The text of the welcome page, with links instead of how the downloads are made.

    Raises:
        ValueError: the page has no element for them, or several.
    """
    items = "".join(f"<li>{link(path)}</li>" for path in made)
    text, count = LIST.subn(
        rf"\1<p><strong>To keep.</strong> The whole book:</p><ul>{items}</ul>\2", page
    )
    if count != 1:
        raise ValueError(f"the welcome page has {count} lists of downloads, not 1")
    return text


def link(path: Path) -> str:
    """A link to a download, with what it is for and its size."""
    name, use = KINDS[path.suffix.removeprefix(".")]
    size = f"{path.stat().st_size / 1e6:.1f} MB"
    return f'<a class="reference download" href="../downloads/{path.name}">{name}</a>, {use} ({size})'


def main(arguments: list[str] | None = None) -> None:
    """Make what the command line names, the site last."""
    writers = {"pdf": write_pdf, "epub": write_epub, "zip": write_zip}
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="+", choices=[*writers, "site"])
    parser.add_argument(
        "--build",
        type=Path,
        default=ROOT / "_build",
        help="the folder with the built html",
    )
    options = parser.parse_args(arguments)
    html, folder = options.build / "html", options.build / "downloads"
    if not (html / "index.html").is_file():
        parser.error(f"there is no built book in {html}: run `make book` first")
    folder.mkdir(exist_ok=True)
    for kind in (kind for kind in writers if kind in options.kinds):
        path = folder / f"{NAME}.{kind}"
        unfinished = path.with_name(f"{path.name}.unfinished")
        writers[kind](html, unfinished)
        unfinished.replace(path)
        print(f"made {path} ({path.stat().st_size / 1e6:.1f} MB)", flush=True)
    if "site" in options.kinds:
        write_site(html, folder, options.build / "site")
        print(f"made {options.build / 'site'}")


if __name__ == "__main__":
    main()
