"""Command: make the downloads from the built book and its notebooks, and the site that links to them.

The site is a copy of the built pages in ``_build/site``.
"""

import argparse
import shutil
import sys
import zipfile
from pathlib import Path
from subprocess import DEVNULL, run
from tempfile import TemporaryDirectory

from epub import write_epub
from pdf import write_pdf
from stamp import ROOT

NAME = "attention"
NOTEBOOKS = f"{NAME}-notebooks"
USES = {
    f"{NAME}.pdf": ("PDF", "to print, or to read without a browser"),
    f"{NAME}.epub": ("ePub", "for a reader of electronic books"),
    f"{NAME}.zip": ("the pages themselves", "to unpack, and open without a network"),
    f"{NOTEBOOKS}.zip": ("the notebooks with their package", "to run in any Jupyter"),
}
PLACE = '<div class="downloads docutils container">'


def write_zip(html: Path, path: Path) -> None:
    """Write all built pages into one zip file, in which they have a folder of their own."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(html.rglob("*")):
            if file.name != "ready" and not file.name.startswith("."):
                archive.write(file, Path(NAME, file.relative_to(html)))


def write_notebooks(path: Path) -> None:
    """Write all notebooks into one zip file, with the wheel that their first cell installs."""
    with TemporaryDirectory() as folder:
        build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
        run([sys.executable, *build], check=True, cwd=ROOT, stdout=DEVNULL)
        files = [*sorted(ROOT.glob("book/*.ipynb")), *Path(folder).glob("*.whl")]
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in files:
                archive.write(file, Path(NOTEBOOKS, file.name))
    print(f"made {path}", flush=True)


def write_site(html: Path, folder: Path, site: Path) -> None:
    """Copy the built pages and the downloads, to which the first page then links."""
    shutil.rmtree(site, ignore_errors=True)
    shutil.copytree(html, site, ignore=shutil.ignore_patterns("ready", ".*"))
    shutil.copytree(folder, site / "downloads")
    welcome = site / "book" / "index.html"
    before, rest = welcome.read_text("utf-8").split(PLACE)
    _, after = rest.split("</div>", 1)
    items = "".join(f"<li>{link(folder / name)}</li>" for name in USES)
    said = f"<p><strong>To keep.</strong> The whole book:</p><ul>{items}</ul></div>"
    welcome.write_text(before + PLACE + said + after, "utf-8")


def link(path: Path) -> str:
    """A link to a download, with what it is for and its size."""
    name, use = USES[path.name]
    size = f"{path.stat().st_size / 1e6:.1f} MB"
    return f'<a class="reference download" href="../downloads/{path.name}">{name}</a>, {use} ({size})'


def main() -> None:
    """Make all downloads and the site."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "_build")
    build = parser.parse_args().build
    html, folder = build / "html", build / "downloads"
    if not (html / "index.html").is_file():
        parser.error(f"there is no built book in {html}: run `make book` first")
    folder.mkdir(exist_ok=True)
    for kind, write in (("pdf", write_pdf), ("epub", write_epub), ("zip", write_zip)):
        write(html, folder / f"{NAME}.{kind}")
        print(f"made {folder / NAME}.{kind}", flush=True)
    write_notebooks(folder / f"{NOTEBOOKS}.zip")
    write_site(html, folder, build / "site")


if __name__ == "__main__":
    main()
