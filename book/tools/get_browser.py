"""Command: find or install a Chromium for the tests, and print one line.

It never fails: without a browser, the tests say so themselves.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import sync_playwright

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
        "no Chromium was found: `python book/tools/get_browser.py` tries to get one;"
        " on Debian, apt-get install chromium"
    )


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
