import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from companion.patterns import both, causal, dense, either

lengths = st.integers(1, 9)
few = settings(deadline=None, max_examples=25)

RULES = {
    "causal": (causal(), lambda i, j: j <= i),
    "near": (lambda i, j: (i - j).abs() <= 2, lambda i, j: abs(i - j) <= 2),
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
def test_both_and_either_are_intersection_and_union(first, second, queries, keys):
    (a, plain_a), (b, plain_b) = RULES[first], RULES[second]
    positions = [(i, j) for i in range(queries) for j in range(keys)]
    intersection = [plain_a(i, j) and plain_b(i, j) for i, j in positions]
    union = [plain_a(i, j) or plain_b(i, j) for i, j in positions]
    assert dense(both(a, b), queries, keys).flatten().tolist() == intersection
    assert dense(either(a, b), queries, keys).flatten().tolist() == union


@few
@given(lengths)
def test_causal_is_the_lower_triangle(length):
    assert torch.equal(dense(causal(), length), torch.ones(length, length).tril().bool())


def test_dense_is_on_the_device_it_is_told():
    assert dense(causal(), 3, device="meta").device.type == "meta"


@pytest.mark.parametrize("sizes", [(0,), (3, 0), (-1, 2), (0, 5)])
def test_a_mask_of_no_size_is_an_error(sizes):
    with pytest.raises(ValueError, match=f"not {sizes[0]} and {sizes[-1]}"):
        dense(causal(), *sizes)
