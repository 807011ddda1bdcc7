"""The moving picture of the live translation for the README.

    python book/tools/live_picture.py

plays the page in Chromium and writes ``book/_static/live/live.gif``. Run it after ``make live``.
"""

import io
from collections.abc import Iterator
from html import escape
from pathlib import Path

from get_browser import chromium
from live_pages import LIVE
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

STATIC = Path(__file__).resolve().parents[1] / "_static"
PICTURE = STATIC / "live" / "live.gif"
WIDTH, HEIGHT, BELOW = 640, 715, 500  # of the picture, and of the page below it
COLOURS = 64
PAGE = """\
<!DOCTYPE html>
<html lang="en" data-theme="light">
<head><meta charset="utf-8"><title>Live translation</title>{styles}
<style>
  body {{ background: #fff; font-family: "DejaVu Sans", sans-serif; margin: 0 }}
  figure {{ margin: 0 }}
  .live {{ border: 0; margin: 0; padding: 0.75rem }}
</style>
</head>
<body><figure class="live-translation"><img src="{still}" alt=""></figure>{scripts}</body>
</html>
"""
SHORT, LONG = "97", "299,792,458"
BRIEFLY, A_WORD, A_WHILE, AT_REST = 90, 350, 1500, 4000  # milliseconds


def page() -> str:
    """A page that has the live translation and nothing else."""
    files = [(STATIC / file).as_uri() for file in LIVE["live-translation"]]
    styles = [(STATIC / "book.css").as_uri(), *(f for f in files if f.endswith(".css"))]
    return PAGE.format(
        styles="".join(f'<link rel="stylesheet" href="{escape(f)}">' for f in styles),
        still=escape((STATIC / "live" / "still.svg").as_uri()),
        scripts="".join(
            f'<script src="{escape(f)}"></script>' for f in files if f.endswith(".js")
        ),
    )


def frames(tab: Page) -> Iterator[tuple[Image.Image, int]]:
    """What is seen, each with the milliseconds that it stays: a number is typed and translated."""

    def seen(duration: int) -> tuple[Image.Image, int]:
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT}
        taken = tab.screenshot(animations="disabled", clip=clip)
        return Image.open(io.BytesIO(taken)).convert("RGB"), duration

    typed = tab.locator(".live-form input")
    typed.fill(SHORT)
    yield seen(A_WHILE)
    for end in range(len(LONG) + 1):
        typed.evaluate("(input, text) => { input.value = text }", LONG[:end])
        yield seen(BRIEFLY)
    typed.press("Enter")
    tab.get_by_role("button", name="Reset", exact=True).click()
    step = tab.get_by_role("button", name="Step", exact=True)
    while tab.locator(".live-result").is_hidden():
        step.click()
        yield seen(A_WORD)
    typed.fill(LONG)
    tab.mouse.move(0, 0)
    yield seen(AT_REST)


def write(path: Path, browser: Browser) -> None:
    """Play the page and write what is seen as an animation that repeats."""
    size = {"width": WIDTH, "height": HEIGHT + BELOW}
    tab = browser.new_page(viewport=size, reduced_motion="reduce")
    place = path.with_suffix(".html")
    place.write_text(page(), "utf-8")
    try:
        tab.goto(place.as_uri())
        tab.locator(".live-heads", has_text="seen in training").wait_for()
        images, durations = zip(*frames(tab), strict=True)
    finally:
        tab.close()
        place.unlink()
    colours = images[-2].quantize(COLOURS)  # a frame in which all colours occur
    few = [
        image.quantize(palette=colours, dither=Image.Dither.NONE) for image in images
    ]
    few[0].save(
        path,
        save_all=True,
        append_images=few[1:],
        duration=durations,
        loop=0,
        optimize=True,
    )


if __name__ == "__main__":
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"]
        )
        write(PICTURE, found)
