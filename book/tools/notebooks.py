"""Command: make each chapter's notebook from its text, book/NN_name.md → book/NN_name.ipynb, and execute it.

Two runs give the same bytes: cells have their numbers as ids, no time is recorded, and one thread computes.
Only a cell with the tag measures-time prints something else each time. If a cell of a chapter fails, the
notebook of that chapter is not written.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from time import perf_counter

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from stamp import ROOT, stamp

ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def chapters(names: Iterable[str] = (), root: Path = ROOT) -> list[Path]:
    """The texts of the chapters, in order: all, or those named, such as ``02_bahdanau``.

    Raises:
        FileNotFoundError: there is no chapter of that name.
    """
    paths = sorted((root / "book").glob("[0-9]*.md"))
    unknown = set(names) - {path.stem for path in paths}
    if unknown:
        raise FileNotFoundError(
            f"no chapter {', '.join(sorted(unknown))} in {root / 'book'}"
        )
    return [path for path in paths if not names or path.stem in names]


def read(path: Path) -> NotebookNode:
    """A chapter's text as a notebook that has not been executed."""
    notebook = jupytext.read(path, fmt="md:myst")
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    for number, cell in enumerate(notebook.cells, start=1):
        cell.id = f"cell-{number}"
    chapter = int(path.stem.partition("_")[0])
    notebook.cells = list(captioned(notebook.cells, chapter))
    return notebook


def captioned(cells: Iterable[NotebookNode], chapter: int) -> Iterator[NotebookNode]:
    """The cells of a chapter, with numbered captions, each repeated in a cell of text.

    Colab, GitHub and Jupyter do not show captions from the metadata of cells. The book
    shows them, and leaves out the cells of text.
    """
    number = 0
    for cell in cells:
        yield cell
        figure = cell.metadata.get("mystnb", {}).get("figure", {})
        if "caption" in figure:
            number += 1
            figure.caption = f"**Figure {chapter}.{number}.** {figure.caption}"
            text = nbformat.v4.new_markdown_cell(
                figure.caption, id=f"{cell.id}-caption"
            )
            text.metadata.tags = ["remove-cell"]
            yield text


def execute(notebook: NotebookNode, folder: Path) -> NotebookNode:
    """Run all cells in a new kernel whose working folder is ``folder``, and keep the outputs for the book.

    Raises:
        CellExecutionError: a cell failed.
    """
    client = NotebookClient(
        notebook,
        timeout=None,
        record_timing=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env=os.environ | ENVIRONMENT)
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = merge(cell.outputs)
    return notebook


def merge(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Join printed text that arrived in pieces, because the pieces differ from run to run."""
    merged: list[NotebookNode] = []
    for output in outputs:
        if merged and output.output_type == merged[-1].output_type == "stream":
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def make(chapter: Path, output: Path) -> bool:
    """Write the executed notebook of one chapter into the folder ``output``, whole or not at all."""
    started = perf_counter()
    try:
        notebook = execute(read(chapter), chapter.parent)
    except (CellExecutionError, ValueError) as failure:
        said = f"{chapter.name}: nothing written, a cell failed:\n{failure}"
        print(said, file=sys.stderr)
        return False
    nbformat.validate(notebook)
    save(notebook, output / f"{chapter.stem}.ipynb")
    print(f"made {chapter.stem}.ipynb in {perf_counter() - started:.0f} s", flush=True)
    return True


def carry(chapter: Path) -> None:
    """Write the text of a chapter into its notebook; cells whose code is as before keep their outputs."""
    path = chapter.with_suffix(".ipynb")
    old, new = nbformat.read(path, as_version=4), read(chapter)
    executed = {cell.source: cell for cell in old.cells if cell.cell_type == "code"}
    for cell in new.cells:
        if cell.cell_type == "code" and cell.source in executed:
            cell.outputs = executed[cell.source].outputs
            cell.execution_count = executed[cell.source].execution_count
    if new != old:
        save(new, path)


def save(notebook: NotebookNode, path: Path) -> None:
    """Write a notebook, whole or not at all."""
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(nbformat.writes(notebook) + "\n", "utf-8")
    os.replace(unfinished, path)


def main(arguments: list[str] | None = None) -> int:
    """Make the chapters named on the command line, or all of them; 1 if any fails."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="such as 02_bahdanau; or else all")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "book", help="folder for the notebooks"
    )
    options = parser.parse_args(arguments)
    if options.output == ROOT / "book":
        stamp()
    options.output.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=2) as pool:
        made = pool.map(make, chapters(options.names), repeat(options.output))
    return 0 if all(made) else 1


if __name__ == "__main__":
    sys.exit(main())
