import re
from html.parser import HTMLParser

import pytest
import torch

from companion.visualization import explore, explore_many

QUERIES = ["quatre", "vingt", "dix"]
KEYS = ["ninety", "<eos>"]
VOID = {"input", "br"}


class Page(HTMLParser):
    """The elements and texts of the page, as a browser reads it; unbalanced tags are an error."""

    def __init__(self, explorer):
        super().__init__()
        self.html = explorer._repr_html_()
        self.open, self.elements, self.texts = [], [], {}
        self.feed(self.html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.texts[len(self.elements) - 1] = ""
        if tag not in VOID:
            self.open.append((tag, len(self.elements) - 1))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        for _, number in self.open:
            self.texts[number] += data

    def every(self, tag):
        return [
            (attributes, self.texts[n])
            for n, (name, attributes) in enumerate(self.elements)
            if name == tag
        ]


@pytest.fixture
def weights():
    return torch.tensor([[0.996, 0.004], [0.75, 0.25], [0.0, 0.0]])


@pytest.fixture
def several(weights):
    return {
        "head 1": (weights, QUERIES, KEYS),
        "head 2": (weights[:2], QUERIES[:2], KEYS),
    }


def test_cells_contain_percent_shade_and_title_and_small_weights_are_blank(weights):
    cells = Page(explore(weights, QUERIES, KEYS)).every("td")
    assert [text for _, text in cells] == ["", "100", "", "75", "25", "", ""]
    assert cells[3][0] == {"style": "--w:75", "title": "vingt → ninety: 75 %"}


def test_headers_name_every_row_and_column(weights):
    headers = Page(explore(weights, QUERIES, KEYS)).every("th")
    assert [(attributes["scope"], text) for attributes, text in headers] == [
        ("col", "ninety"),
        ("col", "<eos>"),
        ("row", "quatre"),
        ("row", "vingt"),
        ("row", "dix"),
    ]


def test_every_button_has_a_label_and_every_map_a_name(several):
    page = Page(explore_many(several, title="Head"))
    assert len(page.every("label")) == len(page.every("input")) == 3 + 2
    assert all(text.strip() for _, text in page.every("label"))
    assert [text for _, text in page.every("summary")] == ["head 1", "head 2"]


def selected(explorer):
    """The names of the open maps, and the selected row of each map."""
    page = Page(explorer)
    inside = zip(page.every("details"), page.every("summary"), strict=True)
    names = [text for (attributes, _), (_, text) in inside if "open" in attributes]
    labels = zip(page.every("input"), page.every("label"), strict=True)
    rows = [text for (attributes, _), (_, text) in labels if "checked" in attributes]
    return names, rows


def test_at_first_the_most_spread_rows_are_selected(several):
    assert selected(explore_many(several)) == (["head 1"], ["vingt", "vingt"])
    assert selected(explore(torch.eye(2), KEYS, KEYS)) == ([], ["ninety"])
    uniform = torch.tensor([[0.9, 0.1, 0.0], [0.4, 0.3, 0.3], [0.5, 0.5, 0.0]])
    assert selected(explore(uniform, QUERIES, QUERIES)) == ([], ["vingt"])


def test_what_is_selected_at_first_can_be_chosen(several, weights):
    explorer = explore_many(several, first="head 2", row=0)
    assert selected(explorer) == (["head 2"], ["vingt", "quatre"])
    assert selected(explore(weights, QUERIES, KEYS, row=2)) == ([], ["dix"])


def test_weights_below_half_a_percent_count_for_the_most_spread_row():
    keys = ["word"] * 300
    rows = torch.stack([torch.eye(300)[0], torch.full((300,), 1 / 300)])
    assert selected(explore(rows, KEYS, keys)) == ([], ["<eos>"])


def test_of_rows_that_differ_by_rounding_errors_the_first_is_selected():
    rows = torch.tensor([[0.5 + 1e-6, 0.5 - 1e-6], [0.5, 0.5]])
    assert selected(explore(rows, KEYS, KEYS)) == ([], ["ninety"])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("row", [0.5, 1.0, True])
def test_a_row_that_is_no_integer_is_refused(weights, row):
    with pytest.raises(TypeError, match=f"row must be an integer, not {row}"):
        explore(weights, QUERIES, KEYS, row=row)


def test_maps_and_rows_that_do_not_exist_are_refused(several, weights):
    with pytest.raises(ValueError, match=r"first is 'head 3'.* 'head 1', 'head 2'"):
        explore_many(several, first="head 3")
    for row in (-1, 2):
        message = f"row is {row}, but map 'head 2' has the rows 0 to 1"
        with pytest.raises(ValueError, match=message):
            explore_many(several, first="head 2", row=row)
    with pytest.raises(ValueError, match="rows 0 to 2"):
        explore(weights, QUERIES, KEYS, row=3)


def test_of_several_maps_one_is_open_at_a_time(several):
    explorer = explore_many(several)
    (scope,) = set(re.findall(r'<form class="([\w-]+)"', explorer._repr_html_()))
    names = {attributes["name"] for attributes, _ in Page(explorer).every("details")}
    assert names == {scope}


def test_one_map_has_no_tab(weights):
    assert not Page(explore(weights, QUERIES, KEYS)).every("details")


def test_the_title_and_what_to_try_stand_above_all(weights, several):
    one = {"head 1": (weights, QUERIES, KEYS)}
    for maps, title, shown in (
        (several, "Heads & layers", "Heads & layers."),
        (one, "Heads & layers", "Heads & layers: head 1."),
        (one, "head 1", "head 1."),
    ):
        page = Page(explore_many(maps, title=title, hint="Try <dix>."))
        assert [text for _, text in page.every("b")] == [shown]
        assert page.every("p")[0][1] == f"{shown} Try <dix>."
    assert "Select a row" in Page(explore(weights, QUERIES, KEYS)).every("p")[0][1]


def test_without_styles_and_forms_the_first_map_is_a_table_and_the_others_are_folded(
    several,
):
    """What is left where a viewer, such as GitHub's, removes styles, forms and most attributes."""
    html = explore_many(several, title="Head", first="head 2")._repr_html_()
    html = re.sub(r"<style>.*?</style>|</?(?:form|input|label)[^>]*>", "", html)
    html = re.sub(r' (?:style|class|title|name|scope)="[^"]*"', "", html)
    opened = re.findall(r"<details( open)?><summary>(.*?)</summary>", html)
    assert opened == [("", "head 1"), (" open", "head 2")]
    rows = re.findall(r"<tr>(.*?)</tr>", html[html.index("head 2") :])
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]
    assert cells == [
        ["", "ninety", "&lt;eos&gt;"],
        ["quatre", "100", ""],
        ["vingt", "75", "25"],
    ]


def test_an_array_gives_the_same_page(weights):
    plain = explore(weights, QUERIES, KEYS)._repr_html_()
    assert explore(weights.numpy(), QUERIES, KEYS)._repr_html_() == plain


def test_a_row_shades_the_columns_by_its_own_weights(several):
    css = Page(explore_many(several)).every("style")[0][1]
    rules = dict(re.findall(r"\.(m\d:has\(\.r\d):hover[^{]*{([^}]*)}", css))
    assert rules == {
        "m0:has(.r0": "--k0:100",
        "m0:has(.r1": "--k0:75;--k1:25",
        "m0:has(.r2": "",
        "m1:has(.r0": "--k0:100",
        "m1:has(.r1": "--k0:75;--k1:25",
    }


def test_it_loads_nothing_and_runs_nothing(several):
    html = explore_many(several)._repr_html_()
    assert not re.search(r"<script|<link|<img|https?:|url\(|@import|\son\w+=", html)


def test_tokens_titles_and_names_are_text_not_markup(weights):
    nasty = '"><script>alert(1)</script>&amp;'
    page = Page(
        explore_many(
            {nasty: (weights, [nasty] * 3, [nasty] * 2), "b": (weights, QUERIES, KEYS)},
            nasty,
        )
    )
    assert not page.every("script")
    texts = [
        text.strip()
        for tag in ("summary", "label", "th")
        for _, text in page.every(tag)
    ]
    assert texts.count(nasty) == 1 + 3 + 3 + 2
    assert page.every("b")[0][1] == f"{nasty}."
    assert page.every("td")[1][0]["title"] == f"{nasty} → {nasty}: 100 %"


def test_blank_tokens_are_visible():
    page = Page(explore(torch.ones(1, 1), [" "], [""]))
    assert [text for _, text in page.every("th")] == ["∅", "␣"]


def test_the_same_content_gives_the_same_page_and_other_content_another_class(weights):
    first, second = (explore(weights, QUERIES, KEYS)._repr_html_() for _ in range(2))
    other = explore(weights.flip(0), QUERIES, KEYS)._repr_html_()
    (name,), (other_name,) = (
        set(re.findall(r"explore-\w+", html)) for html in (first, other)
    )
    assert first == second
    assert name != other_name
    assert ".X" not in first


def test_css_rules_apply_to_their_own_explorer_only(several):
    explorer = explore_many(several)
    (name,) = set(re.findall(r"explore-\w+", explorer._repr_html_()))
    css = Page(explorer).every("style")[0][1]
    css = re.sub(r"@(?:media|supports)[^{]*{((?:[^{}]*{[^{}]*})*)}", r"\1", css)
    for selectors in re.findall(r"([^{}]+){", css):
        assert f".{name}" in selectors, selectors


def test_the_page_of_a_usual_alignment_is_small():
    sharp = (
        6 * torch.randn(27, 12, generator=torch.Generator().manual_seed(0))
    ).softmax(-1)
    html = explore(sharp, ["vingt"] * 27, ["ninety"] * 12)._repr_html_()
    assert len(html.encode()) < 15_000


def test_its_repr_names_the_maps_and_their_sizes(several):
    assert repr(explore_many(several, title="Head")) == (
        "Head, interactive in a notebook; queries × keys: head 1 (3 × 2), head 2 (2 × 2)"
    )


def test_any_precision_and_gradient(weights):
    plain = explore(torch.tensor([[0.5, 0.5]]), ["a"], KEYS)
    assert explore(
        torch.tensor([[0.5, 0.5]]).bfloat16().requires_grad_(), ["a"], KEYS
    )._repr_html_() == (plain._repr_html_())


def test_sizes_that_do_not_fit_are_refused_with_the_numbers(weights):
    with pytest.raises(
        ValueError, match=r"shape \(3, 2\) do not fit 3 query tokens and 3 key tokens"
    ):
        explore(weights, QUERIES, QUERIES)
    with pytest.raises(ValueError, match=r"map 'bad': weights of shape \(3, 2\)"):
        explore_many({"good": (weights, QUERIES, KEYS), "bad": (weights, KEYS, KEYS)})
    with pytest.raises(ValueError, match="no map"):
        explore_many({})
    with pytest.raises(ValueError, match=r"the first is 2\.0 in row 0, column 0"):
        explore(2 * torch.ones(1, 1), ["a"], ["b"])


LONE = "\ud83d"  # half of a surrogate pair, as from a text cut in two


def test_lone_surrogates_are_replaced_in_tokens_names_and_titles():
    maps = {
        f"head {LONE}": (torch.ones(1, 1), [f"a{LONE}b"], [LONE]),
        "other": (torch.ones(1, 1), ["a"], ["b"]),
    }
    explorer = explore_many(maps, title=f"{LONE}!")
    (explorer._repr_html_() + repr(explorer)).encode()
    page = Page(explorer)
    assert [text for _, text in page.every("th")[:2]] == [
        "\N{REPLACEMENT CHARACTER}",
        "a\N{REPLACEMENT CHARACTER}b",
    ]
    assert page.every("b")[0][1] == "\N{REPLACEMENT CHARACTER}!."
    assert page.every("summary")[0][1] == "head \N{REPLACEMENT CHARACTER}"


def test_surrogate_pairs_become_their_character():
    page = Page(explore(torch.ones(1, 1), ["\ud83d\ude00"], ["b"]))
    assert page.every("th")[1][1] == "\N{GRINNING FACE}"


@pytest.mark.usefixtures("unchecked")
def test_names_that_are_numbers_are_shown():
    page = Page(explore_many({1: (torch.ones(1, 1), ["a"], ["b"])}, title="t"))
    assert page.every("b")[0][1] == "t: 1."
