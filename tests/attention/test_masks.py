import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.attention.masks import (
    atrous,
    causal,
    dense,
    fixed,
    intersection,
    local,
    strided,
    union,
)
from tests.reference import child_2019

lengths = st.integers(1, 9)
few = settings(deadline=None, max_examples=25)

RULES = {
    "causal": (causal(), lambda i, j: j <= i),
    "near": (lambda i, j: (i - j).abs() <= 2, lambda i, j: abs(i - j) <= 2),
    "local": (local(2), lambda i, j: -2 <= i - j <= 2),
    "wide": (local(18), lambda i, j: True),
    "atrous": (atrous(3), lambda i, j: i % 3 == j % 3),
    "itself": (atrous(18), lambda i, j: i == j),
    "all": (atrous(1), lambda i, j: True),
    "strided": (strided(3), child_2019.strided(3)),
    "fixed": (fixed(4), child_2019.fixed(4, 1)),
    "fixed, expressive": (fixed(4, 2), child_2019.fixed(4, 2)),
    "even keys": (lambda i, j: j % 2 == 0, lambda i, j: j % 2 == 0),
    "late queries": (lambda i, j: i >= 3, lambda i, j: i >= 3),
}
rules = st.sampled_from(sorted(RULES))


@few
@given(rules, lengths, lengths)
def test_dense_asks_the_rule_at_every_position(name, queries, keys):
    rule, plain = RULES[name]
    mask = dense(rule, queries, keys)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[plain(i, j) for j in range(keys)] for i in range(queries)]


@few
@given(rules, rules, lengths, lengths)
def test_both_either_and_without_are_intersection_union_and_difference(
    first, second, queries, keys
):
    (a, plain_a), (b, plain_b) = RULES[first], RULES[second]
    positions = [(i, j) for i in range(queries) for j in range(keys)]
    intersection = [plain_a(i, j) and plain_b(i, j) for i, j in positions]
    union = [plain_a(i, j) or plain_b(i, j) for i, j in positions]
    difference = [plain_a(i, j) and not plain_b(i, j) for i, j in positions]
    assert dense(intersection(a, b), queries, keys).flatten().tolist() == intersection
    assert dense(union(a, b), queries, keys).flatten().tolist() == union
    assert dense(difference(a, b), queries, keys).flatten().tolist() == difference


@few
@given(rules, lengths, lengths)
def test_queries_need_not_be_the_sequence_from_its_start(name, queries, first):
    rule, plain = RULES[name]
    found = dense(rule, queries, first + queries, first=first)
    assert torch.equal(found, dense(rule, first + queries)[first:])
    assert found[0].tolist() == [plain(first, j) for j in range(first + queries)]


@few
@given(lengths, st.integers(1, 12))
def test_strided_is_local_or_atrous_looking_back(length, stride):
    either = union(local(stride), atrous(stride))
    assert torch.equal(
        dense(strided(stride), length), dense(intersection(either, causal()), length)
    )


def drawing(rule, length):
    return [
        "".join("x" if seen else "." for seen in row)
        for row in dense(rule, length).tolist()
    ]


def test_strided_by_hand():
    assert drawing(strided(3), 8) == [
        "x.......",
        "xx......",
        "xxx.....",
        "xxxx....",
        ".xxxx...",
        "..xxxx..",
        "x..xxxx.",
        ".x..xxxx",
    ]


def test_fixed_by_hand():
    assert drawing(fixed(3), 8) == [
        "x.......",
        "xx......",
        "xxx.....",
        "..xx....",
        "..xxx...",
        "..xxxx..",
        "..x..xx.",
        "..x..xxx",
    ]
    assert drawing(fixed(3, expressive=2), 8)[-1] == ".xx.xxxx"
    assert drawing(fixed(3, expressive=3), 8) == drawing(causal(), 8)


@few
@given(lengths, st.integers(1, 9), st.data())
def test_two_steps_of_a_fixed_pattern_reach_all_that_came_before(length, stride, data):
    """What Child et al. want of it: of the own block directly, of another through its last position."""
    mask = dense(fixed(stride, data.draw(st.integers(1, stride))), length).int()
    assert torch.equal((mask @ mask).bool(), dense(causal(), length))


@few
@given(lengths)
def test_causal_is_the_lower_triangle(length):
    assert torch.equal(
        dense(causal(), length), torch.ones(length, length).tril().bool()
    )


def test_dense_is_on_the_device_it_is_told():
    assert dense(causal(), 3, device="meta").device.type == "meta"


@pytest.mark.parametrize("sizes", [(0,), (3, 0), (-1, 2), (0, 5)])
def test_a_mask_of_no_size_is_an_error(sizes):
    with pytest.raises(ValueError, match=f"not {sizes[0]} and {sizes[-1]}"):
        dense(causal(), *sizes)


@pytest.mark.parametrize(
    "build", [local, atrous, strided, fixed, lambda size: fixed(4, size)]
)
@pytest.mark.parametrize("size", [0, -3])
def test_a_size_below_one_is_an_error(build, size):
    with pytest.raises(ValueError, match=f"must be at least 1, not {size}"):
        build(size)


def test_more_summaries_than_a_block_has_positions_are_an_error():
    with pytest.raises(ValueError, match="4 positions has no last 5"):
        fixed(4, expressive=5)
