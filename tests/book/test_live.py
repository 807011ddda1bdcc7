"""The live translation: the page computes what PyTorch computes, for every reader, whatever is typed."""

import gzip
import itertools
import json
import random

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from live_pages import LIVE
from pages import read_page
from PIL import Image

from attention_course.data import numbers
from attention_course.diagrams.translation import _right_words, speed_of_light
from attention_course.live import translation
from attention_course.live import weights as live_weights
from attention_course.tasks.number_translation import french_numbers
from tests.book.conftest import (
    LIVE_IS_SHOWN,
    PIXEL,
    TRAINING_IS_KNOWN,
    boxes,
    stop_clock,
)
from tests.conftest import ROOT

STATIC = ROOT / "book" / "_static"
BUDGET = 200_000  # bytes that the live page loads in addition to others, compressed
SOME = 300
VERDICT = ".live-verdict:is(.play-right, .play-wrong)"
PLAY = "button:text-is('Play')"
RANGES = [(1, 4), (5, 8), (9, 12), (13, 16), (17, 20), (21, 27)]
ON_PAGES = {"index.html", "02_bahdanau.html"}
# In two views, and by the slow tests in all.
VISITS = [
    pytest.param(
        name, width, scheme, marks=[pytest.mark.slow] * (shown != f"{scheme} {width}")
    )
    for name, shown in (("index.html", "light 1280"), ("02_bahdanau.html", "dark 390"))
    for width in (1280, 390)
    for scheme in ("light", "dark")
]
NARROWEST = 320

TRANSLATE = """chosen => {
    const models = ['withAttention', 'withoutAttention'].map(
        name => TranslationModel.load(LIVE_MODEL.models[name], name === 'withAttention'));
    return chosen.map(number => models.map(model => model.translate(NumberWords.english(number))));
}"""
ACCEPTED = {
    "1": 1,
    "97": 97,
    "1,984": 1984,
    "1 984": 1984,
    "1\u00a0984": 1984,
    "1\u202f984": 1984,
    "1'984": 1984,
    "  12  ": 12,
    "0007": 7,
    "１，９８４": 1984,
    "999,999,999,999": 999_999_999_999,
    "twenty": 20,
    "Ninety-seven": 97,
    "a hundred and five": 105,
    "one hundred five": 105,
    "two million, three thousand and one": 2_003_001,
}
REFUSED = {
    "": "from 1 to 999,999,999,999",
    "   ": "from 1 to 999,999,999,999",
    "0": "too small",
    "000": "too small",
    "1000000000000": "too large",
    "9" * 100_000: "too large",
    "abc" * 50_000: "not a whole number",
    "ninety ninety": "not a whole number",
    "hundred": "not a whole number",
    "five twenty": "not a whole number",
    "one thousand thousand": "not a whole number",
    "zero": "not a whole number",
    "- and": "not a whole number",
    "-1": "too small",
    "−1,984": "too small",
    "--1": "not a whole number",
    "-1.5": "not a whole number",
    "1e9": "not a whole number",
    "1.5": "not a whole number",
    "1.984": "not a whole number",
    "19,84": "not a whole number",
    ",123": "not a whole number",
    "0x10": "not a whole number",
    "10²": "not a whole number",
    "١٢": "not a whole number",
    "<img src=x onerror=document.title='hurt'>": "not a whole number",
    "</script><script>document.title='hurt'</script>": "not a whole number",
}


@pytest.fixture(scope="module")
def content():
    """What the script with the weights declares."""
    return live_weights.read((STATIC / "live" / "weights.js").read_text("utf-8"))


@pytest.fixture(scope="module")
def models(content):
    return translation.models_of(content)


@pytest.fixture(scope="module")
def task():
    return french_numbers()


@pytest.fixture
def visit(new_page, html, complaints):
    """Open a page with the live translation, for a reader who wants no motion."""

    def open_page(name="index.html", fragment="", **options):
        usual = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
        page = new_page(**usual | options)
        page.on(
            "console",
            lambda said: (
                complaints.append(said.text)
                if said.type in ("error", "warning")
                else None
            ),
        )
        page.goto(f"{html.as_uri()}/book/{name}{fragment}")
        if options.get("java_script_enabled", True):
            page.wait_for_function(LIVE_IS_SHOWN)
        return page

    return open_page


@pytest.fixture
def live(visit):
    """The welcome page with its live translation, for a reader who wants no motion."""
    return visit()


def type_in(page, text):
    page.locator(".play-form input").fill(text)


def opacity(page, selector):
    return page.locator(selector).evaluate("one => getComputedStyle(one).opacity")


def words(page, column):
    return page.locator(f".live-{column} li").evaluate_all(
        "words => words.filter(word => !word.classList.contains('live-unwritten'))"
        ".map(word => word.lastChild.className ? word.childNodes[1].data : word.textContent)"
    )


# The weights


def test_a_parameter_is_written_to_within_half_a_step_of_its_row():
    weights = torch.randn(7, 30) * torch.logspace(-2, 1, 7)[:, None]
    weights[3] = 0
    written = live_weights.encode(weights)
    found = live_weights.decode(written)
    steps = torch.tensor([live_weights.scale_of(scale) for scale in written["scales"]])
    assert ((found - weights).abs() <= steps[:, None] / 2 + 1e-7).all()
    finest = weights.abs().amax(1) / live_weights.LARGEST
    assert (steps <= torch.clamp(finest * 2 ** (1 / live_weights.OCTAVE), 2**-10)).all()
    assert (found[3] == 0).all()


def test_a_vector_is_written_as_one_row():
    written = live_weights.encode(torch.tensor([0.5, -1.0, 0.0]))
    assert (len(written["scales"]), len(written["weights"])) == (1, 3)
    assert live_weights.decode(written).tolist() == pytest.approx(
        [0.5, -1, 0], abs=0.03
    )


def test_a_weight_beyond_all_scales_is_refused():
    with pytest.raises(ValueError, match=r"no scale .* 1e\+06|no scale .* 1000000"):
        live_weights.encode(torch.tensor([1e6]))


def test_the_characters_mean_nothing_in_a_script_or_a_page():
    assert len(set(live_weights.ALPHABET)) == len(live_weights.ALPHABET) == 89
    assert not set(live_weights.ALPHABET) & set("\"'`\\< ")
    assert live_weights.ALPHABET.isascii()
    assert live_weights.ALPHABET.isprintable()


def test_the_script_has_all_that_is_written_beside_the_weights(
    task, models, content, monkeypatch
):
    monkeypatch.setattr(translation, "exact_match", lambda task, model: None)
    written = live_weights.read(translation.script(task, models))
    assert written.keys() == content.keys()
    for name in content.keys() - {"models", "exactMatch"}:
        assert written[name] == content[name]


def test_the_script_says_what_its_models_reach(task, models, content):
    for name, model in models.items():
        assert content["exactMatch"][name] == translation.exact_match(task, model)


def test_attention_is_exact_at_every_length_and_one_vector_is_not(task, models):
    attentive = task.exact_match(models["withAttention"], RANGES)
    fixed = task.exact_match(models["withoutAttention"], RANGES)
    assert min(attentive) > 0.95
    assert fixed[0] > 0.7
    assert fixed[-1] < 0.1


def test_both_models_have_the_same_parameters(content):
    shapes = [
        {name: parameter["shape"] for name, parameter in parameters.items()}
        for parameters in content["models"].values()
    ]
    assert shapes[0] == shapes[1]


def test_the_page_loads_little(html):
    files = LIVE["live-translation"].split()
    sizes = {
        file: len(gzip.compress((STATIC / file).read_bytes(), 9, mtime=0))
        for file in files
    }
    print(sizes, sum(sizes.values()))
    assert sum(sizes.values()) < BUDGET
    assert all((html / "_static" / file).is_file() for file in files)


def test_only_pages_with_a_live_translation_load_it(html):
    with_scripts = {
        path.name
        for path in html.glob("book/*.html")
        if "live/translate.js" in path.read_text("utf-8")
    }
    assert with_scripts == ON_PAGES


def test_it_is_loaded_after_the_first_frame_of_the_loaded_page(visit):
    page = visit()
    page.add_init_script("""
        addEventListener("load", () =>
            requestAnimationFrame(() => { window.shownAt = performance.now() }));
        new MutationObserver(() => {
            if (document.querySelector("script[src*='weights.js']:not([data-late])")) {
                window.askedAt ??= performance.now();
            }
        }).observe(document, { childList: true, subtree: true })""")
    page.reload()
    page.locator(".live").wait_for()
    assert page.evaluate("shownAt < askedAt")


# The page computes what the package computes


def test_number_words_are_those_of_the_package(live):
    generator = random.Random(1)
    chosen = [value * 1000**group for group in range(4) for value in range(1, 1000)]
    chosen += [
        generator.randrange(1, 10 ** generator.randint(1, 12)) for _ in range(4000)
    ]
    found = live.evaluate(
        "chosen => chosen.map(n => {"
        " const french = NumberWords.french(n);"
        " return [NumberWords.english(n), french, NumberWords.valueOfFrench(french)]; })",
        chosen,
    )
    expected = [
        [list(numbers.english_words(n)), list(numbers.french_words(n)), n]
        for n in chosen
    ]
    assert found == expected


def test_what_is_not_exactly_a_number_in_french_has_no_value(live):
    wrong = "", "un milliards", "cent un cent", "quatre vingt vingts", "mille mille"
    found = live.evaluate(
        "all => all.map(words => NumberWords.valueOfFrench(words))",
        [words.split() for words in wrong],
    )
    assert found == [None] * len(wrong)


def test_the_training_numbers_are_generated_again_exactly(live, task):
    found = live.evaluate("TrainingNumbers.generate().then(numbers => [...numbers])")
    assert len(found) == len(set(found))
    assert set(found) == {pair.number for pair in task.training_pairs}


def test_translations_and_weights_are_those_of_pytorch(live, task, models, content):
    pairs = random.Random(0).sample(task.test_pairs, SOME)
    chosen = [pair.number for pair in pairs]
    found = live.evaluate(TRANSLATE, chosen)
    furthest = 0.0
    for place, name in enumerate(content["models"]):
        expected = translation.translate(task, models[name], chosen)
        for one, other in zip(found, expected, strict=True):
            assert tuple(one[place]["words"]) == other.target
            assert one[place]["hasEnded"] == (len(other.weights) > len(other.target))
            weights = torch.tensor(one[place]["weights"])
            furthest = max(furthest, (weights - other.weights).abs().max().item())
    print(f"weights differ by {furthest:.1e} at most")
    assert furthest < 1e-4


def test_the_right_words_are_those_of_the_drawing(live, task, models):
    for found in translation.translate(
        task,
        models["withoutAttention"],
        [pair.number for pair in task.test_pairs[::40]],
    ):
        target = numbers.french_words(
            next(p.number for p in task.test_pairs if p.source == found.source)
        )
        marked = live.evaluate(
            "([words, target]) => NumberWords.rightWords(words, target)",
            [found.target, target],
        )
        assert marked == _right_words(found.target, target)


# What is typed


def test_a_number_may_be_written_in_several_ways(live):
    for text, number in ACCEPTED.items():
        type_in(live, text)
        head = live.locator(".live-heads p:nth-child(2) strong").text_content()
        assert head == f"{number:,}"
        assert words(live, "source") == list(numbers.english_words(number))
        assert live.locator(".play-problem").text_content() == ""
        assert live.locator(".play-form input").get_attribute("aria-invalid") == "false"


def test_what_is_no_number_is_refused_in_words_and_dims_what_is_shown(live):
    stage = live.locator(".live-stage").inner_html()
    title = live.title()
    for text, reason in REFUSED.items():
        type_in(live, text)
        problem = live.locator(".play-problem").text_content()
        assert reason in problem, text[:20]
        assert "from 1 to 999,999,999,999" in problem
        assert live.locator(".play-form input").get_attribute("aria-invalid") == "true"
        live.keyboard.press("Enter")
        assert live.locator(".live-stage").inner_html() == stage
        assert live.locator(".live-shown").evaluate("shown => shown.inert")
        assert float(opacity(live, ".live-shown")) < 1
    assert live.title() == title
    assert live.locator(".live img, .live script").count() == 0
    live.locator(".play-unseen[role=status]", has_text="not a whole number").wait_for(
        state="attached"
    )
    type_in(live, "1984")
    assert not live.locator(".live-shown").evaluate("shown => shown.inert")
    assert opacity(live, ".live-shown") == "1"


def test_what_is_no_number_stops_the_play(visit):
    page = visit(reduced_motion="no-preference")
    stop_clock(page)
    press(page, "Play")
    page.clock.run_for(2000)
    type_in(page, "abc")
    written = words(page, "attended")
    page.clock.run_for(10_000)
    assert words(page, "attended") == written
    assert len(written) < 17


def test_the_address_may_name_a_number(visit):
    page = visit(fragment="#number=1984")
    page.locator(".live-heads", has_text="1,984").wait_for()
    page.locator(".live-examples button", has_text="97").first.click()
    assert page.evaluate("location.hash") == "#number=97"


def test_an_address_that_changes_is_followed(visit):
    page = visit(fragment="#number=1984")
    type_in(page, "abc")
    page.evaluate("location.hash = 'number=97'")
    page.locator(".live-heads", has_text="97").wait_for()
    assert page.locator(".play-form input").input_value() == "97"
    assert page.locator(".play-problem").text_content() == ""
    assert words(page, "attended") == list(numbers.french_words(97))
    page.evaluate("location.hash = 'main-content'")
    page.wait_for_function("() => new Promise(requestAnimationFrame)")
    assert page.locator(".play-form input").input_value() == "97"


@pytest.mark.parametrize(
    "fragment", ["#number=<b>", "#number=%", "#number=0", "#number"]
)
def test_an_address_with_something_else_is_ignored(visit, fragment):
    page = visit(fragment=fragment)
    assert page.locator(".play-form input").input_value() == "299,792,458"


def test_every_example_is_translated(live):
    examples = live.locator(".live-examples button").all()
    assert len(examples) == 8
    for button in examples:
        button.click()
        number = int(live.locator(".play-form input").input_value().replace(",", ""))
        assert button.text_content() in ("random", f"{number:,}")
        assert words(live, "source") == list(numbers.english_words(number))


# What is shown


def test_a_verdict_and_whether_the_number_was_in_training(live):
    live.locator(".live-heads", has_text="never seen in training").wait_for()
    result = live.locator(".live-result").text_content()
    assert "With attention: exact." in result
    assert "Without attention: 4 words wrong or extra, says 299,792,898." in result
    assert live.locator(".live-fixed .play-wrong").count() == 4
    assert live.locator(".live-attended .play-wrong").count() == 0


def test_what_a_number_shows_stands_below_it_in_words(live):
    live.locator(".live-meaning", has_text="in training").wait_for()
    for number, meaning in {
        "500": "Both models have seen 500 in training; without attention, ",
        "97": "Neither model has seen 97 in training, yet both translate it.",
        "299792458": "; only the one with attention translates it.",
        "153000111010": "it is hard for both.",
    }.items():
        type_in(live, number)
        assert meaning in live.locator(".live-meaning").text_content()
        live.locator("[role=status]", has_text=meaning).wait_for(state="attached")


def test_a_verdict_counts_the_words_that_are_crossed_out(live):
    for number, (column, place) in itertools.product(
        ("1", "7", "500", "97", "1984", "153000111010", "999"),
        (("fixed", 1), ("attended", 3)),
    ):
        type_in(live, number)
        verdict = live.locator(f".live-heads p:nth-child({place}) .live-verdict").first
        crossed = live.locator(f".live-{column} .play-wrong").count()
        if words(live, column) == list(numbers.french_words(int(number))):
            assert verdict.text_content() == "✓ exact"
        elif crossed:
            noun = "word" if crossed == 1 else "words"
            assert verdict.text_content() == f"{crossed} {noun} wrong or extra"
        else:
            assert "missing" in verdict.text_content()


def test_the_page_says_what_is_translated_and_what_the_keys_are(live):
    assert "by two trained models" in live.locator(".live-intro").text_content()
    assert live.locator(".live-language").all_text_contents() == [
        "French",
        "English",
        "French",
    ]
    assert "bidirectional" in live.locator(".live-keys").text_content()


def test_curves_are_as_thick_as_the_weights_and_lead_from_word_to_word(
    live, task, models
):
    (found,) = translation.translate(task, models["withAttention"], [translation.STILL])
    expected = [
        w
        for row in found.weights[: len(found.target)].tolist()
        for w in row
        if w >= 0.04
    ]
    widths = live.locator(".live-weight").evaluate_all(
        "paths => paths.map(path => Number(path.getAttribute('stroke-width')))"
    )
    assert [width / 10 for width in widths] == pytest.approx(expected, abs=1e-4)
    ends = live.evaluate("""() => {
        const middle = element => {
            const { top, bottom } = element.getBoundingClientRect();
            return (top + bottom) / 2;
        };
        const stage = document.querySelector('.live-stage').getBoundingClientRect();
        const path = document.querySelector('.live-weight');
        const [from, to] = [path.getPointAtLength(0), path.getPointAtLength(path.getTotalLength())];
        const near = (y, list) => [...document.querySelectorAll(`${list} li`)].findIndex(
            word => Math.abs(middle(word) - stage.top - y) < 1);
        return [near(from.y, '.live-source'), near(to.y, '.live-attended')];
    }""")
    first = next(
        j for j, weight in enumerate(found.weights[0].tolist()) if weight >= 0.04
    )
    assert ends == [first, 0]


def test_without_attention_everything_leads_through_one_box(live):
    assert live.locator(".live-squeezed").count() == len(
        numbers.english_words(translation.STILL)
    )
    assert live.locator(".live-unpacked").count() == len(words(live, "fixed"))
    assert live.locator(".live-box").text_content() == "one vector"


def test_the_table_has_the_weights(live, task, models):
    live.locator(".live-table summary").click()
    (found,) = translation.translate(task, models["withAttention"], [translation.STILL])
    cells = live.locator(".live-table tbody td").all_text_contents()
    expected = (
        found.weights[: len(found.target)].flatten().mul(100).round().int().tolist()
    )
    assert [int(cell) for cell in cells] == pytest.approx(expected, abs=1)
    assert (
        tuple(live.locator(".live-table tbody th").all_text_contents()) == found.target
    )
    assert (
        tuple(live.locator(".live-table thead th").all_text_contents()) == found.source
    )


# For every reader


def test_keys_lead_from_word_to_word(live):
    live.locator(".live-attended [tabindex='0']").focus()
    assert (
        live.locator(".live-now").text_content().startswith("“deux” attends to ninety")
    )
    for _ in range(3):
        live.keyboard.press("ArrowDown")
    assert (
        live.locator(".live-now").text_content()
        == "“vingt” attends to nine 59\u00a0%, ninety 33\u00a0%."
    )
    chosen = live.locator(".live-attended [aria-selected='true']")
    assert (
        chosen.get_attribute("aria-label") == "vingt: nine 59\u00a0%, ninety 33\u00a0%"
    )
    assert live.locator(".live-attended [tabindex='0']").count() == 1
    live.keyboard.press("ArrowUp")
    assert live.locator(".live-now").text_content().startswith("“quatre” attends to")
    live.keyboard.press("End")
    assert live.locator(".live-now").text_content().startswith("“huit” attends to")
    live.keyboard.press("ArrowDown")
    live.keyboard.press("Home")
    assert live.locator(".live-now").text_content().startswith("“deux” attends to")
    live.keyboard.press("Escape")
    assert live.locator(".live-now").text_content().startswith("Choose a French word")
    assert live.locator(".live-attended [aria-selected='true']").count() == 0


def test_the_whole_part_can_be_used_by_keyboard_alone(live):
    live.locator(".play-form input").focus()
    reached = []
    for _ in range(20):
        live.keyboard.press("Tab")
        reached.append(live.evaluate("document.activeElement.textContent"))
    assert reached[0] == "Translate"
    for name in (
        "97",
        "random",
        "Play",
        "Step",
        "Back",
        "Reset",
        "The weights as a table",
    ):
        assert name in reached
    assert reached.index("random") < reached.index("Play") < reached.index("deux")


def test_pointing_shows_weights_until_the_pointer_leaves(live):
    live.locator(".live-attended li").nth(3).hover()
    assert (
        live.locator(".live-now").text_content().startswith("“vingt” attends to nine ")
    )
    assert live.locator(".live-weight.live-current").count() > 0
    assert (
        live.locator(".live-fixed .live-current").count() == 0
    )  # which is another word
    live.locator(".play-form label").hover()
    assert live.locator(".live-now").text_content().startswith("Choose a French word")


def test_a_tap_chooses_a_word(visit):
    page = visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.locator(".live-attended li").nth(3).tap()
    assert (
        page.locator(".live-now").text_content().startswith("“vingt” attends to nine ")
    )


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def test_step_by_step(live):
    press(live, "Step")
    assert (words(live, "fixed"), words(live, "attended")) == (["deux"], ["deux"])
    assert live.locator(".live-result").is_visible()  # while the words are written
    assert live.locator(".live-verdict.play-right").is_visible()
    press(live, "Step")
    assert words(live, "attended") == ["deux", "cent"]
    assert live.locator(".live-now").text_content().startswith("“cent” attends to")
    live.locator("[role=status]", has_text="“cent” attends to").wait_for(
        state="attached"
    )
    press(live, "Back")
    assert words(live, "attended") == ["deux"]
    back = live.get_by_role("button", name="Back", exact=True)
    assert back.is_enabled()
    press(live, "Reset")
    assert live.locator(".live-now").text_content().startswith("Press Play or Step")
    assert back.is_disabled()
    back.click(force=True)
    assert words(live, "attended") == words(live, "fixed") == []
    for _ in range(30):
        press(live, "Step")
    # 19 words are all; the next step is the first again
    assert len(words(live, "attended")) == 30 - 19


def test_after_the_last_word_of_one_model_the_other_goes_on(live):
    for _ in range(18):
        press(live, "Step")
    assert live.locator(".live-now").text_content() == (
        "With attention, the translation has ended. Without: “dix”."
    )
    weights = live.locator(".live-source li").evaluate_all(
        "words => words.map(word => word.style.getPropertyValue('--weight'))"
    )
    assert set(weights) == {"0"}
    assert live.locator(".live-attended [tabindex='0']").text_content() == "deux"
    press(live, "Step")
    assert live.locator(".live-result").is_visible()


def test_enter_plays_the_translation(visit):
    page = visit(reduced_motion="no-preference")
    page.locator(".live").wait_for()
    assert len(words(page, "attended")) == 17  # nothing plays by itself
    stop_clock(page)
    type_in(page, "1984")
    assert words(page, "attended") == list(numbers.french_words(1984))
    page.keyboard.press("Enter")
    assert words(page, "attended") == []
    page.clock.run_for(1300)
    assert words(page, "attended") == ["mille", "neuf"]
    press(page, "Pause")
    page.clock.run_for(5000)
    assert words(page, "attended") == ["mille", "neuf"]
    press(page, "Play")
    page.clock.run_for(10_000)
    assert words(page, "attended") == list(numbers.french_words(1984))
    assert page.locator(".live-result").is_visible()
    assert page.get_by_role("button", name="Play", exact=True).is_visible()


def test_a_word_chosen_while_it_plays_ends_the_play(visit):
    page = visit(reduced_motion="no-preference")
    stop_clock(page)
    press(page, "Play")
    page.clock.run_for(2000)
    page.locator(".live-attended li").nth(1).click()
    assert len(words(page, "attended")) == 17
    assert page.locator(".live-now").text_content().startswith("“cent” attends to")


def test_enter_shows_all_at_once_to_readers_who_want_no_motion(live):
    type_in(live, "1984")
    live.keyboard.press("Enter")
    assert words(live, "attended") == list(numbers.french_words(1984))
    assert live.get_by_role("button", name="Play", exact=True).is_visible()


def test_nothing_is_read_out_before_the_reader_has_done_something(live):
    live.wait_for_function(TRAINING_IS_KNOWN)
    assert live.locator(".live [role=status]").text_content() == ""


def test_the_result_is_read_out_after_a_pause(live):
    type_in(live, "97")
    live.locator(
        "[role=status]", has_text="With attention: exact. Without attention: exact."
    ).wait_for(state="attached")


@pytest.mark.parametrize(("name", "width", "scheme"), VISITS)
def test_axe_finds_nothing_in_any_state(visit, name, width, scheme):
    page = visit(name, viewport={"width": width, "height": 900}, color_scheme=scheme)
    type_in(page, "999,999,999,998")
    page.locator(".live-attended li").nth(3).click()
    page.locator(".live-table").evaluate("table => { table.open = true }")
    page.locator(".live-scroll").wait_for()
    for text in ("999,999,999,998", "nothing"):
        type_in(page, text)
        found = Axe().run(
            page,
            context=".live",
            options={"resultTypes": ["violations"], "preload": False},
        )
        problems = [(one["id"], one["nodes"]) for one in found.response["violations"]]
        assert not problems, text


@pytest.mark.parametrize("width", [NARROWEST, 390, 768, 1280])
def test_columns_stand_beside_each_other_on_any_screen(visit, width):
    page = visit(viewport={"width": width, "height": 844})
    for number in ("1", "171717", "999999999998", "877,997,997,997"):
        type_in(page, number)
        check_columns(page, width)


def check_columns(page, width):
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    stage, *columns = (
        boxes(page.locator(f".live-{name}"))[0]
        for name in ("stage", "fixed", "box", "source", "attended")
    )
    edges = [edge for box in columns for edge in (box["left"], box["right"])]
    assert all(right >= left - PIXEL for left, right in itertools.pairwise(edges))
    assert edges[0] >= stage["left"] - PIXEL
    assert edges[-1] <= stage["right"] + PIXEL
    heights = [box["height"] for box in boxes(page.locator(".live-attended li"))]
    assert min(heights) >= 24 - PIXEL  # to be hit with a finger


@pytest.mark.parametrize(
    ("width", "height", "last"),
    [(320, 568, VERDICT), (390, 844, PLAY), (1280, 720, PLAY)],
)
def test_the_verdict_and_play_are_on_the_first_screen(visit, width, height, last):
    page = visit(viewport={"width": width, "height": height})
    for part in (".play-form input", VERDICT, last):
        assert max(box["bottom"] for box in boxes(page.locator(part))) <= height


def test_every_number_is_read_from_its_english_words(live):
    chosen = [random.Random(0).randrange(1, 10**12) for _ in range(SOME)] + [1, 1000]
    said = [" ".join(numbers.english_words(number)) for number in chosen]
    assert (
        live.evaluate("all => all.map(text => NumberWords.read(text).number)", said)
        == chosen
    )


@pytest.mark.parametrize("width", [390, 1280])
def test_a_short_number_is_translated_directly_below_the_steps(visit, width):
    page = visit(viewport={"width": width, "height": 844})

    def box(selector):
        return boxes(page.locator(selector))[0]

    room = box(".live-stage")["height"]
    for number in ("1", "97"):
        type_in(page, number)
        steps, stage = box("[aria-label='Word by word']"), box(".live-stage")
        assert box(".live-attended li")["y"] < steps["y"] + steps["height"] + 50
        assert stage["height"] == pytest.approx(
            room, abs=PIXEL
        )  # nothing below it moves


def test_the_examples_are_one_row_on_a_phone_and_reached_by_keyboard(visit):
    page = visit(viewport={"width": 390, "height": 844})
    examples = page.locator(".live-examples button")
    rows = [box["y"] for box in boxes(examples)]
    assert max(rows) - min(rows) < PIXEL
    examples.first.focus()
    for _ in range(examples.count() - 1):
        page.keyboard.press("Tab")
    last = page.locator(".live-examples :focus")
    assert last.text_content() == "random"
    (box,) = boxes(last)
    assert 0 <= box["left"] <= box["right"] <= 390 + PIXEL


# The still picture


def test_the_still_picture_is_what_the_models_compute(task, models):
    assert translation.SPEED_OF_LIGHT.read_text("utf-8") == translation.still(
        task, models
    )
    assert (STATIC / "live" / "still.svg").read_text("utf-8") == speed_of_light().svg()


@pytest.mark.parametrize("name", sorted(ON_PAGES))
def test_without_scripts_there_is_a_picture_that_is_described(visit, name):
    page = visit(name, java_script_enabled=False)
    picture = page.locator(".live-translation, .tag_live-translation").get_by_role(
        "img"
    )
    picture.scroll_into_view_if_needed()
    assert picture.is_visible()
    description = picture.get_attribute("aria-label")
    assert description == speed_of_light().description
    assert "4 words wrong or extra" in description
    assert page.locator(".live").count() == 0


@pytest.mark.parametrize("name", sorted(ON_PAGES))
def test_pdf_and_epub_have_the_picture(html, name):
    body = read_page(html / "book" / name, None, "").body
    (picture,) = body.xpath(".//*[contains(@class, 'live-translation')]//svg")
    assert "299,792,458" in picture.get("aria-label")


@pytest.mark.parametrize("screen", [1280, 390])
def test_where_a_script_does_not_come_the_picture_stays(screen, browser, html):
    context = browser.new_context(viewport={"width": screen, "height": 900})
    page = context.new_page()
    page.route("**/weights.js*", lambda route: route.abort())
    page.goto(f"{html.as_uri()}/book/index.html")
    page.locator("html.without-live").wait_for(state="attached")
    figure = page.locator("figure.live-translation")
    assert figure.get_by_role("img").is_visible()
    parts = [figure.get_by_role("img"), figure.locator("figcaption")]
    heights = [one.bounding_box()["height"] for one in parts]
    assert figure.bounding_box()["height"] < sum(heights) + 50
    context.close()


def test_the_notebook_holds_the_picture_itself():
    notebook = json.loads((ROOT / "book" / "02_bahdanau.ipynb").read_text("utf-8"))
    (cell,) = [
        cell
        for cell in notebook["cells"]
        if "live-translation" in cell["metadata"].get("tags", [])
    ]
    assert (
        "".join(cell["outputs"][0]["data"]["image/svg+xml"]) == speed_of_light().svg()
    )


# The moving picture


def test_the_moving_picture_is_small_and_as_wide_as_a_column():
    path = STATIC / "live" / "live.gif"
    assert path.stat().st_size < 1_000_000
    with Image.open(path) as picture:
        assert picture.width == 640
        assert picture.n_frames > 25
        assert picture.info["loop"] == 0
