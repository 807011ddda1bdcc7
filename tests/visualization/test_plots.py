import io
import itertools
import re
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from matplotlib.font_manager import findfont, get_font
from matplotlib.text import Text

from companion.visualization import (
    curves,
    explore,
    heatmap,
    heatmaps,
    learning_curves,
    set_style,
    text_heatmap,
    tree,
)
from companion.visualization.alignments import (
    to_array,
    visible,
    weight_matrices,
    weight_matrix,
    width,
)
from companion.visualization.style import MODELS, STYLE

QUERIES = ["quatre", "vingt", "dix"]
KEYS = ["ninety", "<eos>"]


@pytest.fixture(autouse=True)
def _clean_slate():
    with mpl.rc_context({"backend": "agg"}):
        yield
        plt.close("all")


@pytest.fixture
def weights():
    return torch.tensor([[1.0, 0.0], [0.75, 0.25], [0.0, 0.0]])


def png(figure):
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def labels(ticks):
    return [tick.get_text() for tick in ticks]


def test_heatmap_has_one_row_per_query_and_one_column_per_key_on_a_fixed_scale(weights):
    ax = heatmap(weights, QUERIES, KEYS, title="an alignment")
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array(), weights.numpy())
    assert image.get_clim() == (0, 1)
    assert labels(ax.get_yticklabels()) == QUERIES
    assert labels(ax.get_xticklabels()) == KEYS
    assert ax.get_title() == "an alignment"


def test_heatmap_puts_keys_on_top_and_the_first_query_first(weights):
    ax = heatmap(weights, QUERIES, KEYS)
    ax.figure.canvas.draw()
    key, first, last = (
        ax.get_xticklabels()[0],
        ax.get_yticklabels()[0],
        ax.get_yticklabels()[-1],
    )
    assert key.get_window_extent().y0 >= ax.get_window_extent().y1
    assert first.get_window_extent().y0 > last.get_window_extent().y1


def test_heatmap_uses_the_given_axes(weights):
    _, axes = plt.subplots(1, 2)
    assert heatmap(weights, QUERIES, KEYS, ax=axes[1]) is axes[1]
    assert len(plt.get_fignums()) == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_heatmap_takes_any_precision_and_gradients(weights, dtype):
    ax = heatmap(weights.to(dtype).requires_grad_(), QUERIES, KEYS)
    np.testing.assert_array_equal(ax.images[0].get_array(), weights.numpy())


def test_heatmap_takes_an_array(weights):
    np.testing.assert_array_equal(
        heatmap(weights.numpy(), QUERIES, KEYS).images[0].get_array(), weights
    )


@pytest.mark.usefixtures("unchecked")
def test_tokens_that_are_not_strings_are_refused_with_the_name_of_the_map(weights):
    with pytest.raises(TypeError, match="tokens must be strings, but 7 is of type int"):
        weight_matrix(weights, QUERIES, ["ninety", 7])
    with pytest.raises(TypeError, match="map 'second': "):
        weight_matrices(
            {"first": (weights, QUERIES, KEYS), "second": (weights, QUERIES, [1, 2])}
        )


@pytest.mark.parametrize("values", [["a", "b"], [[1.0], [1.0, 2.0]], {1.0: 2.0}])
def test_values_that_are_no_numbers_are_refused(values):
    with pytest.raises(
        TypeError,
        match="the values of model 'a' must be numbers, in a tensor, an array or",
    ):
        to_array(values, "the values of model 'a'")


COMPLEX = torch.tensor([[0.5 + 0.5j, 0.5]])


@pytest.mark.parametrize(
    "values", [COMPLEX, COMPLEX.conj(), COMPLEX.numpy(), [list(COMPLEX[0])], [[0.5j]]]
)
def test_complex_numbers_are_refused(values):
    with pytest.raises(
        TypeError, match=r"weights must be numbers, .*: they are complex"
    ):
        to_array(values, "weights")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "plot",
    [
        lambda: heatmap(COMPLEX, ["a"], KEYS),
        lambda: explore(COMPLEX, ["a"], KEYS),
        lambda: curves([1, 2], {"a": COMPLEX}, "x", "y"),
        lambda: text_heatmap([KEYS], COMPLEX, torch.ones(1)),
        lambda: tree({("a",): 1j}, []),
    ],
)
def test_every_plot_refuses_complex_numbers(plot):
    with pytest.raises(TypeError, match="complex"):
        plot()
    assert not plt.get_fignums()


@pytest.mark.cuda
def test_heatmap_takes_weights_on_a_gpu(weights):
    assert heatmap(weights.cuda(), QUERIES, KEYS).images


def test_tokens_appear_literally(weights):
    ax = heatmap(weights, ["$x$", "a b", ""], ["$", "_"])
    png(ax.figure)
    assert labels(ax.get_yticklabels()) == ["$x$", "a␣b", "∅"]


@pytest.mark.parametrize("shape", [(2, 3), (3, 2, 1), (3,), (1, 3, 2)])
def test_weights_that_do_not_fit_their_tokens_are_refused_with_the_numbers(shape):
    with pytest.raises(
        ValueError, match=r"do not fit 3 query tokens and 2 key tokens"
    ) as error:
        weight_matrix(torch.zeros(shape), QUERIES, KEYS)
    assert str(shape) in str(error.value)


def test_no_tokens_are_refused():
    with pytest.raises(ValueError, match=r"\(0, 0\) do not fit 0 query tokens"):
        heatmap(torch.zeros(0, 0), [], [])


@pytest.mark.parametrize("value", [1.5, -0.5, torch.nan])
def test_a_value_that_is_no_weight_is_refused_with_its_position(weights, value):
    weights[1, 0] = value
    with pytest.raises(
        ValueError,
        match=rf"1 of these 6 do not; the first is {value} in row 1, column 0",
    ):
        heatmap(weights, QUERIES, KEYS)


def test_heatmaps_have_one_scale_and_style_and_no_empty_axes(weights):
    maps = dict.fromkeys("abc", (weights, QUERIES, KEYS)) | {
        "d": (weights[:1], QUERIES[:1], KEYS)
    }
    figure = heatmaps(maps, columns=3)
    pictures = [ax for ax in figure.axes if ax.get_title()]
    assert [ax.get_title() for ax in pictures] == list("abcd")
    assert {ax.images[0].get_clim() for ax in pictures} == {(0, 1)}
    assert len(figure.axes) == len(pictures) + 1  # and the colour bar


def test_heatmaps_name_the_map_that_is_invalid(weights):
    with pytest.raises(
        ValueError, match=r"map 'second': weights of shape \(3, 2\) do not fit 2 query"
    ):
        heatmaps(
            {"first": (weights, QUERIES, KEYS), "second": (weights, QUERIES[:2], KEYS)}
        )
    with pytest.raises(ValueError, match="there is no map to show"):
        heatmaps({})
    with pytest.raises(ValueError, match="columns must be at least 1, not 0"):
        heatmaps({"first": (weights, QUERIES, KEYS)}, columns=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("columns", ["3", None, 2.5, np.nan, 1e15])
def test_a_number_of_columns_that_is_no_integer_is_refused(weights, columns):
    with pytest.raises(TypeError, match=f"columns must be an integer, not {columns!r}"):
        heatmaps({"first": (weights, QUERIES, KEYS)}, columns=columns)


def test_curves_show_the_mean_and_the_range_of_all_seeds():
    ax = curves(
        ["1–4", "5–8"],
        {"with": [[0.9, 0.8], [0.7, 0.6]], "without": [0.5, 0.1]},
        "length",
        "match",
    )
    first, second = ax.lines
    np.testing.assert_allclose(first.get_ydata(), [0.8, 0.7])
    np.testing.assert_allclose(second.get_ydata(), [0.5, 0.1])
    (band,) = ax.collections
    assert band.get_datalim(ax.transData).y0 == pytest.approx(0.6)
    assert band.get_datalim(ax.transData).y1 == pytest.approx(0.9)
    assert labels(ax.texts) == ["with", "without"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", "match")


@pytest.mark.parametrize("scale", ["linear", "log"])
def test_names_stand_at_the_ends_of_curves_and_do_not_touch(scale):
    ends = {"low": 0.1, "high": 0.9, "also\nhigh": 0.9, "highest": 0.91, "lost": np.nan}
    if scale == "linear":
        ax = curves([1, 2], {name: [1, end] for name, end in ends.items()}, "x", "y")
    else:
        ax = learning_curves({name: history(1.0, end) for name, end in ends.items()})
    ax.figure.canvas.draw()
    boxes = [note.get_window_extent() for note in ax.texts]
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)
    assert all(box.x0 >= ax.get_window_extent().x1 for box in boxes)
    middle = dict(
        zip(labels(ax.texts), ((box.y0 + box.y1) / 2 for box in boxes), strict=True)
    )
    assert middle["low"] < min(middle["high"], middle["also high"]) < middle["highest"]
    (_, low) = ax.transData.transform((2, 0.1))
    assert middle["low"] == pytest.approx(low, abs=15)


def test_the_limits_of_the_y_axis_are_set_before_names_are_placed():
    ax = curves([1, 2], {"a": [0.2, 0.5]}, "x", "y", ylim=(0, 1))
    assert ax.get_ylim() == (0, 1)
    assert ax.texts[0].xy == (1, 0.5)


def test_a_model_looks_the_same_in_all_figures():
    both = curves([1, 2], {"other": [1, 2], "Bahdanau": [2, 3]}, "x", "y").lines
    alone = curves([1, 2], {"Bahdanau": [2, 3], "third": [1, 2]}, "x", "y").lines
    assert both[1].get_color() == alone[0].get_color() == MODELS["Bahdanau"]["color"]
    assert both[1].get_marker() == alone[0].get_marker()
    of_models = {style["color"] for style in MODELS.values()}
    assert both[0].get_color() == alone[1].get_color() not in of_models


def test_seven_curves_differ_in_colour_marker_and_line_style():
    ax = curves(
        [1.0, 2.0],
        {str(number): torch.tensor([0.0, number]) for number in range(7)},
        "x",
        "y",
    )
    for style in ("get_color", "get_marker"):
        assert len({getattr(line, style)() for line in ax.lines}) == 7
    assert len({repr(line._unscaled_dash_pattern) for line in ax.lines}) == 7


def test_curves_take_lists_of_tensors_that_need_gradients_and_arrays():
    losses = [torch.tensor(loss, requires_grad=True) for loss in (0.9, 0.8)]
    seeds = [torch.stack(losses), torch.stack(losses) + 0.1]
    ax = curves(
        [1, 2],
        {"one": losses, "seeds": seeds, "array": np.array([0.9, 0.8])},
        "step",
        "loss",
    )
    for line, expected in zip(
        ax.lines, ([0.9, 0.8], [0.95, 0.85], [0.9, 0.8]), strict=True
    ):
        np.testing.assert_allclose(line.get_ydata(), expected)


def test_curves_that_do_not_fit_are_refused_with_the_numbers():
    with pytest.raises(
        ValueError, match=r"model 'long' has values of shape \(1, 3\) for 2 points"
    ):
        curves([1.0, 2.0], {"good": [1.0, 2.0], "long": [1.0, 2.0, 3.0]}, "x", "y")
    with pytest.raises(ValueError, match="there is no curve to plot"):
        curves([1.0, 2.0], {}, "x", "y")
    assert not plt.get_fignums(), "a refused figure was left open"


def history(*losses, every=50):
    return [
        {"step": every * (number + 1), "held_out_loss": loss}
        for number, loss in enumerate(losses)
    ]


def test_learning_curves_have_the_steps_of_each_model_and_the_mean_of_its_seeds():
    ax = learning_curves(
        {
            "long": history(3.0, 1.0, 0.5),
            "seeds": [history(2.0, 1.0), history(4.0, 2.0)],
        }
    )
    long, seeds = ax.lines
    assert long.get_xdata().tolist() == [50, 100, 150]
    assert seeds.get_xdata().tolist() == [50, 100]
    np.testing.assert_allclose(seeds.get_ydata(), [3.0, 1.5])
    assert len(ax.collections) == 1  # the band of the seeds
    assert (ax.get_xlabel(), ax.get_ylabel()) == (
        "training steps",
        "validation loss per token",
    )
    assert ax.get_yscale() == "log"


def test_learning_curves_without_a_record_or_of_unequal_seeds_are_refused():
    for nothing in (
        {},
        {"a": []},
        {"a": [[], history(1.0)]},
        {"a": [history(1.0), []]},
    ):
        with pytest.raises(ValueError, match="there is no learning curve to plot"):
            learning_curves(nothing)
    for other in (history(1.0), history(1.0, 2.0, every=40)):
        steps = [record["step"] for record in other]
        message = (
            rf"seeds of model 'a' .* steps: \[50, 100\] and {re.escape(str(steps))}"
        )
        with pytest.raises(ValueError, match=message):
            learning_curves({"a": [history(1.0, 2.0), other]})
    assert not plt.get_fignums(), "a refused figure was left open"


SEARCH = {"S": 1, "SA": 0.6, "SB": 0.4, "SAC": 0.3, "SAD": 0.18, "SBE": 0.28}
SEARCH = {tuple(node): probability for node, probability in SEARCH.items()}
KEPT = [("S",), ("S", "A"), ("S", "B")]


def test_a_tree_grows_to_the_right_with_each_prefix_halfway_between_its_children():
    positions = dict(
        zip(
            SEARCH,
            [text.get_position() for text in tree(SEARCH, KEPT).texts],
            strict=True,
        )
    )
    assert [x for x, _ in positions.values()] == [0, 1, 1, 2, 2, 2]
    heights = {"".join(node): y for node, (_, y) in positions.items()}
    assert heights["SAC"] > heights["SAD"] > heights["SBE"]
    assert heights["SA"] == (heights["SAC"] + heights["SAD"]) / 2
    assert heights["SB"] == heights["SBE"]
    assert heights["S"] == (heights["SA"] + heights["SB"]) / 2


def test_the_leaves_of_a_tree_are_sorted_by_their_parents():
    mixed = {tuple(node): 0.5 for node in ("S", "SB", "SA", "SAC", "SBE", "SAD")}
    texts = sorted(
        tree(mixed, []).texts,
        key=lambda text: (text.get_position()[0], -text.get_position()[1]),
    )
    assert [text.get_text()[0] for text in texts] == list("SBAECD")


def test_a_tree_shows_its_probabilities_and_the_kept_prefixes():
    ax = tree(SEARCH | {("S", "$B$"): torch.tensor(0.125)}, KEPT)
    assert labels(ax.texts) == [
        "S\n1",
        "A\n0.6",
        "B\n0.4",
        "C\n0.3",
        "D\n0.18",
        "E\n0.28",
        "$B$\n0.125",
    ]
    blue = [
        text.get_bbox_patch().get_facecolor() == mpl.colors.to_rgba("#0072B2")
        for text in ax.texts
    ]
    assert blue == [True] * 3 + [False] * 4
    assert [line.get_linestyle() for line in ax.lines] == ["-"] * 3 + [":"] * 4
    png(ax.figure)


@pytest.mark.parametrize(
    ("probabilities", "kept", "wrong"),
    [
        ({}, [], "not \\[\\]"),
        ({("S",): 1, ("T",): 1}, [], "'S',.*'T',"),
        ({("S",): 1, ("S", "A", "C"): 0.3}, [], "unlike .*'S', 'A', 'C'"),
        ({("S",): 1, (): 1}, [], "unlike .*\\(\\)"),
        (SEARCH, [("S", "X")], "unlike .*'S', 'X'"),
    ],
)
def test_prefixes_that_form_no_tree_are_refused_and_named(probabilities, kept, wrong):
    with pytest.raises(ValueError, match=wrong):
        tree(probabilities, kept)
    assert not plt.get_fignums(), "a refused figure was left open"


@pytest.mark.usefixtures("unchecked")
def test_probabilities_of_a_tree_that_are_no_numbers_are_refused():
    with pytest.raises(TypeError, match="the probabilities of a tree must be numbers"):
        tree({("S",): "one"}, [])


def test_figures_are_white_with_any_settings_and_leave_these_unchanged(weights):
    with mpl.rc_context({"figure.facecolor": "black", "font.size": 40}):
        figure = heatmap(weights, QUERIES, KEYS).figure
        assert mpl.rcParams["font.size"] == 40
    assert mpl.colors.to_hex(figure.get_facecolor()) == "#ffffff"


def plots(weights):
    yield heatmap(weights, QUERIES, KEYS, title="a title").figure
    yield heatmaps({"one": (weights, QUERIES, KEYS)})
    yield curves([1, 2], {"a": [1, 2], "b": [2, 1]}, "x", "y").figure
    yield learning_curves({"a": history(3.0, 1.0, 0.5)}).figure
    yield text_heatmap([QUERIES[:2]], weights[1:2], torch.ones(1), "a title").figure
    yield tree(SEARCH, KEPT).figure


def pixels(figure):
    figure.canvas.draw()
    return np.array(figure.canvas.buffer_rgba())


def test_figures_are_the_same_in_a_dark_style(weights):
    usual = map(pixels, plots(weights))
    with plt.style.context("dark_background"):
        dark = list(map(pixels, plots(weights)))
    for light, other in zip(usual, dark, strict=True):
        np.testing.assert_array_equal(light, other)


def test_set_style_is_for_figures_plotted_with_matplotlib_alone():
    with mpl.rc_context():
        set_style()
        figure, _ = plt.subplots()
    assert tuple(figure.get_size_inches()) == STYLE["figure.figsize"]


def test_text_is_ten_pixels_high_on_a_telephone():
    ax = curves([1.0, 2.0], {"a": [1, 2]}, "x", "y")
    inches = ax.figure.get_size_inches()[0]
    assert ax.xaxis.label.get_fontsize() / 72 / inches * 360 >= 9.9


def test_figures_are_reproducible_to_the_byte(weights):
    first, second = (png(heatmap(weights, QUERIES, KEYS).figure) for _ in range(2))
    assert first == second
    weights[0] = torch.tensor([0.5, 0.5])
    assert png(heatmap(weights, QUERIES, KEYS).figure) != first


def test_long_sentences_are_plotted_without_a_warning():
    queries = list("siebenundneunzigtausendzweihundertvierzig")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        png(heatmap(torch.zeros(len(queries), 12), queries, ["seventeen"] * 12).figure)


def test_blanks_become_visible():
    assert [visible(token) for token in ("a", " ", "", "\t\n")] == ["a", "␣", "∅", "␣␣"]


# Text that matplotlib would misread

DOLLARS = ["$$", "$x$", "a $ b", "$\\nonsense$", "\\$"]


@pytest.mark.parametrize("text", DOLLARS)
def test_dollar_signs_in_titles_names_and_labels_are_no_formulas(weights, text):
    ax = heatmap(weights, QUERIES, KEYS, title=text)
    assert ax.get_title() == text
    png(ax.figure)
    png(heatmaps({text: (weights, QUERIES, KEYS)}))
    ax = curves([1, 2], {text: [1.0, 2.0]}, text, text)
    png(ax.figure)
    assert labels(ax.texts) == [text]
    png(learning_curves({text: history(2.0, 1.0)}, text).figure)


def test_lone_surrogates_are_replaced(weights):
    lone, shown = "a\ud83d", "a\N{REPLACEMENT CHARACTER}"
    ax = heatmap(weights, [lone] * 3, [lone] * 2, title=lone)
    assert ax.get_title() == shown
    assert labels(ax.get_xticklabels()) == [shown] * 2
    png(ax.figure)
    png(heatmaps({lone: (weights, QUERIES, KEYS)}))
    ax = curves([1, 2], {lone: [1.0, 2.0]}, lone, lone)
    assert labels(ax.texts) == [shown]
    png(ax.figure)
    png(tree({(lone,): 1.0}, []).figure)


@pytest.mark.usefixtures("unchecked")
def test_names_that_are_numbers_are_shown(weights):
    ax = curves([1, 2], {16: [1.0, 2.0]}, "x", "y")
    assert labels(ax.texts) == ["16"]
    assert heatmaps({16: (weights, QUERIES, KEYS)}).axes[0].get_title() == "16"


@pytest.mark.parametrize("name", ["_x", "__init__", "_", ""])
def test_every_name_is_shown(name):
    ax = curves([1, 2], {name: [1.0, 2.0], "other": [2.0, 1.0]}, "x", "y")
    assert labels(ax.texts) == [name, "other"]
    png(ax.figure)


# Other scripts

SHIPPED = "STIXGeneral"  # of matplotlib, so that every machine has it


def characters(family):
    return get_font(findfont(family, fallback_to_default=False)).get_charmap()


def written(figure):
    """All texts of a figure that have a word, even if it is no label of an axis."""
    texts = figure.findobj(Text)
    return [text for text in texts if re.search(r"[^\W\d]", text.get_text())]


def test_what_the_style_cannot_write_is_written_in_the_families_of_the_reader(weights):
    with mpl.rc_context({"font.family": [SHIPPED, "monospace"]}):
        figures = list(plots(weights))
    for figure in figures:
        assert written(figure)
        for text in written(figure):
            first, *others = text.get_fontfamily()
            assert first in ("DejaVu Sans", "DejaVu Sans Mono")
            assert others[-2:] == [SHIPPED, "monospace"]


def test_a_character_that_only_the_family_of_the_reader_has_is_no_box(weights):
    missing = sorted(characters(SHIPPED).keys() - characters("DejaVu Sans"))
    token = chr(missing[0])
    figure = heatmap(weights, QUERIES, [token, "b"]).figure
    with pytest.warns(UserWarning, match="missing from font"):
        png(figure)
    with mpl.rc_context({"font.family": SHIPPED}), warnings.catch_warnings():
        warnings.simplefilter("error")
        png(heatmap(weights, QUERIES, [token, "b"]).figure)


def test_set_style_keeps_the_families_of_the_reader():
    with mpl.rc_context({"font.family": [SHIPPED]}):
        for _ in range(2):
            set_style()
            assert mpl.rcParams["font.family"] == ["DejaVu Sans", SHIPPED]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("naïve", 5),
        ("nai\u0308ve", 5),
        ("中文", 4),
        ("ＡＢ", 4),
        ("हिन्दी", 5),  # its two vowel signs take space, its virama takes none
        ("שָׁלוֹם", 4),
        ("สวัสดี", 4),
        ("한글", 4),
        ("\u1112\u1161\u11ab", 2),  # 한 in parts
        ("a\u200db", 2),
        ("a\ud83d", 2),
    ],
)
def test_the_width_of_a_text_is_that_on_a_screen(text, columns):
    assert width(text) == columns


def test_wide_tokens_have_space_and_marks_take_none(weights):
    def size(token):
        return heatmap(weights, [token] * 3, [token] * 2).figure.get_size_inches()

    np.testing.assert_array_equal(size("中文字"), size("abcdef"))
    np.testing.assert_array_equal(size("e\u0301" * 6), size("é" * 6))
    assert heatmap(weights, QUERIES, ["中文"] * 2).get_xticklabels()[0].get_rotation()


def test_names_of_curves_are_wrapped_by_their_width():
    names = [
        "中文中文 中文中文 中文",
        "e\u0301" * 8 + " abcdefg",
        "no\u00a0break  here too",
    ]
    ax = curves([1, 2], {name: [1.0, 2.0] for name in names}, "x", "y")
    assert labels(ax.texts) == [
        "中文中文\n中文中文 中文",
        names[1],
        "no\u00a0break  here\ntoo",
    ]


def test_in_a_notebook_figures_are_svg_whose_texts_are_texts(monkeypatch):
    interactiveshell = pytest.importorskip("IPython.core.interactiveshell")
    shell = interactiveshell.InteractiveShell.instance()
    monkeypatch.setattr(mpl, "get_backend", lambda **options: "inline")
    with mpl.rc_context():
        set_style()
        written = []
        for _ in range(2):
            figure = curves([1, 2], {"a name": [1, 2]}, "x", "y").figure
            written.append(shell.display_formatter.format(figure)[0])
    first, second = written
    assert ">a name</text>" in first["image/svg+xml"]
    assert "image/png" not in first
    assert first == second | {"text/plain": first["text/plain"]}
