import inspect
import pickle
import re
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from companion.attention import ALiBi, LinearBias, PatternAttention, masks
from companion.attention.masks import (
    Rule,
    atrous,
    block_ends,
    causal,
    dense,
    difference,
    first_positions,
    fixed,
    fixed_block,
    fixed_summary,
    intersection,
    local,
    same_block,
    sliding_window,
    strided,
    strided_atrous,
    strided_local,
    union,
    visible_keys,
)
from tests.reference import child_2019

lengths = st.integers(1, 9)

FUNCTIONS = {
    "near": (lambda i, j: (i - j).abs() <= 2, lambda i, j: abs(i - j) <= 2),
    "even keys": (lambda i, j: j % 2 == 0, lambda i, j: j % 2 == 0),
    "late queries": (lambda i, j: i >= 3, lambda i, j: i >= 3),
}
VALUES = {
    "causal": (causal(), lambda i, j: j <= i),
    "local": (local(2), lambda i, j: -2 <= i - j <= 2),
    "wide": (local(18), lambda i, j: True),
    "atrous": (atrous(3), lambda i, j: i % 3 == j % 3),
    "itself": (atrous(18), lambda i, j: i == j),
    "all": (atrous(1), lambda i, j: True),
    "same block": (same_block(3), lambda i, j: i // 3 == j // 3),
    "block ends": (block_ends(3, 2), lambda i, j: j % 3 in (1, 2)),
    "strided": (strided(3), child_2019.strided(3)),
    "strided, local": (strided_local(3), lambda i, j: 0 <= i - j <= 3),
    "strided, atrous": (
        strided_atrous(3),
        lambda i, j: i >= j and (i - j) % 3 == 0,
    ),
    "fixed": (fixed(4), child_2019.fixed(4, 1)),
    "fixed, expressive": (fixed(4, 2), child_2019.fixed(4, 2)),
    "fixed, block": (fixed_block(4), lambda i, j: j <= i and i // 4 == j // 4),
    "fixed, summary": (fixed_summary(4, 2), lambda i, j: j <= i and j % 4 in (2, 3)),
}
RULES = FUNCTIONS | VALUES
rules = st.sampled_from(sorted(RULES))
values = st.sampled_from(sorted(VALUES))
pairs = st.sampled_from([union, intersection, difference])
each_value = pytest.mark.parametrize("name", VALUES)


@given(rules, lengths, lengths)
def test_a_dense_mask_is_the_rule_at_every_pair_of_positions(name, queries, keys):
    rule, plain = RULES[name]
    mask = dense(rule, queries, keys)
    assert mask.dtype == torch.bool
    assert mask.tolist() == [[plain(i, j) for j in range(keys)] for i in range(queries)]


@given(rules, rules, lengths, lengths)
def test_rules_and_functions_have_unions_intersections_and_differences(
    first, second, queries, keys
):
    (a, plain_a), (b, plain_b) = RULES[first], RULES[second]
    positions = [(i, j) for i in range(queries) for j in range(keys)]
    expected = {
        union: [plain_a(i, j) or plain_b(i, j) for i, j in positions],
        intersection: [plain_a(i, j) and plain_b(i, j) for i, j in positions],
        difference: [plain_a(i, j) and not plain_b(i, j) for i, j in positions],
    }
    for pair, mask in expected.items():
        assert dense(pair(a, b), queries, keys).flatten().tolist() == mask


@given(rules, lengths, lengths)
def test_queries_may_start_at_any_position(name, queries, first):
    rule, plain = RULES[name]
    found = dense(rule, queries, first + queries, first=first)
    assert torch.equal(found, dense(rule, first + queries)[first:])
    assert found[0].tolist() == [plain(first, j) for j in range(first + queries)]


@given(rules, st.lists(st.integers(0, 17), min_size=6, max_size=6), lengths)
def test_queries_may_be_at_other_positions_in_each_sequence(name, positions, keys):
    rule, plain = RULES[name]
    found = visible_keys(rule, torch.tensor(positions).view(2, 3), keys)
    assert found.shape == (2, 3, keys)
    assert found.flatten(0, 1).tolist() == [
        [plain(i, j) for j in range(keys)] for i in positions
    ]


# Rules as values


@each_value
def test_a_rule_is_equal_to_another_of_the_same_settings_and_hashes_alike(name):
    rule = VALUES[name][0]
    again = pickle.loads(pickle.dumps(rule))
    assert again == rule
    assert again is not rule
    assert hash(again) == hash(rule)
    assert {rule: name}[again] == name
    assert torch.equal(dense(again, 9), dense(rule, 9))


def test_rules_of_other_settings_or_kinds_are_not_equal():
    rules = [rule for rule, _ in VALUES.values()]
    rules += [
        local(3),
        atrous(2),
        union(causal(), local(2)),
        difference(causal(), local(2)),
    ]
    assert len(set(rules)) == len(rules)
    assert local(2) != atrous(2)
    assert union(local(2), causal()) != union(causal(), local(2))


@each_value
def test_a_rule_prints_what_builds_it_again(name):
    rule = VALUES[name][0]
    names = {
        x.__name__: x
        for x in (
            *(causal, local, atrous, same_block, block_ends),
            *(union, intersection, difference),
        )
    }
    assert eval(repr(rule), names) == rule


def test_a_rule_cannot_be_changed():
    with pytest.raises(AttributeError):
        local(2).radius = 3


@given(values, values, pairs, st.booleans(), st.integers(1, 9))
def test_a_rule_that_says_it_is_relative_depends_on_the_difference_alone(
    first, second, pair, single, shift
):
    rule = VALUES[first][0] if single else pair(VALUES[first][0], VALUES[second][0])
    if rule.relative:
        i, j = torch.arange(12)[:, None], torch.arange(12)
        assert torch.equal(rule(i + shift, j + shift), rule(i, j))


RELATIVE = {
    *("causal", "local", "wide", "atrous", "itself", "all"),
    *("strided", "strided, local", "strided, atrous"),
}


@each_value
def test_rules_say_whether_they_are_relative(name):
    rule = VALUES[name][0]
    assert rule.relative is (name in RELATIVE)
    i, j = torch.arange(12)[:, None], torch.arange(12)
    shifted = [torch.equal(rule(i + s, j + s), rule(i, j)) for s in range(12)]
    assert all(shifted) is rule.relative


def test_of_a_function_nothing_is_known():
    function = FUNCTIONS["near"][0]
    assert union(causal(), causal()).relative
    assert not union(function, causal()).relative
    assert not intersection(causal(), function).relative
    assert not isinstance(function, Rule)


# Child et al. 2019
@given(lengths, st.integers(1, 12))
def test_strided_is_causal_local_or_atrous(length, stride):
    either = union(local(stride), atrous(stride))
    assert torch.equal(
        dense(strided(stride), length), dense(intersection(either, causal()), length)
    )


@given(lengths, st.integers(1, 9), st.data())
def test_the_halves_together_are_the_whole(length, stride, data):
    expressive = data.draw(st.integers(1, stride))
    halves = union(strided_local(stride), strided_atrous(stride))
    assert torch.equal(dense(halves, length), dense(strided(stride), length))
    halves = union(fixed_block(stride), fixed_summary(stride, expressive))
    assert torch.equal(dense(halves, length), dense(fixed(stride, expressive), length))


def picture(rule, length):
    return [
        "".join("x" if visible else "." for visible in row)
        for row in dense(rule, length).tolist()
    ]


def test_strided_by_hand():
    assert picture(strided(3), 8) == [
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
    assert picture(fixed(3), 8) == [
        "x.......",
        "xx......",
        "xxx.....",
        "..xx....",
        "..xxx...",
        "..xxxx..",
        "..x..xx.",
        "..x..xxx",
    ]
    assert picture(fixed(3, expressive=2), 8)[-1] == ".xx.xxxx"
    assert picture(fixed(3, expressive=3), 8) == picture(causal(), 8)


@given(lengths, st.integers(1, 9), st.data())
def test_two_layers_of_a_fixed_pattern_reach_every_earlier_position(
    length, stride, data
):
    """The own block directly, every other one through its last position."""
    mask = dense(fixed(stride, data.draw(st.integers(1, stride))), length).int()
    assert torch.equal((mask @ mask).bool(), dense(causal(), length))


@given(lengths)
def test_causal_is_the_lower_triangle(length):
    assert torch.equal(
        dense(causal(), length), torch.ones(length, length).tril().bool()
    )


# Arguments


def test_a_dense_mask_is_on_the_device_that_was_asked_for():
    assert dense(causal(), 3, device="meta").device.type == "meta"


@pytest.mark.parametrize("sizes", [(0,), (3, 0), (-1, 2), (0, 5)])
def test_an_empty_mask_is_an_error(sizes):
    with pytest.raises(ValueError, match=f"not {sizes[0]} and {sizes[-1]}"):
        dense(causal(), *sizes)


BUILDERS = [
    *(local, atrous, same_block, block_ends, strided, fixed),
    *(strided_local, strided_atrous, fixed_block, fixed_summary),
    lambda size: fixed(4, size),
]


@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("size", [0, -3])
def test_a_size_below_one_is_an_error(build, size):
    with pytest.raises(ValueError, match=f"must be at least 1, not {size}"):
        build(size)


@pytest.mark.parametrize(
    "rule",
    [
        *(first_positions, sliding_window, strided, strided_local, strided_atrous),
        *(fixed, fixed_block, fixed_summary),
    ],
)
def test_an_error_names_an_argument_that_exists(rule):
    for name in inspect.signature(rule).parameters:
        with pytest.raises(ValueError, match=f"^{name} must be at least 1, not 0"):
            rule(
                **{"stride": 4, name: 0}
                if rule in (fixed, fixed_summary)
                else {name: 0}
            )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("build", BUILDERS)
@pytest.mark.parametrize("size", ["3", None, 2.5, True])
def test_a_size_that_is_not_an_integer_is_an_error(build, size):
    with pytest.raises(TypeError, match=f"must be an integer, not {size!r}"):
        build(size)


@pytest.mark.parametrize("build", [fixed, fixed_summary, block_ends])
def test_more_summary_positions_than_a_block_has_are_an_error(build):
    with pytest.raises(ValueError, match="4 positions has no last 5"):
        build(4, 5)


# What is no rule, or no mask


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("rule", [masks.causal, masks.local, True, [], None, 3])
@pytest.mark.parametrize(
    "use",
    [
        PatternAttention,
        lambda rule: masks.union(masks.causal(), rule),
        lambda rule: masks.difference(rule, masks.local(2)),
        lambda rule: masks.dense(rule, 3),
    ],
)
def test_what_is_no_rule_is_an_error_that_shows_one(use, rule):
    with pytest.raises(TypeError, match=r"an instance, as masks\.causal\(\)"):
        use(rule)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("rule", [True, [], masks.causal])
@pytest.mark.parametrize("build", [partial(LinearBias, 0.5), partial(ALiBi, 2)])
def test_biases_refuse_what_is_no_rule(build, rule):
    with pytest.raises(TypeError, match=r"an instance, as masks\.causal\(\)"):
        build(rule)


@pytest.mark.parametrize("name", ["causal", "anywhere"])
@pytest.mark.parametrize("sizes", [(5,), (5, 7)])
def test_a_rule_that_is_called_like_a_mask_names_the_mask(name, sizes):
    message = re.escape(f"its mask is masks.dense(masks.{name}(), 5)")
    with pytest.raises(TypeError, match=message):
        getattr(masks, name)(*sizes)
