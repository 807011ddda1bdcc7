"""Command: write the repository's address from _config.yml into the notebooks' setup cells and the README.

Run it with `make stamp` after `repository.url` has changed; `make notebooks` does it too.
"""

import json
import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COLAB = "https://colab.research.google.com"

SETUP = """\
#@title Setup
# In Colab this installs the package of the book; elsewhere it does nothing.
try:
    import google.colab  # noqa: F401
except ImportError:
    pass
else:
    import os

    source = os.environ.get("COMPANION_REPOSITORY", "{source}")
    if not source:
        raise RuntimeError(
            "This notebook does not know the address of its repository. Give it in a"
            " cell above, as pip wants it: %env COMPANION_REPOSITORY=git+https://… Or"
            " set repository.url in _config.yml, once for the whole book, and run"
            " `make stamp`."
        )
    %pip install --quiet "attention-companion[book] @ {{source}}"
"""
CELL = """\
```{{code-cell}} ipython3
---
cellView: form
jupyter: {{source_hidden: true}}
tags: [hide-cell, nbval-ignore-output]
---
{code}```"""
FIRST_CELL = re.compile(r"^```\{code-cell\}.*?^```$", re.MULTILINE | re.DOTALL)
SETUP_PART = re.compile(
    r"^#@title Setup$(?:.*^    %pip .*?$)?\n?(.*)", re.MULTILINE | re.DOTALL
)
README_PART = re.compile(r"(<!-- address -->\n).*?(<!-- /address -->)", re.DOTALL)


def repository_url(config: Path = ROOT / "_config.yml") -> str:
    """The address that _config.yml names, without a slash at its end; empty while it is unset."""
    return (
        yaml.safe_load(config.read_text("utf-8"))["repository"]["url"] or ""
    ).rstrip("/")


def site_url(repository: str) -> str:
    """Where GitHub Pages publishes the book of a repository; empty without one on GitHub."""
    found = re.fullmatch(r"https://github\.com/([\w-]+)/([\w.-]+)", repository)
    return f"https://{found[1].lower()}.github.io/{found[2]}" if found else ""


def setup_source(url: str) -> str:
    """The code with which the setup cell of every notebook begins."""
    return SETUP.format(source=f"git+{url}" if url else "")


def with_setup(code: str, url: str) -> str:
    """A setup cell that installs from ``url``, with the chapter's own imports after it.

    Raises:
        ValueError: the cell is not a setup cell.
    """
    setup = SETUP_PART.search(code)
    if setup is None:
        raise ValueError("a setup cell has the line `#@title Setup`")
    return setup_source(url) + setup[1]


def stamp_source(text: str, url: str, name: str) -> str:
    """The text of a chapter, its setup cell replaced by one that installs from ``url``.

    Raises:
        ValueError: the chapter's first code cell is not its setup cell.
    """
    first = FIRST_CELL.search(text)
    if first is None or "#@title Setup" not in first.group():
        raise ValueError(
            f"{name}: the first code cell must be the setup cell: one line, `#@title Setup`, is enough"
        )
    cell = CELL.format(code=with_setup(first.group().removesuffix("```"), url))
    return text[: first.start()] + cell + text[first.end() :]


def stamp_notebook(text: str, url: str) -> str:
    """An executed notebook with another setup cell; everything else stays as it is, byte for byte."""
    notebook = json.loads(text)
    setup = next(cell for cell in notebook["cells"] if cell["cell_type"] == "code")
    code = with_setup("".join(setup["source"]), url)
    setup["source"] = code.rstrip("\n").splitlines(keepends=True)
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def stamp_readme(text: str, url: str, chapters: list[Path]) -> str:
    """The README with a new part between its two marks."""
    if url:
        *_, owner, name = url.split("/")
        links = [
            f"- [{path.stem}]({COLAB}/github/{owner}/{name}/blob/main/{path.as_posix()})"
            for path in chapters
        ]
        clone = f"`git clone {url}`, or open a chapter in Colab:"
        part = ["## In Colab", "", clone, "", *links]
    else:
        part = []
    return README_PART.sub(
        lambda marks: marks[1] + "\n".join(part) + "\n" + marks[2], text
    )


def stamp(root: Path = ROOT) -> None:
    """Write the address of _config.yml everywhere it belongs."""
    url = repository_url(root / "_config.yml")
    chapters = sorted(root.glob("book/[0-9]*.md"))
    for chapter in chapters:
        rewrite(chapter, stamp_source(chapter.read_text("utf-8"), url, chapter.name))
    notebooks = sorted(root.glob("book/[0-9]*.ipynb"))
    for notebook in notebooks:
        rewrite(notebook, stamp_notebook(notebook.read_text("utf-8"), url))
    readme = root / "README.md"
    paths = [notebook.relative_to(root) for notebook in notebooks]
    rewrite(readme, stamp_readme(readme.read_text("utf-8"), url, paths))


def rewrite(path: Path, text: str) -> None:
    """Write ``text`` only if it is new, so that `make` sees a change only where there is one."""
    if path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
        print(f"stamped {path.name}")


if __name__ == "__main__":
    stamp()
