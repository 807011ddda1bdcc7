"""What one plays with in a chapter: small, late, on every screen, and a picture without scripts."""

import gzip

import pytest
from axe_playwright_python.sync_playwright import Axe
from live_pages import LIVE

from tests.conftest import ROOT

STATIC = ROOT / "book" / "_static"


def switch_a_head_off(part):
    part.page.wait_for_function(
        "() => [...document.querySelectorAll('.heads-need')].every(one => one.textContent.trim())"
    )
    part.get_by_role("switch", name="decoder head 1.2 is on").click()


def move_both(part):
    part.get_by_role("button", name="Both 900 on").click()


def type_nonsense(part):
    part.get_by_label("layers").fill("none")


def take_turns(part):
    part.get_by_role("button", name="in turn").click()


def ask_about_one_of_eight(part):
    part.get_by_role("button", name="Eight people").click()
    part.get_by_role("button", name="Ben", exact=True).click()


def drag_by_keys(part):
    part.get_by_role("slider", name="Query", exact=True).press("ArrowLeft")
    part.get_by_text("All numbers", exact=True).click()


def widen(part):
    part.get_by_label("Beam width B").fill("5")


def take_sentences_out(part):
    part.get_by_role("button", name="Try each sentence").click()
    part.get_by_role("button", name="replaced").click()
    part.locator(".sentences-switch").nth(2).click()
    part.locator(".sentences-word").first.click()


def remove_the_first_context(part):
    part.get_by_role("button", name="A chain of three").click()
    part.get_by_role("button", name="Remove the first context").click()


def let_no_word_attend(part):
    part.get_by_role("button", name="Three sentences").click()
    part.get_by_role("button", name="sentence 3").click()
    for _ in range(3):
        part.get_by_role("button", name="Cross out").first.click()


def reorder(part):
    part.get_by_role("button", name="First order").click()
    part.get_by_role("gridcell").first.click()


# The tag of each: its chapter, what a reader does, and the bytes that it loads, compressed.
PLAYED = {
    "live-heads": ("06_transformer", switch_a_head_off, 220_000),
    "live-sentences": ("09_hierarchical", take_sentences_out, 24_000),
    "live-patterns": ("07_sparse", take_turns, 10_800),
    "live-distances": ("12_modern", move_both, 9_300),
    "live-cache": ("12_modern", type_nonsense, 9_000),
    "live-shuffle": ("08_synthesizer", reorder, 68_000),
    "live-memory": ("13_bounded_memory", ask_about_one_of_eight, 11_100),
    "live-question": ("10_attention_over_attention", let_no_word_attend, 35_000),
    "live-bench": ("03_attention", drag_by_keys, 22_300),
    "live-beam": ("01_seq2seq", widen, 185_000),
    "live-hops": ("11_convs2s", remove_the_first_context, 55_000),
}
ALSO = {"live-bench": {"04_hard", "05_luong"}}  # at other settings
NOT_AT_FIRST = [tag for tag in PLAYED if tag != "live-memory"]  # on the first screen
VISITS = [
    pytest.param(width, scheme, marks=[pytest.mark.slow] * (width == 320))
    for width, scheme in ((1280, "light"), (390, "dark"), (320, "light"))
]
SMALL = """all => all.filter(one => {
    const { width, height } = one.getBoundingClientRect();
    return width && Math.min(width, height) < 24;
}).map(one => one.outerHTML)"""


@pytest.mark.parametrize("tag", PLAYED)
def test_it_is_small_and_only_in_its_chapter(tag, html):
    chapter, _, most = PLAYED[tag]
    files = LIVE[tag].split()
    sizes = [len(gzip.compress((STATIC / file).read_bytes(), 9)) for file in files]
    assert sum(sizes) < most
    found = {
        path.stem
        for path in html.glob("book/*.html")
        if files[-1] in path.read_text("utf-8")
    }
    assert found == {chapter} | ALSO.get(tag, set())


@pytest.mark.parametrize("tag", NOT_AT_FIRST)
def test_nothing_is_loaded_before_it_comes_near(tag, browser, html):
    page, asked = browser.new_page(viewport={"width": 1280, "height": 900}), []
    page.on("request", lambda request: asked.append(request.url))
    last = LIVE[tag].split()[-1]
    page.goto(f"{html.as_uri()}/book/{PLAYED[tag][0]}.html")
    page.wait_for_timeout(500)
    assert not any(last in url for url in asked)
    page.locator(f".tag_{tag}").scroll_into_view_if_needed()
    page.locator(f".tag_{tag} .play").wait_for()
    assert any(last in url for url in asked)
    page.close()


@pytest.mark.parametrize("tag", PLAYED)
@pytest.mark.parametrize(("width", "scheme"), VISITS)
def test_it_can_be_used_on_every_screen(visit_live, tag, width, scheme):
    chapter, use, _ = PLAYED[tag]
    page = visit_live(chapter, tag, width, scheme)
    part = page.locator(f".tag_{tag} .play")
    use(part)
    found = Axe().run(page, context=f".tag_{tag} .play").response["violations"]
    assert [one["id"] for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not part.locator("button, input, select, [role=slider]").evaluate_all(SMALL)


@pytest.mark.parametrize("tag", PLAYED)
def test_without_scripts_the_picture_stays(visit_live, tag):
    page = visit_live(PLAYED[tag][0], tag, java_script_enabled=False)
    assert page.locator(f".tag_{tag} figure :is(svg, img)").first.is_visible()
    assert page.locator(".play").count() == 0
