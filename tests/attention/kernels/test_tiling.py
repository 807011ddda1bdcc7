"""Cut up, a sequence loses no pair that the rule allows, has none twice, and costs what the chapter says."""

from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
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
from companion.attention.masks import atrous, causal, intersection, local

few = settings(deadline=None, max_examples=60)
sizes = st.integers(1, 40)
CUTS = {  # of 17 positions: which ones each tile holds
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


def drawn(*shape):
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )


def small(block, number):
    """Blocks and pieces so small that many come at a short length."""
    return patch.multiple(tiling, BLOCK=block, TILES=number)


def positions(cut, length):
    """Which positions each tile holds."""
    return cut.cut(torch.arange(length)[:, None]).squeeze(-1).tolist()


def pairs(pieces, queries, keys):
    """Every pair of a query's and a key's position, as often as a tile holds it."""
    found = []
    for piece in pieces:
        tiles_of = zip(
            positions(piece.queries, queries), positions(piece.keys, keys), strict=True
        )
        found += [
            (keys - queries + i, j)
            for rows, columns in tiles_of
            for i in rows
            for j in columns
        ]
    return found


# Cutting, and putting back


def test_tiles_hold_the_positions_they_announce(cut):
    pieces, expected = cut
    assert positions(pieces, 17) == expected
    x = drawn(2, 17, 3)
    assert torch.equal(pieces.cut(x), x[:, torch.tensor(expected)])


def test_cutting_copies_nothing(cut):
    x = drawn(2, 17, 3)
    assert cut[0].cut(x).untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", [name for name in CUTS if "overlapping" not in name])
def test_what_is_put_is_found_where_it_was_cut(name):
    pieces, expected = CUTS[name]
    x, new = drawn(2, 17, 3), 9 + drawn(2, len(expected), len(expected[0]), 3)
    after = x.clone()
    pieces.put(after, new)
    assert torch.equal(pieces.cut(after), new)
    rest = sorted(set(range(17)).difference(*expected))
    assert torch.equal(after[:, rest], x[:, rest])


def test_adding_is_the_adjoint_of_cutting(cut):
    pieces, expected = cut
    x, new = drawn(2, 17, 3), drawn(2, len(expected), len(expected[0]), 3) + 1
    after = x.clone()
    pieces.add(after, new)
    for tile, rows in enumerate(expected):
        for place, position in enumerate(rows):
            x[:, position] += new[:, tile, place]
    torch.testing.assert_close(after, x)


def test_one_tile_is_written_at_once():
    """Not in portions of its step, with which it does not overlap."""
    x, new = drawn(2, 17, 3), drawn(2, 1, 5, 3)
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


# Pieces of a local pattern


@few
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
        pieces = local_tiles(queries, keys, radius, right)
    rows = [
        i
        for piece in pieces
        for tile in positions(piece.queries, queries)
        for i in tile
    ]
    assert sorted(rows) == list(range(queries))
    found = pairs(pieces, queries, keys)
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
    pieces = local_tiles(n, n, radius, radius if ahead else 0)
    scores = sum(p.queries.number * p.queries.width * p.keys.width for p in pieces)
    assert scores < n * (radius * (1 + ahead) + max(tiling.BLOCK, radius / 2)) * 1.05
    assert all(p.queries.number <= tiling.TILES for p in pieces)
    between = [p for p in pieces if p.queries.number > 1]
    assert len(pieces) - len(between) <= 3  # two ends, and what is left of a piece
    assert all(p.queries.width == max(tiling.BLOCK, radius // 2) for p in between)


def test_between_the_ends_all_queries_are_in_blocks():
    assert local_tiles(200, 200, 20, 20) == [
        Tiles(WindowTiles(0, 20, 20, 1), WindowTiles(0, 40, 20, 1)),
        Tiles(WindowTiles(20, 32, 32, 5), WindowTiles(0, 72, 32, 5)),
        Tiles(WindowTiles(180, 20, 20, 1), WindowTiles(160, 40, 20, 1)),
    ]


def test_a_radius_beyond_the_sequence_is_one_window():
    (piece,) = local_tiles(7, 9, 10**9, 10**9)
    assert piece == Tiles(WindowTiles(0, 7, 7, 1), WindowTiles(0, 9, 7, 1))


def test_queries_with_all_their_neighbours_before_them_are_in_blocks_from_the_first_on():
    (piece,) = local_tiles(3 * tiling.BLOCK, 200, 20, 0)
    block, first = tiling.BLOCK, 200 - 3 * tiling.BLOCK
    assert piece == Tiles(
        WindowTiles(0, block, block, 3), WindowTiles(first - 20, block + 20, block, 3)
    )


# Pieces of an atrous pattern


@few
@given(sizes, sizes, st.integers(1, 90))
def test_classes_hold_each_query_once_and_its_class_once(queries, more, rate):
    keys = queries + more - 1
    pieces = atrous_tiles(queries, keys, rate)
    rows = [
        i
        for piece in pieces
        for tile in positions(piece.queries, queries)
        for i in tile
    ]
    assert sorted(rows) == list(range(queries))
    first = keys - queries
    expected = [
        (i, j) for i in range(first, keys) for j in range(keys) if (i - j) % rate == 0
    ]
    assert sorted(pairs(pieces, queries, keys)) == expected


@pytest.mark.parametrize(
    ("queries", "keys", "rate", "number"),
    [(12, 12, 4, 1), (13, 13, 4, 2), (1, 13, 4, 1)],
)
def test_there_are_as_few_pieces_as_there_are_sizes_of_classes(
    queries, keys, rate, number
):
    assert len(atrous_tiles(queries, keys, rate)) == number


# Masks


@few
@given(
    sizes,
    sizes,
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from([(1, 1), (2, 3), (32, 32)]),
)
def test_every_tile_has_its_part_of_rule_and_mask(
    queries, more, number, looks_back, how
):
    keys = queries + more - 1
    with small(*how):
        windows = local_tiles(queries, keys, number, 0 if looks_back else number)
    for pieces, rule in [
        (windows, local(number)),
        (atrous_tiles(queries, keys, number), atrous(number)),
    ]:
        rule = intersection(rule, causal()) if looks_back else rule
        mask = drawn(2, queries, keys) < 0.5
        for piece in pieces:
            pattern, masks = piece.pattern(rule, queries, keys), piece.mask(mask)
            assert (
                masks.untyped_storage().data_ptr() == mask.untyped_storage().data_ptr()
            )
            rows = torch.tensor(positions(piece.queries, queries))
            columns = torch.tensor(positions(piece.keys, keys))
            for tile, (i, j) in enumerate(zip(rows, columns, strict=True)):
                assert torch.equal(pattern, rule(keys - queries + i[:, None], j[None]))
                assert torch.equal(masks[:, tile], mask[:, i[:, None], j[None]])


def test_a_pattern_is_on_the_device_it_is_told():
    (piece,) = local_tiles(7, 7, 9, 9)
    assert piece.pattern(local(2), 7, 7, torch.device("meta")).device.type == "meta"
