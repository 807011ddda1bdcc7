"""The chart of BLEU: its bars, the numbers beside them, and its description in words."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from bleu_chart import WIDEST, Scores, bleu_chart, caption

SVG = "{http://www.w3.org/2000/svg}"
MODELS = [
    Scores("LSTM", 13.76, [19.5], [20.5]),
    Scores("Luong <dot>", None, [37.6], [39.2]),
    Scores("Transformer", 36.52, [35.0, 36.0, 37.0], [37.0, 38.0, 39.0]),
]


@pytest.fixture
def chart():
    """The drawing as XML, which it is as well as HTML."""
    figure = ET.fromstring(bleu_chart(MODELS, "beam 5"))
    return figure.find(f"{SVG}svg")


def texts(chart):
    return [text.text.replace("\u00a0", " ") for text in chart.iter(f"{SVG}text")]


def test_each_model_has_a_bar_for_each_kind_of_score_as_long_as_it_is_high(chart):
    _, *keys = (rect for rect in chart.iter(f"{SVG}rect"))
    bars = [rect for rect in keys if rect.get("width").endswith("%")]
    assert [bar.get("class") for bar in bars] == [
        *("published", "greedy", "beam"),
        *("greedy", "beam"),
        *("published", "greedy", "beam"),
    ]
    widths = [float(bar.get("width").rstrip("%")) for bar in bars]
    scores = [13.76, 19.5, 20.5, 37.6, 39.2, 36.52, 36.0, 38.0]
    longest = 39.2
    assert widths == pytest.approx([s / longest * WIDEST for s in scores], abs=0.01)


def test_bars_do_not_overlap(chart):
    bars = [rect for rect in chart.iter(f"{SVG}rect") if rect.get("x") == "0"]
    tops = [int(bar.get("y")) for bar in bars]
    height = int(bars[0].get("height"))
    assert all(above + height < below for above, below in pairwise(tops))
    assert tops[-1] + height <= int(chart.get("height"))


def test_the_numbers_and_names_are_beside_the_bars(chart):
    assert texts(chart) == [
        *("published", "ours, greedy", "ours, beam 5"),
        *("LSTM", "13.8", "19.5", "20.5"),
        *("Luong <dot>", "37.6", "39.2"),
        *("Transformer", "36.5", "36.0 ± 1.0", "38.0 ± 1.0"),
    ]


def test_only_several_seeds_have_a_thin_line_of_one_standard_deviation(chart):
    lines = [
        tuple(float(line.get(end).rstrip("%")) * 39.2 / WIDEST for end in ("x1", "x2"))
        for line in chart.iter(f"{SVG}line")
    ]
    assert len(lines) == 2
    assert lines[0] == pytest.approx((35.0, 37.0), abs=0.01)
    assert lines[1] == pytest.approx((37.0, 39.0), abs=0.01)


def test_the_longest_bar_leaves_room_for_its_spread_and_number():
    spread = Scores("A", None, [10.0], [30.0, 50.0])
    chart = ET.fromstring(bleu_chart([spread], "beam 5"))
    (line,) = chart.iter(f"{SVG}line")
    assert line.get("x2") == f"{WIDEST:.2f}%"


def test_who_cannot_see_the_chart_hears_its_finding_and_numbers(chart):
    assert chart.get("role") == "img"
    assert chart.get("aria-label").replace("\u00a0", " ") == (
        "Bar chart of BLEU. By greedy search, ours is above the published figure for 1 of 2"
        " models (not for Transformer). LSTM: published 13.8, ours 19.5 greedy and 20.5"
        " with beam 5. Luong <dot>: ours 37.6 greedy and 39.2 with beam 5. Transformer:"
        " published 36.5, ours 36.0 ± 1.0 greedy and 38.0 ± 1.0 with beam 5."
    )


@pytest.mark.parametrize(
    ("models", "words"),
    [
        (MODELS[:1], "for 1 of 1 model."),
        (MODELS[1:2], "Nothing is published to compare ours with."),
        (
            [MODELS[2]._replace(name=name) for name in "ABC"],
            "for 0 of 3 models (not for A, B and C).",
        ),
    ],
)
def test_the_caption_says_what_the_figures_say(models, words):
    assert words in caption(models)


def test_the_caption_explains_the_thin_lines_where_there_are_any():
    assert "standard deviation" in caption(MODELS)
    assert "standard deviation" not in caption(MODELS[:2])


def test_no_attribute_has_a_capital_letter_that_the_epub_would_lose(chart):
    names = {name for part in chart.iter() for name in part.attrib}
    assert names
    assert all(name == name.lower() for name in names)


def test_scores_of_zero_are_drawn():
    chart = ET.fromstring(bleu_chart([Scores("A", None, [0.0], [0.0])], "beam 5"))
    assert [rect.get("width") for rect in chart.iter(f"{SVG}rect")][-2:] == [
        "0.00%"
    ] * 2
