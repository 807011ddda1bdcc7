"""Command: record the live translation as the animation of the README.

    python book/tools/live_picture.py

The scripts of the page run in Chromium; the result is ``book/_static/live/live.gif``. Run it after
``live_model.py``.
"""

import io
from collections.abc import Iterator
from html import escape
from pathlib import Path

from browser import launched
from live_pages import LIVE
from PIL import Image
from playwright.sync_api import Browser, Page

STATIC = Path(__file__).resolve().parents[1] / "_static"
PICTURE = STATIC / "live" / "live.gif"
WIDTH, HEIGHT, BELOW = 640, 825, 500  # of the picture, and of the page below it
COLOURS = 64
PAGE = """\
<!DOCTYPE html>
<html lang="en" data-theme="light">
<head><meta charset="utf-8"><title>Live translation</title>{styles}
<style>
  body {{ background: #fff; font-family: "DejaVu Sans", sans-serif; margin: 0 }}
  figure {{ margin: 0 }}
  .live {{ border: 0; margin: 0; padding: 0.75rem }}
  .live-meaning {{ min-height: 2.7em }}
  .live-keys {{ visibility: hidden }}
</style>
</head>
<body><figure class="live-translation"><img src="{still}" alt=""></figure>{scripts}</body>
</html>
"""
LONG, SHORT = "299,792,458", "97"
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
    """The frames, each with its duration in milliseconds: a long number, then a short one."""

    def seen(duration: int) -> tuple[Image.Image, int]:
        taken = tab.screenshot(
            animations="disabled",
            clip={"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT},
        )
        return Image.open(io.BytesIO(taken)).convert("RGB"), duration

    typed = tab.locator(".live-form input")

    def type_in(number: str, duration: int) -> tuple[Image.Image, int]:
        typed.fill(number)
        tab.mouse.move(0, 0)
        return seen(duration)

    def word_by_word() -> Iterator[tuple[Image.Image, int]]:
        tab.get_by_role("button", name="Reset", exact=True).click()
        while tab.locator(".live-result").is_hidden():
            tab.get_by_role("button", name="Step", exact=True).click()
            yield seen(A_WORD)

    yield type_in(LONG, A_WHILE)
    yield from word_by_word()
    yield type_in(LONG, AT_REST)
    for end in range(len(SHORT) + 1):
        typed.evaluate("(input, text) => { input.value = text }", SHORT[:end])
        yield seen(BRIEFLY)
    typed.fill(SHORT)
    yield from word_by_word()
    yield type_in(SHORT, AT_REST)


def write(path: Path, browser: Browser) -> None:
    """Record the frames and write them as an animation that repeats."""
    tab = browser.new_page(
        viewport={"width": WIDTH, "height": HEIGHT + BELOW}, reduced_motion="reduce"
    )
    document = path.with_suffix(".html")
    document.write_text(page(), "utf-8")
    try:
        tab.goto(document.as_uri())
        tab.locator(".live-heads", has_text="seen in training").wait_for()
        images, durations = zip(*frames(tab), strict=True)
    finally:
        tab.close()
        document.unlink()
    first_rest = durations.index(AT_REST)
    last_word = images[first_rest - 1]  # of the long number, where all colours occur
    colours = last_word.quantize(COLOURS)
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
    with launched() as chromium:
        write(PICTURE, chromium)
