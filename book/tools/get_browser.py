"""Command: find or install a Chromium for the tests, and a font with Chinese characters for the PDF.

`make test` runs it. It prints one line for each and never fails: without a browser, the tests say
so themselves.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import sync_playwright

CHINESE = "fonts-noto-cjk"
NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
)
MISSING = {
    "Chromium": "The browser tests will be skipped; on Debian, apt-get install chromium.",
    "Chinese font": f"The PDF will show boxes in the glossary; on Debian, apt-get install {CHINESE}.",
}


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
        "no Chromium was found: run book/tools/get_browser.py; on Debian, apt-get install chromium"
    )


def find_chromium() -> str | None:
    """The path of a Chromium, or None."""
    try:
        return chromium()
    except FileNotFoundError:
        return None


def find_font() -> str | None:
    """The file of a font that has Chinese characters, or None; systems other than Linux have one."""
    if sys.platform != "linux":
        return "the system's"
    if not shutil.which("fc-list"):
        return next(map(str, Path("/usr/share/fonts").rglob("*CJK*.tt?")), None)
    command = ["fc-list", ":lang=zh", "file"]
    fonts = subprocess.run(command, capture_output=True, text=True).stdout
    return fonts.split(":")[0] or None


def from_debian(package: str) -> dict[str, list[str]]:
    """The command that installs a Debian package, if this process may install it."""
    if not shutil.which("apt-get") or os.geteuid():
        return {}
    install = f"apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes {package}"
    return {f"Debian's package {package}": ["sh", "-c", install]}


def get(name: str, find: Callable[[], str | None], ways: dict[str, list[str]]) -> None:
    """Print where something is; if it is missing, try the commands one after another to install it."""
    found, how = find(), "found"
    for source, command in ways.items():
        if found:
            break
        done = subprocess.run(command, capture_output=True, text=True)
        found, how = find(), f"installed from {source}"
        if not found:
            print(f"{name}: could not be had from {source}: {reason(done)}")
    print(
        f"{name}: {how}, {found}"
        if found
        else f"{name}: there is none. {MISSING[name]}"
    )


def reason(done: subprocess.CompletedProcess[str]) -> str:
    """The first line of a failed command's output that mentions an error, or else its last line."""
    lines = (done.stderr or done.stdout).strip().splitlines() or ["it said nothing"]
    return next((line for line in lines if "rror" in line), lines[-1]).strip()


def main() -> None:
    """Find both, and install what is missing."""
    playwright = [sys.executable, "-m", "playwright", "install", "chromium"]
    get("Chromium", find_chromium, {"Playwright": playwright} | from_debian("chromium"))
    get("Chinese font", find_font, from_debian(CHINESE))


if __name__ == "__main__":
    main()
