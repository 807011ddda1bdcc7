"""Chromium for the other tools.

Also a command, which finds or installs one for the tests. It prints one line, and never fails: they say so.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)
PLAYWRIGHT = [sys.executable, "-m", "playwright", "install", "chromium"]
DEBIAN = ["apt-get", "-qq", "install", "--yes", "chromium"]


def chromium() -> str:
    """The path of a Chromium: the system's, or else the one that Playwright has downloaded.

    Raises:
        FileNotFoundError: there is none.
    """
    for name in NAMES:
        if path := shutil.which(name):
            return path
    with sync_playwright() as playwright:
        if Path(path := playwright.chromium.executable_path).is_file():
            return path
    raise FileNotFoundError(
        "no Chromium was found: `python book/tools/browser.py` tries to get one;"
        " on Debian, apt-get install chromium"
    )


@contextmanager
def launched() -> Iterator[Browser]:
    """A Chromium without a window, closed at the end."""
    executable = chromium()  # before, as it may start Playwright, which does not nest
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=executable, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


def get(find: Callable[[], str], *commands: list[str]) -> None:
    """Print where something is; if it is missing, try the commands one after another to install it."""
    for command in (*commands, None):
        try:
            print(f"found {find()}")
            return
        except FileNotFoundError as error:
            missing = error
        if command and shutil.which(command[0]):
            subprocess.run(command)
    print(missing)


if __name__ == "__main__":
    debian = [] if os.name == "nt" or os.geteuid() else [DEBIAN]
    get(chromium, PLAYWRIGHT, *debian)
