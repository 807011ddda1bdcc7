"""The attention bench: its numbers are the package's, and every reader can use it."""

import itertools
import re
from unittest.mock import Mock

import live_pages
import pytest
import torch
from axe_playwright_python.sync_playwright import Axe
from bench_pictures import FOLDER, SCRIPTS, pictures

from companion.attention import (
    Additive,
    Attention,
    Bilinear,
    Cosine,
    Dot,
    HardAttention,
    LocalP,
    ScaledDot,
    masks,
    one_hot,
)
from tests.book.conftest import MATH_IS_SET, PIXEL, boxes, stop_clock
from tests.conftest import ROOT, slow_but

EXAMPLES = [
    "which-key-matches",
    "average-or-sample",
    "a-gaussian-window",
    "sparse-patterns",
]
KEYS, PADDED = 6, 2
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
# What the bars say, by the names of their rows; the output is a point.
IN_BARS = """bars => Object.fromEntries([...bars.querySelectorAll('.step')].map(step => [
    step.classList[1],
    step.matches('.output') ? step.dataset.value.split(' ')
        : [...step.querySelectorAll('[data-value]')].map(column => column.dataset.value)
]))"""
DRAWN = f"""allChanges => allChanges.map(changes => {{
    const state = benchState.first(changes);
    return ({IN_BARS})(benchBars.draw(state, attention.attend(state)).drawn);
}})"""
SHOWN = f"() => ({IN_BARS})(document.querySelector('.bench svg.bars'))"


# The numbers ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def numbers(browser):
    """A page that has the scripts of the bench, but not the bench."""
    page = browser.new_page()
    for script in SCRIPTS:
        page.add_script_tag(path=FOLDER / f"{script}.js")
    yield page
    page.close()


@pytest.fixture(scope="module")
def parameters(numbers):
    """The parameters of the scores, from the one place where they are written."""
    return numbers.evaluate("attention.PARAMETERS")


class Distance(Attention):
    """Scores by a Gaussian kernel, the example of CONTRIBUTING."""

    def score(self, query, key):
        return -torch.cdist(query, key).square() / 2


class Tempered(Attention):
    """The scores of another attention, divided by a temperature."""

    def __init__(self, attention, temperature):
        super().__init__()
        self.attention, self.temperature = attention, temperature

    def project(self, source):
        return self.attention.project(source)

    def score(self, query, key):
        return self.attention.score(query, key) / self.temperature


class Centred(LocalP):
    """A Gaussian window around a given position, which counts from 1."""

    def __init__(self, attention, radius, centre):
        super().__init__(attention, radius, 2)
        self.middle = centre - 1

    def centre(self, query, lengths, query_position=None):
        return torch.full(query.shape[:-1], self.middle, dtype=torch.float64)


def package_score(name, parameters):
    """The package's attention with a score of the bench."""
    if name in parameters:
        kind = {"bilinear": Bilinear, "additive": Additive}[name]
        found = {
            key if key == "v" else f"{key}.weight": torch.tensor(
                value, dtype=torch.float64
            )
            for key, value in parameters[name].items()
        }
        sizes = (2, 2, len(found["v"])) if "v" in found else (2, 2)
        attention = kind(*sizes).double()
        attention.load_state_dict(found)
        return attention
    return {"dot": Dot, "scaled": ScaledDot, "cosine": Cosine, "distance": Distance}[
        name
    ]()


def package_mask(state):
    """The mask and the window of a state as one of the package's masks."""
    position = torch.tensor([state["position"] - 1])
    rules = {"local": masks.local, "atrous": masks.atrous, "strided": masks.strided}
    rules["fixed"] = masks.fixed
    mask = torch.ones(1, KEYS, dtype=torch.bool)
    if state["window"] in rules:
        rule = rules[state["window"]](state["size"])
        mask = mask & masks.visible_keys(rule, position, KEYS)
    if state["mask"] == "causal":
        mask = mask & masks.visible_keys(masks.causal(), position, KEYS)
    if state["mask"] == "padding":
        mask = mask & (torch.arange(KEYS) < KEYS - PADDED)
    return mask


@torch.no_grad()
def package_numbers(state, parameters):
    """Scores, weights, most probable key and soft output of a state, by the package."""
    plain = package_score(state["score"], parameters)
    attention = Tempered(plain, state["temperature"])
    if state["window"] == "gaussian":
        attention = Centred(attention, state["size"], state["centre"])
    attention = attention.double()
    query = torch.tensor([state["query"]], dtype=torch.float64)
    source = torch.tensor(state["keys"], dtype=torch.float64)
    key, value = attention.project(source)
    mask = package_mask(state)
    context, weights = attention.attend(query, key, value, mask)
    largest = weights
    if state["window"] != "gaussian":
        largest = HardAttention(attention).eval()(query, key, mask).weights
    return plain.score(query, key)[0], weights[0], largest[0], context[0]


SCORES = ["dot", "scaled", "cosine", "bilinear", "additive", "distance"]
WINDOWS = ["local", "atrous", "strided", "fixed", "gaussian"]
POINTS = [[-1.9, 0.3], [0, 0], [1, 1.25], [0.4, -2], [2, 2], [-0.35, -0.7]]
PLACES = [
    {"query": [1, 0.5], "position": 4, "centre": 3.5},
    {"query": [-1.2, 0.73], "position": 1, "centre": 1},
    {"query": [0, 0], "position": 6, "centre": 5.3, "keys": POINTS},
]


def grid(score, first):
    """Every mask with every window, temperature, choice and place, for one score."""
    windows = [("all", 2), *itertools.product(WINDOWS, (1, 3))]
    settings = itertools.product(
        ["none", "padding", "causal"], windows, (0.3, 1, 4), ["soft", "hard"], PLACES
    )
    for mask, (window, size), temperature, choice, place in settings:
        if not (window == "gaussian" and choice == "hard"):
            chosen = {"score": score, "mask": mask, "window": window, "size": size}
            chosen |= {"temperature": temperature, "choice": choice}
            yield first | chosen | place


def close(found, expected):
    expected = torch.as_tensor(expected, dtype=torch.float64)
    found = torch.tensor([float(x) for x in found], dtype=torch.float64)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("score", SCORES)
def test_the_numbers_are_those_of_the_package(score, step, numbers, parameters):
    states = list(grid(score, numbers.evaluate("benchState.first()")))[::step]
    assert len(states) * step > 500
    for state, shown in zip(states, numbers.evaluate(DRAWN, states), strict=True):
        scores, weights, largest, context = package_numbers(state, parameters)
        close(shown["scores"], scores)
        close(shown["weights"], weights)
        for j, left in enumerate(shown["logits"]):
            if left == "masked":
                assert weights[j] == 0
            else:
                close([left], [scores[j] / state["temperature"]])
        if state["choice"] == "soft":
            close(shown["output"], context)
        else:
            sampled = [float(x) for x in shown["sampled"]]
            assert sum(sampled) == float(largest.any())
            close(shown["output"], torch.tensor(sampled).double() @ source(state))


def source(state):
    return torch.tensor(state["keys"], dtype=torch.float64)


def test_every_choice_of_the_bench_is_in_the_grid(numbers):
    assert numbers.evaluate("Object.keys(attention.SCORES)") == SCORES
    assert numbers.evaluate("Object.keys(attention.WINDOWS)") == ["all", *WINDOWS]
    assert numbers.evaluate("Object.keys(attention.MASKS)") == [
        "none",
        "padding",
        "causal",
    ]
    assert numbers.evaluate("attention.PADDED") == PADDED


def test_samples_are_those_of_the_package_for_the_same_random_times(
    numbers, parameters
):
    state = numbers.evaluate("benchState.first({choice: 'hard', temperature: 2})")
    seeds = range(1, 1000)
    found = numbers.evaluate(
        """([state, seeds]) => seeds.map(seed => {
            const result = attention.attend({...state, seed});
            return [result.sampled, result.largest, attention.clocks(seed, 6)];
        })""",
        [state, list(seeds)],
    )
    _, weights, largest, _ = package_numbers(state, parameters)
    counts = torch.zeros(KEYS)
    for sampled, most, clocks in found:
        counts[sampled] += 1
        assert most == largest.argmax()
        expected = one_hot(weights / torch.tensor(clocks, dtype=torch.float64))
        assert sampled == expected.argmax()
    deviation = (weights * (1 - weights) / len(found)).sqrt()
    assert ((counts / len(found) - weights).abs() < 4 * deviation).all()


def test_the_mean_of_the_samples_is_that_of_the_package(numbers, parameters):
    state = numbers.evaluate("benchState.first({choice: 'hard', seed: 300})")
    means, proportions, times = numbers.evaluate(
        """state => {
            const { means, proportions } = attention.attend(state);
            return [means, proportions, means.map((_, n) => attention.clocks(n + 1, 6))];
        }""",
        state,
    )
    _, weights, _, context = package_numbers(state, parameters)
    sampled = one_hot(weights / torch.tensor(times, dtype=torch.float64)).double()
    close(proportions, sampled.mean(0))
    counts = torch.arange(1, 301)[:, None]
    expected = (sampled @ source(state)).cumsum(0) / counts
    torch.testing.assert_close(torch.tensor(means, dtype=torch.float64), expected)
    assert (expected[-1] - context).norm() < (expected[10] - context).norm() / 2


def test_a_query_without_any_key_gets_weights_and_output_of_zero(numbers):
    changes = {"mask": "padding", "window": "local", "size": 1, "position": 6}
    for choice in ("soft", "hard"):
        (shown,) = numbers.evaluate(DRAWN, [changes | {"choice": choice, "size": 1}])
        # Key 5 is next to the query, but is padding.
        assert shown["logits"] == ["masked"] * KEYS
        assert shown["weights"] == ["0"] * KEYS
        assert shown["output"] == ["0", "0"]


def test_each_weight_stands_directly_above_its_bar(numbers):
    gaps = numbers.evaluate(
        """changes => {
            const state = benchState.first(changes);
            const { drawn } = benchBars.draw(state, attention.attend(state));
            return [...drawn.querySelectorAll('.weights [data-value]')].map(column =>
                column.querySelector('.bar').getAttribute('y')
                - column.querySelector('.number').getAttribute('y'));
        }""",
        {"window": "gaussian"},
    )
    assert gaps == pytest.approx([5] * KEYS, abs=0.02)


def test_an_address_brings_back_every_state(numbers):
    states = [*itertools.islice(grid("cosine", {"keys": POINTS, "seed": 7}), 0, 300, 7)]
    states.append(states[0] | {"temperature": 0.056})  # the slider's second value
    there_and_back = """states => states.map(state => {
        const address = benchState.write(state);
        return [address, benchState.read(`#${address}`)];
    })"""
    for state, (address, found) in zip(
        states, numbers.evaluate(there_and_back, states), strict=True
    ):
        assert found == {"state": state, "wrong": []}
        assert re.fullmatch(r"[\w=&.,;-]*", address)


def test_the_equations_that_the_code_names_are_in_the_chapters():
    named = re.findall(
        r"\((\d+)\.(\d+)\)", (FOLDER / "attention.js").read_text("utf-8")
    )
    assert len(named) > 5
    for chapter, number in named:
        (path,) = (ROOT / "book").glob(f"{int(chapter):02}_*.md")
        assert rf"\tag{{{chapter}.{number}}}" in path.read_text("utf-8")


HOSTILE = {
    "score=<img src=x onerror=alert(1)>": ["score"],
    "score=%3Cscript%3Ealert(1)%3C/script%3E&mask=causal": ["score"],
    "__proto__=1&constructor=2&toString=3": ["an unknown name"],
    "mask=causal&masks=none&size=9": ["an unknown name", "size"],
    "score=__proto__&mask=constructor&window=toString": ["score", "mask", "window"],
    "temperature=0": ["temperature"],
    "temperature=1e3&size=9&position=2.5&seed=-1": [
        "temperature",
        "size",
        "position",
        "seed",
    ],
    "temperature=NaN&centre=Infinity&position=0": ["temperature", "centre", "position"],
    "query=1&keys=1,2;3,4": ["query", "keys"],
    "query=1,9&keys=1,1;1,1;1,1;1,1;1,1;1,a": ["query", "keys"],
    "query=1,1,1": ["query"],
    "choice=hard&window=gaussian": ["choice"],
    "=": ["an unknown name"],
    "score=%E0%A4%A": ["score"],
    f"query={'9' * 10000}": ["query"],
}


@pytest.mark.parametrize("address", HOSTILE)
def test_what_an_address_gets_wrong_is_named_and_ignored(address, numbers):
    found = numbers.evaluate("address => benchState.read('#' + address)", address)
    first = numbers.evaluate("benchState.first()")
    for name, said in zip(HOSTILE[address], found["wrong"], strict=True):
        assert said.startswith(f"{name} must be ") or said.endswith(name)
    right = {
        "mask": "causal" if "mask=causal" in address else "none",
        "window": "gaussian" if "window=gaussian" in address else "all",
    }
    assert found["state"] == first | right


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("temperature=0", "temperature must be a number from 0.05 to 10"),
        ("size=1.5", "size must be a whole number from 1 to 4"),
        ("mask=all", "mask must be one of none, padding, causal"),
        ("query=1,9", "query must be a pair x,y from −2 to 2"),
        (
            "keys=1,1",
            "keys must be 6 pairs x,y from −2 to 2, with semicolons between them",
        ),
    ],
)
def test_what_an_address_gets_wrong_is_said_with_the_values_that_are_right(
    address, said, numbers
):
    found = numbers.evaluate("address => benchState.read('#' + address)", address)
    assert found["wrong"] == [said]


# The page ------------------------------------------------------------------------------


@pytest.fixture
def open_bench(browser, html):
    """Open the page from the disk; at the end, it must have asked and complained of nothing."""
    contexts, requests, complaints = [], [], []

    def listen(page):
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on(
            "console",
            lambda said: (
                complaints.append(said.text)
                if said.type in ("error", "warning")
                else None
            ),
        )

    def open_page(address="", **options):
        context = browser.new_context(
            **{"viewport": DESKTOP, "reduced_motion": "reduce"} | options
        )
        contexts.append(context)
        page = context.new_page()
        listen(page)
        page.goto(f"{(html / 'book' / 'bench.html').as_uri()}{address}")
        if options.get("java_script_enabled", True):
            page.wait_for_function(MATH_IS_SET)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not complaints
    assert requests
    assert all(url.startswith((html.as_uri(), "data:", "blob:")) for url in requests)


def handle(page, name):
    return page.get_by_role("slider", name=name, exact=True)


def position(page, name):
    """What a handle says of its position."""
    words = handle(page, name).get_attribute("aria-valuetext").replace("−", "-")
    return [float(number) for number in re.findall(r"-?\d+\.\d+", words)]


def on_screen(page, point):
    """Where a point of the plane is on the screen, on which it is shown as a whole."""
    return page.evaluate(
        """([x, y]) => {
            const axes = document.querySelector('.bench .axes rect');
            axes.scrollIntoView({block: 'nearest', behavior: 'instant'});
            const frame = axes.getBoundingClientRect();
            const unit = frame.width / 4;
            return [frame.left + unit * (x + 2), frame.top + unit * (2 - y)];
        }""",
        point,
    )


def shown_state(page):
    """The numbers in the bars, and the controls."""
    controls = page.eval_on_selector_all(
        ".bench-controls :is(select, [type=range], :checked)",
        "controls => Object.fromEntries(controls.map(one => [one.name, one.value]))",
    )
    return page.evaluate(SHOWN), controls


def test_the_page_shows_what_an_address_asks_for(open_bench, html):
    page = open_bench("#score=cosine&mask=causal&position=3")
    shown, controls = shown_state(page)
    assert controls["score"] == "cosine"
    assert controls["mask"] == "causal"
    assert controls["position"] == "3"
    changes = {"score": "cosine", "mask": "causal", "position": 3}
    assert [shown] == page.evaluate(DRAWN, [changes])
    assert shown["logits"][3:] == ["masked"] * 3
    assert page.locator(".bench .handle.masked").count() == 3
    assert page.locator(".bench .logits").get_by_text("masked", exact=True).count() == 3
    assert page.get_by_role("status").text_content() == ""


def test_numbers_are_shown_with_two_decimals_and_in_a_table(open_bench):
    page = open_bench("#score=distance")
    shown = page.evaluate(SHOWN)
    for name in ("scores", "weights"):
        labels = page.locator(f".bench .{name} .number").all_text_contents()
        for words, value in zip(labels, shown[name], strict=True):
            assert words.replace("−", "-") == f"{float(value):.2f}"
    page.get_by_text("All numbers", exact=True).click()
    rows = [
        row.split("\t") for row in page.locator(".bench tbody").inner_text().split("\n")
    ]
    assert [row[0] for row in rows] == [str(j + 1) for j in range(KEYS)]
    assert page.locator(".bench tbody th[scope=row]").count() == KEYS
    assert page.locator(".bench caption").is_visible()
    assert [row[4] for row in rows] == [f"{float(w):.4f}" for w in shown["weights"]]


def test_the_mouse_drags_the_query_and_the_keys(open_bench):
    page = open_bench()
    for name, goal in {"Query": [-1.25, 0.5], "Key 3": [1.5, -1.5]}.items():
        before = page.evaluate(SHOWN)
        page.mouse.move(*on_screen(page, position(page, name)))
        page.mouse.down()
        page.mouse.move(*on_screen(page, [0, 0]), steps=3)
        page.mouse.move(*on_screen(page, goal), steps=3)
        page.mouse.up()
        assert position(page, name) == pytest.approx(goal, abs=0.02)
        assert page.evaluate(SHOWN) != before
        assert handle(page, name).evaluate("one => one === document.activeElement")
    page.mouse.move(*on_screen(page, [0.3, 0.3]))
    assert position(page, "Key 3") == pytest.approx([1.5, -1.5], abs=0.02)


def test_of_two_handles_that_overlap_the_nearer_is_dragged(open_bench):
    page = open_bench("#query=-1.2,0.55")
    before = position(page, "Query")
    page.mouse.move(*on_screen(page, position(page, "Key 3")))
    page.mouse.down()
    page.mouse.move(*on_screen(page, [1.5, -1.5]))
    page.mouse.up()
    assert position(page, "Key 3") == pytest.approx([1.5, -1.5], abs=0.02)
    assert position(page, "Query") == before


def test_a_handle_stays_in_the_plane(open_bench):
    page = open_bench()
    page.mouse.move(*on_screen(page, position(page, "Query")))
    page.mouse.down()
    page.mouse.move(5, 5)
    page.mouse.up()
    assert position(page, "Query") == [-2, 2]


def test_a_click_in_the_plane_moves_what_was_selected(open_bench):
    page = open_bench()
    page.mouse.click(*on_screen(page, [-0.5, -0.5]))
    assert position(page, "Query") == pytest.approx([-0.5, -0.5], abs=0.02)
    handle(page, "Key 2").focus()
    page.mouse.click(*on_screen(page, [1.2, -1.2]))
    assert position(page, "Key 2") == pytest.approx([1.2, -1.2], abs=0.02)
    assert position(page, "Query") == pytest.approx([-0.5, -0.5], abs=0.02)


def test_arrow_keys_move_a_handle_and_what_happens_is_said(open_bench):
    page = open_bench()
    summary = page.locator(".bench-summary")
    before = summary.text_content()
    handle(page, "Query").focus()
    x, y = position(page, "Query")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert position(page, "Query") == pytest.approx([x - 0.1, y + 0.1])
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowRight")
    assert position(page, "Query") == pytest.approx([x + 0.4, y - 0.4])
    assert float(handle(page, "Query").get_attribute("aria-valuenow")) == x + 0.4
    for _ in range(6):
        page.keyboard.press("Shift+ArrowRight")
    assert position(page, "Query")[0] == 2
    said = summary.text_content()
    assert said != before
    point = [
        f"{float(x):.2f}".replace("-", "−") for x in page.evaluate(SHOWN)["output"]
    ]
    assert f"({point[0]},\u00a0{point[1]})" in said
    assert "attends mostly to key 1" in said


NOTE_WHAT_IS_READ_OUT = """() => {
    window.readOut = [];
    for (const region of document.querySelectorAll('.bench [aria-live]')) {
        new MutationObserver(() => window.readOut.push(region.textContent))
            .observe(region, {childList: true, characterData: true, subtree: true});
    }
}"""


def test_a_drag_is_read_out_once_at_its_end(open_bench):
    page = open_bench()
    stop_clock(page)
    page.evaluate(NOTE_WHAT_IS_READ_OUT)
    page.mouse.move(*on_screen(page, position(page, "Query")))
    page.mouse.down()
    page.mouse.move(*on_screen(page, [-1.5, -1]), steps=40)
    page.mouse.up()
    assert page.evaluate("readOut") == []
    page.clock.run_for(1000)
    summary = page.locator(".bench-summary").text_content()
    assert page.evaluate("readOut") == [summary]
    page.get_by_role("button", name="Sparse patterns").click()
    assert len(page.evaluate("readOut")) == 2


@pytest.mark.parametrize(
    ("key", "back"), [("ArrowRight", "Home"), ("ArrowLeft", "End")]
)
def test_arrow_keys_lead_through_all_temperatures(key, back, open_bench):
    page = open_bench()
    slider = page.get_by_label("Temperature τ")
    slider.press(key)
    assert slider.get_attribute("aria-valuetext") != "1"
    slider.press(back)
    found = [float(slider.get_attribute("aria-valuetext"))]
    end = {"ArrowRight": 10, "ArrowLeft": 0.05}[key]
    while found[-1] != end:
        slider.press(key)
        found.append(float(slider.get_attribute("aria-valuetext")))
        assert found[-1] != found[-2]
    assert found == sorted(found, reverse=key == "ArrowLeft")
    assert {0.05, 0.1, 0.5, 1, 2, 10} < set(found)


def test_the_lines_of_the_plane_and_those_of_the_bars_have_styles_of_their_own(
    open_bench,
):
    page = open_bench()
    styles = page.locator(".bench .bars .base").evaluate_all(
        "lines => lines.map(line => [getComputedStyle(line).stroke,"
        " getComputedStyle(line).strokeOpacity])"
    )
    assert len(styles) == 3
    assert styles[0] == styles[1] == styles[2]


def test_every_handle_and_control_is_reached_by_tab_and_shows_it(open_bench):
    page = open_bench("#average-or-sample")
    expected = ["Which key matches", "Average or sample", "A Gaussian window"]
    expected += ["Sparse patterns", "score", "temperature", "mask", "window", "choice"]
    expected += ["Sample again", "Sample 100 more"]
    expected += [*(f"Key {j + 1}" for j in range(KEYS)), "Query"]
    expected += ["Copy link", "Reset"]
    page.locator(".bench button").first.focus()
    for name in expected:
        found, visible = page.evaluate(
            """() => {
                const one = document.activeElement;
                const ring = getComputedStyle(one.querySelector('.room') ?? one);
                return [[one.name, one.ariaLabel, one.textContent],
                    ring.outlineStyle !== 'none' || ring.stroke !== 'none'];
            }"""
        )
        assert name in found
        assert visible
        page.keyboard.press("Tab")


def test_a_finger_drags_a_handle_and_scrolls_elsewhere(open_bench):
    page = open_bench(viewport=PHONE, has_touch=True, is_mobile=True)
    page.locator(".bench .plane").evaluate(
        "plane => plane.scrollIntoView({block: 'center'})"
    )
    scrolled = page.evaluate("scrollY")
    session = page.context.new_cdp_session(page)

    def touch(kind, point=None):
        points = [dict(zip("xy", on_screen(page, point), strict=True))] if point else []
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", position(page, "Query"))
    for goal in ([0.5, 0], [-0.5, -0.5], [-1, -1]):
        touch("touchMove", goal)
    touch("touchEnd")
    assert position(page, "Query") == pytest.approx([-1, -1], abs=0.03)
    assert page.evaluate("scrollY") == scrolled
    actions = page.evaluate(
        "() => ['.room', '.plane', '.bars'].map("
        "name => getComputedStyle(document.querySelector(`.bench ${name}`)).touchAction)"
    )
    assert actions == ["none", "auto", "auto"]


def test_what_is_touched_is_large_enough(open_bench):
    page = open_bench("#average-or-sample", viewport=PHONE)
    touched = page.locator(".bench :is(button, select, [type=range], .room)")
    for box in boxes(touched.locator("visible=true")):
        assert min(box["width"], box["height"]) >= 32 - PIXEL


CONTROLS = {
    "Score": ("additive", "score=additive"),
    "Mask": ("padding", "mask=padding"),
    "Window": ("strided", "window=strided"),
}


def test_controls_change_the_numbers_and_the_address(open_bench):
    page = open_bench()
    for label, (value, _) in CONTROLS.items():
        page.get_by_label(label, exact=True).select_option(value)
    page.get_by_label("Query position i").fill("5")
    page.get_by_label("Stride ℓ").fill("3")
    page.get_by_label("Temperature τ").fill("0.3")
    page.get_by_label("hard").check()
    page.wait_for_function("location.hash.includes('choice=hard')")
    address = page.evaluate("location.hash")
    assert set(address[1:].split("&")) == {
        *(part for _, part in CONTROLS.values()),
        "position=5",
        "size=3",
        "temperature=2",
        "choice=hard",
    }
    again = open_bench(address)
    assert shown_state(again) == shown_state(page)


def test_only_the_controls_that_matter_are_shown(open_bench):
    page = open_bench()
    bench = page.locator(".bench")

    def shown():
        names = ("Query position i", "Centre p", "Radius D", "Radius r", "Sample again")
        return [
            name for name in names if bench.get_by_text(name, exact=True).is_visible()
        ]

    assert shown() == []
    page.get_by_label("Window", exact=True).select_option("local")
    assert shown() == ["Query position i", "Radius r"]
    page.get_by_label("Window", exact=True).select_option("gaussian")
    assert shown() == ["Centre p", "Radius D"]
    page.get_by_label("Mask", exact=True).select_option("causal")
    assert shown() == ["Query position i", "Centre p", "Radius D"]
    page.get_by_label("Window", exact=True).select_option("all")
    page.get_by_label("hard").check()
    assert shown() == ["Query position i", "Sample again"]


def test_a_new_sample_leaves_the_mean_where_it_is(open_bench):
    page = open_bench("#average-or-sample")
    mean = page.locator(".bench .mean circle").first
    place, samples = mean.get_attribute("cx"), set()
    for _ in range(12):
        page.get_by_role("button", name="Sample again").click()
        samples.add(tuple(page.evaluate(SHOWN)["sampled"]))
        assert mean.get_attribute("cx") == place
    assert len(samples) > 1
    assert page.locator(".bench .argmax").get_attribute("data-key") == "1"
    said = page.locator(".bench-summary").text_content()
    assert "was sampled" in said
    assert "mean over many samples" in said


def visible(part):
    """What the controls of a bench are called, with their values."""
    shown = part.locator(".bench-controls :is(label, button):visible")
    return [" ".join(text.split()) for text in shown.all_inner_texts()]


def test_chapter_3_ranks_six_keys_by_six_scores(visit_live):
    page = visit_live("03_attention", "live-bench")
    part = page.locator(".tag_live-bench .bench")
    assert visible(part) == ["Score"]
    first = {}
    for score in SCORES:
        part.get_by_label("Score", exact=True).select_option(score)
        weights = [float(x) for x in page.evaluate(SHOWN)["weights"]]
        first[score] = weights.index(max(weights)) + 1
        if score == "cosine":
            assert abs(weights[0] - weights[5]) < 0.02 < weights[5] - max(weights[1:5])
    assert first["dot"] == 1
    assert first["distance"] == 6


def test_in_chapter_4_the_mean_of_the_samples_approaches_soft_attention(visit_live):
    page = visit_live("04_hard", "live-bench")
    part = page.locator(".tag_live-bench .bench")
    assert visible(part) == ["Temperature τ 2", "Sample again", "Sample 100 more"]

    def distance():
        said = part.locator(".bench-summary").text_content()
        return float(said.split("distance of ")[1].rstrip("."))

    for _ in range(9):
        part.get_by_role("button", name="Sample again").click()
    assert part.locator(".sampled .last").count() == 1
    after_ten = distance()
    for _ in range(9):
        part.get_by_role("button", name="Sample 100 more").click()
    assert distance() < 0.05 < after_ten
    part.get_by_role("button", name="Sample again").focus()
    page.keyboard.press("Enter")
    part.get_by_label("Temperature τ").fill("-0.7")
    shown = page.evaluate(SHOWN)
    assert float(shown["weights"][0]) > 0.99
    assert distance() < 0.01


def test_in_chapter_5_the_window_moves_by_steps(visit_live):
    page = visit_live("05_luong", "live-bench")
    part = page.locator(".tag_live-bench .bench")
    assert visible(part) == ["Window", "Centre p 3.5", "Radius D 2", "Step"]

    def seen():
        shown = page.evaluate(SHOWN)
        count = sum(one != "masked" for one in shown["logits"])
        return count, sum(float(one) for one in shown["weights"])

    for count in (4, 5, 4):
        assert seen()[0] == count
        assert seen()[1] < 0.7
        part.get_by_role("button", name="Step").click()
    part.get_by_label("Radius D").fill("1")
    assert seen()[0] == 3
    options = part.locator("option:visible, [name=window] option").all_text_contents()
    assert [one for one in options if one.startswith("local")] == [
        "local-m, p = t",
        "local-p, p predicted",
    ]
    part.get_by_label("Window", exact=True).select_option("local")
    for count in (2, 3, 3, 3, 3, 2, 2):
        assert (seen()[0], round(seen()[1], 6)) == (count, 1)
        part.get_by_role("button", name="Step").click()


def test_hard_attention_is_refused_under_a_gaussian_window(open_bench):
    page = open_bench("#choice=hard")
    page.get_by_label("Window", exact=True).select_option("gaussian")
    assert page.get_by_label("soft").is_checked()
    assert page.get_by_label("hard").is_disabled()
    assert "sum to 1" in page.get_by_role("status").text_content()


@pytest.mark.parametrize("example", slow_but({EXAMPLES[1]}, EXAMPLES))
def test_a_chapter_opens_an_example(example, open_bench):
    page = open_bench(f"#{example}")
    section = page.locator(f"#{example}")
    button = page.locator(f'[data-example="{example}"]')
    assert button.text_content() in section.locator("h3").text_content()
    assert button.get_attribute("aria-pressed") == "true"
    hint = page.locator(".bench-hint").text_content()
    assert hint == section.locator("p").first.text_content()
    page.wait_for_function(
        "() => { const { top } = document.querySelector('.bench').getBoundingClientRect();"
        " return top >= 0 && top < 200 }"
    )
    changes = page.evaluate(f"benchState.EXAMPLES['{example}']")
    assert [page.evaluate(SHOWN)] == page.evaluate(DRAWN, [changes])
    again = open_bench()
    again.get_by_role("button", name=button.text_content()).click()
    assert shown_state(again) == shown_state(page)
    again.get_by_role("button", name="Reset").click()
    again.locator(f"#{example}").get_by_role("button").click()
    assert shown_state(again) == shown_state(page)
    assert again.locator(".bench").bounding_box()["y"] < 200


def test_the_bench_never_says_that_it_shows_what_it_does_not_show(open_bench):
    page = open_bench()
    pressed = page.locator(".bench [aria-pressed=true]")
    hint = page.locator(".bench-hint")
    page.get_by_role("button", name="Sparse patterns").click()
    instruction = hint.text_content()
    assert pressed.text_content() == "Sparse patterns"
    # As the hint asks for.
    page.get_by_label("Query position i").fill("5")
    page.get_by_label("Window", exact=True).select_option("local")
    assert pressed.count() == 0
    assert hint.text_content() == instruction
    # It speaks of a control that is now hidden.
    page.get_by_label("Window", exact=True).select_option("all")
    assert hint.text_content().startswith("Drag the query")
    page.get_by_role("button", name="Reset").click()
    assert pressed.text_content() == "Which key matches"  # which has the first settings
    assert hint.text_content().startswith("Drag the query")


def test_the_examples_are_the_sections_and_the_pictures(numbers):
    assert numbers.evaluate("Object.keys(benchState.EXAMPLES)") == EXAMPLES
    text = (ROOT / "book" / "bench.md").read_text("utf-8")
    titles = re.findall(r"(?m)^### (.*)$", text)
    assert [title.lower().replace(" ", "-") for title in titles] == EXAMPLES
    assert re.findall(r"_static/bench/([\w-]+)\.svg", text) == EXAMPLES


@pytest.mark.parametrize("address", slow_but({*list(HOSTILE)[:3]}, HOSTILE))
def test_a_hostile_address_is_met_with_a_plain_message(address, open_bench):
    page = open_bench(f"#{address}")
    status = page.get_by_role("status").text_content()
    for name in HOSTILE[address]:
        assert name in status
    assert "<" not in status
    assert not page.locator(".bench :is(img, script, iframe)").count()


@pytest.mark.parametrize("place", ["what-it-computes", "main-content", "no-such-place"])
def test_an_address_inside_the_page_is_not_read_as_settings(place, open_bench):
    page = open_bench(f"#{place}")
    assert page.get_by_role("status").text_content() == ""
    assert page.evaluate("location.hash") == f"#{place}"


def test_an_address_that_is_typed_is_followed_and_reset_forgets_it(open_bench):
    page = open_bench()
    first = shown_state(page)
    page.evaluate("location.hash = 'score=distance&query=-1,1'")
    page.wait_for_function(
        "document.querySelector('[name=score]').value === 'distance'"
    )
    assert position(page, "Query") == [-1, 1]
    page.get_by_role("button", name="Reset").click()
    assert shown_state(page) == first
    page.wait_for_function("location.hash === ''")


def test_the_link_is_copied_with_what_was_just_changed(open_bench):
    page = open_bench()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_label("Score", exact=True).select_option("cosine")
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_function(
        "document.querySelector('.bench [role=status]').textContent.includes('copied')"
    )
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.evaluate("location.href")
    assert copied.endswith("#score=cosine")


def test_where_copying_is_forbidden_the_address_bar_is_named(open_bench):
    page = open_bench()
    page.evaluate(
        "() => { navigator.clipboard.writeText = () => Promise.reject(new Error()) }"
    )
    page.get_by_role("button", name="Copy link").click()
    page.wait_for_function(
        "document.querySelector('.bench [role=status]').textContent.includes('address bar')"
    )


@pytest.mark.parametrize(
    ("screen", "most"), [(DESKTOP, 420), (PHONE, 720)], ids=["desktop", "phone"]
)
def test_the_controls_and_the_weights_are_on_one_screen(screen, most, open_bench):
    page = open_bench(viewport=screen)
    for example in EXAMPLES:
        page.locator(f'[data-example="{example}"]').click()
        (controls,) = boxes(page.locator(".bench-controls"))
        (weights,) = boxes(page.locator(".bench .weights"))
        assert 0 < weights["bottom"] - controls["top"] < most


def test_a_name_in_the_plane_covers_no_number_of_the_axes(open_bench):
    page = open_bench()
    for example in EXAMPLES:
        page.locator(f'[data-example="{example}"]').click()
        names, ticks = (
            boxes(page.locator(f".bench .plane {part} text"))
            for part in (".labels", ".axes")
        )
        for name, tick in itertools.product(names, ticks):
            apart = [
                name["right"] <= tick["left"] + PIXEL,
                tick["right"] <= name["left"] + PIXEL,
                name["bottom"] <= tick["top"] + PIXEL,
                tick["bottom"] <= name["top"] + PIXEL,
            ]
            assert any(apart)


@pytest.mark.parametrize(
    ("screen", "scheme"),
    [
        (DESKTOP, "light"),
        (PHONE, "dark"),
        pytest.param(DESKTOP, "dark", marks=pytest.mark.slow),
        pytest.param(PHONE, "light", marks=pytest.mark.slow),
    ],
)
def test_axe_finds_nothing_and_nothing_sticks_out(screen, scheme, open_bench):
    page = open_bench(viewport=screen, color_scheme=scheme)
    page.get_by_text("All numbers", exact=True).click()
    addresses = [*EXAMPLES, "mask=causal&window=local&position=1&score=additive"]
    for address in addresses:
        if address in EXAMPLES:
            page.locator(f'[data-example="{address}"]').click()
        else:
            page.evaluate("address => { location.hash = address }", address)
        assert page.evaluate("document.documentElement.scrollWidth") <= screen["width"]
        assert not violations(page), address


def violations(page):
    options = {"resultTypes": ["violations"], "preload": False}
    found = Axe().run(page, context="article", options=options)
    return [
        (one["id"], [node["html"] for node in one["nodes"]])
        for one in found.response["violations"]
    ]


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_without_scripts_there_are_still_pictures(screen, open_bench):
    page = open_bench(viewport=screen, java_script_enabled=False)
    assert page.locator(".bench").count() == 0
    figures = page.locator("article figure")
    assert figures.count() == len(EXAMPLES)
    for figure in figures.all():
        picture = figure.locator("img")
        picture.scroll_into_view_if_needed()
        box = picture.bounding_box()
        assert 300 < box["width"] <= screen["width"]
        assert len(picture.get_attribute("alt")) > 80
        assert figure.locator("figcaption").is_visible()


def test_the_still_pictures_are_drawn_by_the_scripts_as_they_are(browser):
    page = browser.new_page()
    drawn = pictures(page)
    page.close()
    assert sorted(drawn) == sorted(path.stem for path in FOLDER.glob("*.svg"))
    for name, svg in drawn.items():
        path = FOLDER / f"{name}.svg"
        assert path.read_text("utf-8") == svg, "run book/tools/bench_pictures.py"
        assert "var(" not in svg
        assert "script" not in svg


def test_only_its_page_loads_the_bench(html):
    with_scripts = {
        path.name
        for path in html.glob("book/*.html")
        if "bench/bench.js" in path.read_text("utf-8")
    }
    assert with_scripts == {"bench.html"}


@pytest.mark.parametrize(
    ("body", "loads"),
    [
        ('<figure class="bench-figure align-default" id="bench">', True),
        ('<div class="cell tag_bench-figure docutils">', True),
        ("<p>A figure of the class bench-figure is live.</p>", False),
        ('<figure class="workbench-figures">', False),
        ('<img alt="bench-figure" src="a.svg">', False),
    ],
)
def test_a_page_that_only_mentions_a_live_figure_loads_nothing(body, loads):
    app = Mock()
    live_pages.add_files(app, "page", "page.html", {"body": body}, None)
    assert bool(app.add_js_file.called) is loads
