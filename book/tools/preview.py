"""Command: show the book at http://localhost:8000, and build what changes. Run it with `make preview`.

A changed text is carried into its notebook first: a cell whose code is as before keeps its output.
"""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter, sleep

from notebooks import carry, chapters
from stamp import ROOT

PORT = 8000
FOLDER = ROOT / "_build" / "preview"
WATCHED = ("_*.yml", "book/*.md", "book/_*/**/*", "companion/**/*.py")


def times() -> dict[Path, int]:
    """When each file was changed from which the book is built."""
    paths = (path for pattern in WATCHED for path in ROOT.glob(pattern))
    return {path: path.stat().st_mtime_ns for path in paths}


def build() -> None:
    """Carry the texts into their notebooks, and build the pages that change."""
    started = perf_counter()
    for chapter in chapters():
        carry(chapter)
    command = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()"]
    command += ["build", str(ROOT), "--path-output", str(FOLDER), "-q"]
    subprocess.run(command, cwd=ROOT)
    print(f"built in {perf_counter() - started:.0f} s", flush=True)


def main() -> None:
    """Build, serve, and build again after each change, until Ctrl+C."""
    build()
    server = [sys.executable, "-m", "http.server", str(PORT), "--bind", "127.0.0.1"]
    subprocess.Popen([*server, "--directory", str(FOLDER / "_build" / "html")])
    print(f"http://localhost:{PORT}", flush=True)
    before = times()
    while True:
        sleep(1)
        if (now := times()) != before:
            before = now
            build()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
