"""Four memories of facts: the page computes and shows what PyTorch computes."""

import random
import re
from functools import partial

import pytest
import torch
from torch.nn.functional import normalize

from attention_course.diagrams.bounded_memory import states
from companion import attention
from tests.conftest import ROOT

CITIES = ("Rome", "Oslo", "Lima", "Cairo")
PRESS = """names => names.forEach(name => [...document.querySelectorAll('.memory button')]
    .find(one => one.textContent === name).click())"""
KEYS = torch.eye(8, 4).double()
KEYS[4:] = torch.tensor([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])
KEYS[4:] /= 2
NAMES = ("linear", "decay", "delta", "softmax")
# What is read after each write, and the last states.
PLAY = """all => all.map(([decay, queries, keys, values]) => {
    const facts = keys.map((k, j) => ({ k, v: values[j] }));
    const size = { rows: keys[0].length, columns: values[0].length, decay };
    const after = (name, i) => Memories.remember(name, facts.slice(0, i + 1), size).S;
    return Object.fromEntries([...["linear", "decay", "delta"].map(name => [name, {
        contexts: queries.map((q, i) => Memories.read(q, after(name, i))),
        S: after(name, facts.length),
    }]), ["softmax", {
        contexts: queries.map((q, i) => Memories.attend(q, facts.slice(0, i + 1)).context),
    }]]);
})"""
# A number of each cell: of the bars, and of the state or the list.
SHOWN = """part => [...document.querySelectorAll('.memory-card')].map(card =>
    [...card.querySelectorAll(part)].map(row => [...row.querySelectorAll('td')].map(
        cell => Number(cell.textContent.replace('−', '-')))))"""


@pytest.fixture
def memory(visit_live):
    return visit_live("13_bounded_memory", "live-memory", reduced_motion="reduce")


def expected(decay, query, key, value):
    """The contexts of all four, and the states of three, by the package."""
    log_decay = torch.full(key.shape[:1], decay, dtype=torch.float64).log()
    sums = attention.parallel_decay_attention(query, key, value, 0 * key[:, 0])
    S = attention.recurrent_linear_attention(key, key, value)[1]
    softmax = attention.LinearBias(0.5, causal=True)
    sharp = 24 * key.shape[-1] ** 0.5 * query
    found = {
        "linear": (sums, S),
        "decay": attention.recurrent_decay_attention(query, key, value, log_decay),
        "delta": attention.recurrent_delta_rule(
            query, key, value, torch.ones_like(key[:, 0])
        ),
        "softmax": (softmax(sharp[None], key[None], value[None])[0], None),
    }
    assert tuple(found) == NAMES
    return found


def test_writes_and_reads_are_those_of_the_package(memory):
    generator, stories = random.Random(0), []
    torch.manual_seed(0)
    for _ in range(300):
        n, rows, columns = (generator.randint(1, most) for most in (16, 6, 5))
        query, key = normalize(torch.randn(2, n, rows).double(), dim=-1)
        for j in range(1, n, 3):  # which writes over
            key[j] = key[generator.randrange(j)]
        decay = generator.choice((0.0, 1.0, generator.random()))
        stories.append((decay, query, key, torch.randn(n, columns).double()))
    asked = [[decay, *(x.tolist() for x in rest)] for decay, *rest in stories]
    for story, found in zip(stories, memory.evaluate(PLAY, asked), strict=True):
        for name, (contexts, S) in expected(*story).items():
            pairs = [(contexts, "contexts"), (S, "S")][: 1 + (S is not None)]
            for wanted, what in pairs:
                page = torch.tensor(found[name][what], dtype=torch.float64)
                torch.testing.assert_close(page, wanted, atol=1e-12, rtol=1e-10)


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def tally(page):
    """About how many people each memory is right, and how many it was told of."""
    said = page.locator(".memory-card .play-hint").all_inner_texts()
    return [tuple(map(int, re.findall(r"(\d+) of (\d+)", line)[0])) for line in said]


def test_it_begins_where_the_still_picture_ends(memory):
    shown = memory.evaluate(SHOWN, ".memory-state tr")
    for name, rows in zip(("add", "forget", "replace"), shown, strict=False):
        assert [row[:3] for row in rows[:2]] == states(name)[-1].tolist()
    verdicts = memory.locator(".memory-verdict").all_inner_texts()
    assert verdicts == ["Rome or Lima ✗", "Lima ✓", "Lima ✓", "Lima ✓"]
    written = memory.evaluate(SHOWN, "tbody:not([class]) tr:last-child")
    assert [written[0], written[2]] == [[[0, 0, 1, 0]], [[-1, 0, 1, 0]]]


def test_what_the_chapter_says_of_the_examples(memory):
    press(memory, "Everybody moves")
    assert tally(memory) == [(0, 4), (4, 4), (4, 4), (4, 4)]
    press(memory, "Eight people")
    assert tally(memory) == [(6, 8), (5, 8), (4, 8), (8, 8)]
    for person in ("Eva", "Finn", "Gus", "Hana"):  # the last four are kept exactly
        press(memory, person)
        (bars,) = memory.evaluate(SHOWN, ".memory-answer")[2]
        assert sorted(bars) == [0, 0, 0, 1]
    text = (ROOT / "book" / "13_bounded_memory.md").read_text("utf-8")
    assert "adding answers six, forgetting five and replacing four" in text


def test_whatever_is_pressed_the_page_shows_what_the_package_computes(memory):
    generator = random.Random(1)
    people = memory.get_by_role("group", name="Where is").get_by_role("button")
    people = people.all_inner_texts()
    press(memory, "Empty")
    assert tally(memory) == [(0, 0)] * 4
    memory.evaluate(PRESS, ["Undo"])
    for _ in range(6):
        pressed = generator.choices((*people, *CITIES, *CITIES, "Undo"), k=25)
        memory.evaluate(PRESS, pressed)
        decay = generator.choice((0, 0.35, 1))
        memory.get_by_role("slider").fill(str(decay))
        told = memory.locator(".memory-story > *").all_inner_texts()
        assert len(told) <= 16
        who, where = zip(*(fact.split("\u00a0") for fact in told), strict=True)
        asked = memory.locator(".memory [aria-pressed=true]").inner_text()
        key = KEYS[[people.index(name) for name in who]]
        value = torch.eye(4).double()[[CITIES.index(city) for city in where]]
        query = KEYS[people.index(asked)].expand_as(key)
        bars = memory.evaluate(SHOWN, ".memory-answer")
        kept = memory.evaluate(SHOWN, ".memory-state tr")
        for i, (contexts, S) in enumerate(expected(decay, query, key, value).values()):
            close = partial(torch.testing.assert_close, atol=0.0051, rtol=0)
            close(torch.tensor(bars[i][0]).double(), contexts[-1])
            if S is not None:
                close(torch.tensor(kept[i]).double(), S)


def test_one_can_do_all_with_the_keyboard(memory):
    memory.get_by_role("button", name="Ben", exact=True).focus()
    memory.keyboard.press("Space")
    for _ in range(9):
        memory.keyboard.press("Tab")
    memory.keyboard.press("Enter")
    assert memory.locator(".memory-story b").all_inner_texts()[-1] == "Ben\u00a0Lima"
    memory.get_by_role("slider").press("End")
    assert memory.locator(".memory-verdict").nth(1).inner_text() == "Oslo or Lima ✗"
    durations = "all => all.map(one => getComputedStyle(one).transitionDuration)"
    assert set(memory.locator(".memory td").evaluate_all(durations)) == {"0s"}
