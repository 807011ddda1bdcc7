"""Tiles hold every pair of positions that the rule allows, none twice, at the cost the chapter states."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.profiler import profile

from companion.attention.kernels import tiling
from companion.attention.kernels.tiling import (
    StridedTiles,
    Tiles,
    WindowTiles,
    atrous_tiles,
    local_tiles,
)
from companion.attention.masks import atrous, causal, intersection, local, same_block

sizes = st.integers(1, 40)
CUTS = {  # of 17 positions: those that each tile holds
    "apart": (WindowTiles(2, 3, 5, 3), [[2, 3, 4], [7, 8, 9], [12, 13, 14]]),
    "touching": (
        WindowTiles(1, 4, 4, 4),
        [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]],
    ),
    "overlapping": (
        WindowTiles(1, 7, 3, 4),
        [
            [1, 2, 3, 4, 5, 6, 7],
            [4, 5, 6, 7, 8, 9, 10],
            [7, 8, 9, 10, 11, 12, 13],
            [10, *range(11, 17)],
        ],
    ),
    "overlapping twice": (
        WindowTiles(0, 4, 2, 3),
        [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]],
    ),
    "one": (WindowTiles(3, 5, 1, 1), [[3, 4, 5, 6, 7]]),
    "one, to the end": (WindowTiles(3, 14, 20, 1), [[*range(3, 17)]]),
    "classes": (StridedTiles(2, 3, 5, 3), [[2, 7, 12], [3, 8, 13], [4, 9, 14]]),
    "full classes": (
        StridedTiles(1, 4, 4, 4),
        [[1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15], [4, 8, 12, 16]],
    ),
    "classes of one": (StridedTiles(2, 3, 5, 1), [[2], [3], [4]]),
}


@pytest.fixture(params=CUTS)
def cut(request):
    return CUTS[request.param]


def sampled(*shape):
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )


def small(block, number):
    """Blocks so small, and so few at once, that a short sequence has many."""
    return patch.multiple(tiling, BLOCK=block, TILES=number)


def positions(cut, length):
    """Which positions each tile holds."""
    return cut.cut(torch.arange(length)[:, None]).squeeze(-1).tolist()


def pairs(group, queries, keys):
    """Every pair of a query's and a key's position, as often as a tile holds it."""
    found = []
    for tiles in group:
        tiles_of = zip(
            positions(tiles.queries, queries), positions(tiles.keys, keys), strict=True
        )
        found += [
            (keys - queries + i, j)
            for rows, columns in tiles_of
            for i in rows
            for j in columns
        ]
    return found


# Cut, put, add


def test_tiles_hold_the_positions_they_announce(cut):
    tiles, expected = cut
    assert positions(tiles, 17) == expected
    x = sampled(2, 17, 3)
    assert torch.equal(tiles.cut(x), x[:, torch.tensor(expected)])


def test_cutting_copies_nothing(cut):
    x = sampled(2, 17, 3)
    assert cut[0].cut(x).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", [name for name in CUTS if "overlapping" not in name])
def test_what_is_put_is_at_the_positions_that_were_cut(name):
    tiles, expected = CUTS[name]
    x, new = sampled(2, 17, 3), 9 + sampled(2, len(expected), len(expected[0]), 3)
    after = x.clone()
    tiles.put(after, new)
    assert torch.equal(tiles.cut(after), new)
    rest = sorted(set(range(17)).difference(*expected))
    assert torch.equal(after[:, rest], x[:, rest])


def test_adding_is_the_adjoint_of_cutting(cut):
    tiles, expected = cut
    x, new = sampled(2, 17, 3), sampled(2, len(expected), len(expected[0]), 3) + 1
    after = x.clone()
    tiles.add(after, new)
    for tile, rows in enumerate(expected):
        for index, position in enumerate(rows):
            x[:, position] += new[:, tile, index]
    torch.testing.assert_close(after, x)


def test_one_tile_is_written_at_once():
    """Not in slices of its step, because it overlaps with no other."""
    x, new = sampled(2, 17, 3), sampled(2, 1, 5, 3)
    with profile() as profiler:
        WindowTiles(3, 5, 1, 1).add(x, new)
    assert (
        sum(
            event.count
            for event in profiler.key_averages()
            if event.key == "aten::add_"
        )
        <= 2
    )


# Tiles of a local pattern
@given(
    sizes,
    sizes,
    sizes,
    st.booleans(),
    st.sampled_from([(1, 1), (2, 3), (3, 2), (32, 32)]),
)
def test_windows_hold_each_query_once_and_its_neighbours_once(
    queries, more, radius, ahead, how
):
    keys, right = queries + more - 1, radius if ahead else 0
    with small(*how):
        group = local_tiles(queries, keys, radius, right)
    rows = [
        i for tiles in group for tile in positions(tiles.queries, queries) for i in tile
    ]
    assert sorted(rows) == list(range(queries))
    found = pairs(group, queries, keys)
    assert len(set(found)) == len(found)
    expected = {
        (i, j)
        for i in range(keys - queries, keys)
        for j in range(keys)
        if -right <= i - j <= radius
    }
    assert expected <= set(found)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("radius", [1, 8, 64, 100, 1000])
def test_windows_are_little_more_than_a_neighbourhood(radius, ahead):
    n = 32_768
    group = local_tiles(n, n, radius, radius if ahead else 0)
    scores = sum(p.queries.number * p.queries.width * p.keys.width for p in group)
    assert scores < n * (radius * (1 + ahead) + max(tiling.BLOCK, radius / 2)) * 1.05
    assert all(p.queries.number <= tiling.TILES for p in group)
    between = [p for p in group if p.queries.number > 1]
    assert len(group) - len(between) <= 3  # two ends, and a remainder
    assert all(p.queries.width == max(tiling.BLOCK, radius // 2) for p in between)


def test_away_from_the_ends_all_queries_are_in_blocks():
    assert local_tiles(200, 200, 20, 20) == [
        Tiles(WindowTiles(0, 20, 20, 1), WindowTiles(0, 40, 20, 1)),
        Tiles(WindowTiles(20, 32, 32, 5), WindowTiles(0, 72, 32, 5)),
        Tiles(WindowTiles(180, 20, 20, 1), WindowTiles(160, 40, 20, 1)),
    ]


def test_a_radius_beyond_the_sequence_is_one_window():
    (tiles,) = local_tiles(7, 9, 10**9, 10**9)
    assert tiles == Tiles(WindowTiles(0, 7, 7, 1), WindowTiles(0, 9, 7, 1))


def test_queries_whose_neighbours_all_exist_are_in_blocks_from_the_first_on():
    (tiles,) = local_tiles(3 * tiling.BLOCK, 200, 20, 0)
    block, first = tiling.BLOCK, 200 - 3 * tiling.BLOCK
    assert tiles == Tiles(
        WindowTiles(0, block, block, 3), WindowTiles(first - 20, block + 20, block, 3)
    )


# Tiles of an atrous pattern
@given(sizes, sizes, st.integers(1, 90))
def test_classes_hold_each_query_once_and_its_class_once(queries, more, rate):
    keys = queries + more - 1
    group = atrous_tiles(queries, keys, rate)
    rows = [
        i for tiles in group for tile in positions(tiles.queries, queries) for i in tile
    ]
    assert sorted(rows) == list(range(queries))
    first = keys - queries
    expected = [
        (i, j) for i in range(first, keys) for j in range(keys) if (i - j) % rate == 0
    ]
    assert sorted(pairs(group, queries, keys)) == expected


@pytest.mark.parametrize(
    ("queries", "keys", "rate", "number"),
    [(12, 12, 4, 1), (13, 13, 4, 2), (1, 13, 4, 1)],
)
def test_classes_of_one_size_are_computed_at_once(queries, keys, rate, number):
    assert len(atrous_tiles(queries, keys, rate)) == number


# Masks
@given(
    sizes,
    sizes,
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from([(1, 1), (2, 3), (32, 32)]),
)
def test_every_tile_has_its_slice_of_rule_and_mask(
    queries, more, number, causally, how
):
    keys = queries + more - 1
    with small(*how):
        windows = local_tiles(queries, keys, number, 0 if causally else number)
    for group, rule in [
        (windows, local(number)),
        (atrous_tiles(queries, keys, number), atrous(number)),
    ]:
        rule = intersection(rule, causal()) if causally else rule
        mask = sampled(2, queries, keys) < 0.5
        for tiles in group:
            pattern, masks = tiles.pattern(rule, queries, keys), tiles.mask(mask)
            assert (
                masks.untyped_storage().data_ptr() == mask.untyped_storage().data_ptr()
            )
            rows = torch.tensor(positions(tiles.queries, queries))
            columns = torch.tensor(positions(tiles.keys, keys))
            for tile, (i, j) in enumerate(zip(rows, columns, strict=True)):
                assert torch.equal(pattern, rule(keys - queries + i[:, None], j[None]))
                assert torch.equal(masks[:, tile], mask[:, i[:, None], j[None]])


def test_a_pattern_is_on_the_requested_device():
    (tiles,) = local_tiles(7, 7, 9, 9)
    assert tiles.pattern(local(2), 7, 7, torch.device("meta")).device.type == "meta"


@pytest.mark.parametrize("rule", [same_block(3), lambda i, j: j <= i])
def test_a_rule_that_does_not_promise_to_depend_on_the_distance_is_an_error(rule):
    (tiles,) = local_tiles(7, 7, 9, 9)
    with pytest.raises(
        ValueError, match="depends on i − j alone and sets `relative = True`"
    ):
        tiles.pattern(rule, 7, 7)
