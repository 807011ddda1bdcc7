"""The pattern editor: its masks, tiles and reach are those of the package."""

import itertools
import random

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask

from companion import attention
from companion.attention import masks

N, SIDE = 64, 8  # positions, and the side of a tile
COMPUTE = """all => all.map(([state, i, j]) => {
    const kinds = Patterns.masks(state), found = Patterns.fewest(kinds), order = Patterns.order(state);
    return {kinds, found: found.map(row => row.map(layers => Math.min(layers, 99))),
        tiles: Patterns.tiles(order.map(a => order.map(b => kinds[0][a][b]))),
        path: Patterns.path(kinds, found, i, j, state.layers),
        field: Patterns.field(kinds, i, state.layers).at(-1).map(one => one.at)};
})"""
SET = (
    "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')) }"
)


def rules(state):
    """The rules of the package for the layers of a state."""
    local, atrous = masks.local(state["radius"]), masks.atrous(state["rate"])
    found = {
        "local": [local],
        "atrous": [atrous],
        "sparse": [masks.union(local, atrous)],
        "in turn": [atrous, local],
        "strided": [masks.strided(state["stride"])],
        "fixed": [masks.fixed(state["stride"], state["expressive"])],
    }[state["pattern"]]
    causal = masks.causal()
    return [masks.intersection(x, causal) if state["causal"] else x for x in found]


def tiles(rule, order):
    """The tiles that FlexAttention computes for positions in an order."""

    def mask(batch, head, i, j):
        return rule(order[i], order[j])

    size = {"device": "cpu", "BLOCK_SIZE": SIDE}
    return create_block_mask(mask, None, None, N, N, **size).to_dense()[0, 0] > 0


@pytest.fixture
def editor(visit_live):
    return visit_live("07_sparse", "live-patterns")


NAMES = ["local", "atrous", "sparse", "in turn", "strided", "fixed"]


@pytest.mark.parametrize("pattern", NAMES)
def test_masks_tiles_reach_and_paths_are_those_of_the_package(editor, pattern):
    generator, asked = random.Random(pattern), []
    for layers, causal, _ in itertools.product((1, 2, 3, 4), (False, True), range(10)):
        state = {x: generator.randint(1, 16) for x in ("radius", "rate", "stride")}
        state |= {"pattern": pattern, "layers": layers, "causal": causal}
        state["expressive"] = generator.randint(1, state["stride"])
        state["isSorted"] = generator.random() < 0.5
        asked.append((state, generator.randrange(N), generator.randrange(N)))
    for (state, i, j), one in zip(asked, editor.evaluate(COMPUTE, asked), strict=True):
        kinds = [masks.dense(rule, N) for rule in rules(state)]
        assert torch.equal(torch.tensor(one["kinds"]), torch.stack(kinds))
        order = torch.arange(N)
        if state["isSorted"]:
            order = (order % state["rate"]).argsort(stable=True)
        assert one["tiles"] == tiles(rules(state)[0], order).tolist()
        reached, used = torch.eye(N), []
        for layer in range(state["layers"]):
            used.append(kinds[layer % len(kinds)])
            reached = (used[-1].float() @ reached).clamp(max=1)
            assert torch.equal(torch.tensor(one["found"]) <= layer + 1, reached > 0)
        assert one["field"] == reached[i].nonzero()[:, 0].tolist()
        assert bool(one["path"]) == (reached[i, j] > 0)
        if one["path"]:
            assert (one["path"][0], one["path"][-1]) == (i, j)
            hops = zip(used[::-1], itertools.pairwise(one["path"]), strict=True)
            assert all(mask[hop] for mask, hop in hops)


@pytest.mark.parametrize(
    ("pattern", "layers"),
    [
        ("local", [attention.LocalAttention(3)] * 2),
        ("atrous", [attention.AtrousAttention(6)] * 2),
        ("sparse", [attention.SparseAttention(3, 6)] * 2),
        ("in turn", [attention.AtrousAttention(6), attention.LocalAttention(3)]),
        ("strided", [attention.SparseAttention(5, 5, causal=True)] * 2),
        ("fixed", [attention.PatternAttention(masks.fixed(5, 2))] * 2),
    ],
)
def test_gradients_of_two_layers_are_where_the_page_says(editor, pattern, layers):
    torch.manual_seed(0)
    x = torch.randn(1, N, 4, dtype=torch.float64, requires_grad=True)
    y = x
    for layer in layers:
        y = layer(y, y, y)
    rows = [torch.autograd.grad(out.sum(), x, retain_graph=True)[0][0] for out in y[0]]
    state = {"pattern": pattern, "radius": 3, "rate": 6, "stride": 5, "expressive": 2}
    (one,) = editor.evaluate(COMPUTE, [[state | {"layers": 2}, 0, 0]])
    reached = torch.stack([(row != 0).any(-1) for row in rows])
    assert torch.equal(torch.tensor(one["found"]) <= 2, reached)


def press(page, name):
    page.get_by_role("button", name=name, exact=name in NAMES).press("Enter")
    return page.locator(".patterns").inner_text().replace("\u00a0", " ")


def test_no_number_of_atrous_layers_does_what_two_sparse_ones_do(editor):
    for layers in range(1, 5):
        said = press(editor, f"{layers} layer")
        assert f"512 of 4,096 pairs (12.5 %), by {512 * layers:,} scores" in said
    assert "512 of 4,096 scores (12.5 %), in 64 of 64 tiles of 8 × 8" in said
    assert "never reaches query 37, however many layers there are: 27 is no" in said
    assert "in 8 of 64 tiles" in press(editor, "sort by class")
    press(editor, "2 layers")
    said = press(editor, "sparse")
    assert "4,084 of 4,096 pairs (99.7 %), by 2,008 scores" in said
    assert "Query 37 attends to 13, which attended to 10." in said
    assert "does not reach query 37 in 2 layers: it takes 7." in press(editor, "local")
    assert "of 2,080 pairs with j ≤ i" in press(editor, "strided")
    assert editor.get_by_role("button", name="causal").is_disabled()


def test_arrow_keys_and_the_pointer_choose_a_pair(editor):
    query, key = (editor.get_by_role("slider", name=x) for x in ("Query i", "Key j"))
    query.press("End")
    query.press("ArrowLeft")
    assert "query 62" in editor.locator(".patterns-told").inner_text()
    box = editor.locator(".patterns-matrices svg").nth(1).bounding_box()
    cell = box["width"] / N
    editor.mouse.move(box["x"] + 5.5 * cell, box["y"] + 20.5 * cell)
    assert (query.input_value(), key.input_value()) == ("20", "5")


@pytest.mark.parametrize("value", ["1e9", "-7", "0", "NaN", "", "<img src=x>"])
def test_no_value_of_a_slider_is_out_of_range(editor, value):
    press(editor, "fixed")
    for slider in editor.get_by_role("slider").all():
        slider.evaluate(SET, value)
    stride, last = (
        int(editor.get_by_role("slider", name=name).input_value())
        for name in ("Stride", "Last positions")
    )
    assert 1 <= last <= stride <= 16
    assert editor.locator(".patterns img").count() == 0
    assert "NaN" not in editor.locator(".patterns").inner_text()
