"""Command: write the repository's address from _config.yml into the setup cells of texts and notebooks.

Run it with `make stamp` after `repository.url` has changed; `make notebooks` does it too.
"""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COLAB = "https://colab.research.google.com"
# In a notebook, whose code is JSON, there is a backslash before each quotation mark.
SOURCE = re.compile(r'(COMPANION_REPOSITORY\\?", \\?")[^"\\]*')


def repository_url(config: Path = ROOT / "_config.yml") -> str:
    """The address that _config.yml names, without a slash at its end; empty while it is unset."""
    settings = yaml.safe_load(config.read_text("utf-8"))
    return (settings["repository"]["url"] or "").rstrip("/")


def site_url(repository: str) -> str:
    """Where GitHub Pages publishes the book of a repository; empty without one on GitHub."""
    found = re.fullmatch(r"https://github\.com/([\w-]+)/([\w.-]+)", repository)
    return f"https://{found[1].lower()}.github.io/{found[2]}" if found else ""


def stamp(root: Path = ROOT) -> None:
    """Write the address of _config.yml into every chapter.

    Raises:
        ValueError: a chapter has no place for it, or several.
    """
    url = repository_url(root / "_config.yml")
    for path in sorted(root.glob("book/[0-9]*.*")):
        old = path.read_text("utf-8")
        new, count = SOURCE.subn(rf"\g<1>{f'git+{url}' if url else ''}", old)
        if count != 1:
            raise ValueError(f"{path.name} has {count} setup cells, not 1")
        if new != old:  # `make` sees a change only where there is one
            path.write_text(new, "utf-8")


if __name__ == "__main__":
    stamp()
