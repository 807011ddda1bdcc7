import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.colors import to_rgb
from matplotlib.text import Text

from companion.visualization import text_heatmap
from companion.visualization.text import COLUMNS, DARKEST

SENTENCES = [["int", "optional"], ["it", "has", "$x$"]]
WORDS = torch.tensor([[0.1, 0.9, 0.0], [0.0, 0.5, 0.5]])
SENTENCE_WEIGHTS = torch.tensor([0.75, 0.25])


@pytest.fixture(autouse=True)
def _clean_slate():
    with mpl.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


def written(axes):
    """Each text with its position, and the colour behind it."""
    texts = [text for text in axes.texts if text.get_text()]
    boxes = {
        (round(box.get_x() + 0.3), round(box.get_y() + 0.45)): box
        for box in axes.patches
    }
    positions = [(text.get_text(), *text.get_position()) for text in texts]
    return [
        (word, x, y, to_rgb(boxes[x, y].get_facecolor()))
        for word, x, y in positions
        if (x, y) in boxes
    ]


def blue(weight):
    return to_rgb(mpl.colormaps["Blues"](DARKEST * weight))


def test_every_word_is_shaded_by_its_weight():
    found = {
        word: (x, y, color)
        for word, x, y, color in written(
            text_heatmap(SENTENCES, WORDS, SENTENCE_WEIGHTS)
        )
    }
    for line, (sentence, weights) in enumerate(
        zip(SENTENCES, WORDS.tolist(), strict=True)
    ):
        for word, weight in zip(sentence, weights, strict=False):
            assert found[word][1] == line
            assert found[word][2] == pytest.approx(blue(weight), abs=1e-6)
    assert [found[word][0] for word in ("it", "has", "$x$")] == [0, 3, 7]


def test_each_sentence_is_preceded_by_its_weight_in_percent():
    found = {
        word: (y, color)
        for word, _, y, color in written(
            text_heatmap(SENTENCES, WORDS, SENTENCE_WEIGHTS)
        )
    }
    assert found[" 75%"] == (0, to_rgb(mpl.colormaps["Oranges"](DARKEST * 0.75)))
    assert found[" 25%"] == (1, to_rgb(mpl.colormaps["Oranges"](DARKEST * 0.25)))


def test_words_are_legible_on_the_darkest_shade():
    axes = text_heatmap([["all"]], torch.ones(1, 1), torch.ones(1))
    assert [word for word, *_ in written(axes)] == ["100%", "all"]
    for word, *_, behind in written(axes):
        text = next(text for text in axes.texts if text.get_text() == word)
        assert contrast(to_rgb(text.get_color()), behind) > 4.5


def contrast(one, other):
    """The ratio of luminances by which WCAG measures legibility."""
    light = sorted(luminance(color) for color in (one, other))
    return (light[1] + 0.05) / (light[0] + 0.05)


def luminance(color):
    channels = np.array(color)
    linear = np.where(
        channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
    )
    return linear @ [0.2126, 0.7152, 0.0722]


def test_a_long_sentence_is_wrapped_and_every_word_lies_on_the_page():
    words = ["word"] * 30
    weights = torch.zeros(2, 30)
    weights[0], weights[1, 0] = 1 / 30, 1
    axes = text_heatmap([words, ["end"]], weights, SENTENCE_WEIGHTS)
    figure = axes.figure
    figure.canvas.draw()
    lines = [y for word, _, y, _ in written(axes) if word == "word"]
    assert len(lines) == 30
    assert sorted(set(lines)) == [0, 1, 2, 3]
    assert [y for word, _, y, _ in written(axes) if word == "end"] == [4]
    for text in filter(Text.get_text, axes.texts):
        box = text.get_window_extent()
        assert figure.bbox.padded(1).count_contains(box.corners()) == 4
        behind = [patch.get_window_extent().padded(1) for patch in axes.patches]
        assert any(shade.count_contains(box.corners()) == 4 for shade in behind)


def test_a_word_longer_than_a_line_gets_its_own_line_and_is_shortened():
    axes = text_heatmap(
        [["a", "b" * (COLUMNS + 1), "c"]], torch.full((1, 3), 1 / 3), torch.ones(1)
    )
    assert [(word, y) for word, _, y, _ in written(axes)][1:] == [
        ("a", 0),
        ("b" * (COLUMNS - 1) + "…", 1),
        ("c", 2),
    ]


def test_a_word_as_long_as_a_line_is_whole():
    axes = text_heatmap([["b" * COLUMNS]], torch.ones(1, 1), torch.ones(1))
    assert [word for word, *_ in written(axes)] == ["100%", "b" * COLUMNS]


def test_wide_words_are_placed_by_their_width_and_cut_before_a_mark():
    long, marked = "中" * 30, "e\u0301" * 50
    axes = text_heatmap([["中文", "b", long, marked]], torch.zeros(1, 4), torch.ones(1))
    assert [(word, x, y) for word, x, y, _ in written(axes)][1:] == [
        ("中文", 0, 0),
        ("b", 5, 0),
        ("中" * 19 + "…", 0, 1),
        ("e\u0301" * 39 + "…", 0, 2),
    ]
    assert [box.get_width() for box in axes.patches[1:]] == [4.6, 1.6, 39.6, 40.6]


def test_it_has_a_title_and_no_axes():
    axes = text_heatmap(SENTENCES, WORDS, SENTENCE_WEIGHTS, "numpy, taken for python")
    assert axes.texts[0].get_text() == "numpy, taken for python"
    assert not axes.axison


def test_padding_is_not_shown_and_must_have_no_weight():
    padded = torch.zeros(4, 5)
    padded[:2, :3] = WORDS
    padded_sentences = torch.cat([SENTENCE_WEIGHTS, torch.zeros(2)])
    assert written(text_heatmap(SENTENCES, padded, padded_sentences)) == written(
        text_heatmap(SENTENCES, WORDS, SENTENCE_WEIGHTS)
    )
    padded[3, 0] = 0.1
    with pytest.raises(ValueError, match="not 0 beyond the 2 sentences"):
        text_heatmap(SENTENCES, padded, padded_sentences)
    padded[3, 0], padded[0, 4] = 0, 0.1
    with pytest.raises(ValueError, match="sentence 0 are not 0 beyond its 2"):
        text_heatmap(SENTENCES, padded, padded_sentences)
    with pytest.raises(ValueError, match="weights of sentences are not 0 beyond its 1"):
        text_heatmap(SENTENCES[:1], WORDS, SENTENCE_WEIGHTS)


@pytest.mark.parametrize(
    ("sentences", "words", "weights", "message"),
    [
        (SENTENCES, WORDS[:, :2], SENTENCE_WEIGHTS, "3 key tokens"),
        (SENTENCES, WORDS[:1], SENTENCE_WEIGHTS[:1], "2 key tokens"),
        (SENTENCES, WORDS[:1], SENTENCE_WEIGHTS, "for 1 sentences, but 2 sentences"),
        (SENTENCES, 2 * WORDS, SENTENCE_WEIGHTS, "between 0 and 1"),
        ([], WORDS, 0 * SENTENCE_WEIGHTS, "at least one of each"),
        ([["int"], []], 0 * WORDS, SENTENCE_WEIGHTS, "at least one of each"),
    ],
)
def test_weights_that_do_not_fit_are_refused(sentences, words, weights, message):
    with pytest.raises(ValueError, match=message):
        text_heatmap(sentences, words, weights)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("words", "weights", "message"),
    [
        ([0.5], [1.0], r"of words must be 2-dimensional, not of shape \(1,\)"),
        (0.5, [1.0], r"of words must be 2-dimensional, not of shape \(\)"),
        ([[0.5]], 1.0, r"of sentences must be 1-dimensional, not of shape \(\)"),
        (
            [[0.5]],
            [[1.0]],
            r"of sentences must be 1-dimensional, not of shape \(1, 1\)",
        ),
        ([[[0.5]]], [1.0], r"of words must be 2-dimensional, not of shape \(1, 1, 1\)"),
    ],
)
def test_weights_of_other_dimensions_are_refused(words, weights, message):
    with pytest.raises(ValueError, match=message):
        text_heatmap([["a"]], words, weights)


def test_lone_surrogates_are_replaced_in_words_and_title():
    axes = text_heatmap([["a\ud83d"]], torch.ones(1, 1), torch.ones(1), "$$ \udc00")
    axes.figure.canvas.draw()
    assert axes.texts[0].get_text() == "$$ \N{REPLACEMENT CHARACTER}"
    assert [word for word, *_ in written(axes)][1] == "a\N{REPLACEMENT CHARACTER}"
