import pytest
import torch

from companion.attention import (
    BlockSelectionAttention,
    CausalAttention,
    KVCache,
    MultiHeadAttention,
    SlidingWindowAttention,
)
from tests.reference import yuan_2025
from tests.tiny import close, doubles

N, SIZE = 13, 6


@pytest.mark.parametrize(
    "sizes", [(3, 1, 3), (3, 2, 4), (2, 3, 2), (4, 9, 5), (1, 2, 1)]
)
def test_contexts_are_those_of_the_loops(sizes):
    query, key, value = doubles(N, SIZE), doubles(N, SIZE), doubles(N, 5)
    attention = BlockSelectionAttention(*sizes)
    expected = yuan_2025.contexts(query.tolist(), key.tolist(), value.tolist(), *sizes)
    close(attention(query, key, value), torch.tensor(expected, dtype=torch.float64))
    weights = attention.weights(query, key)
    for i, row in enumerate(weights.tolist()):
        chosen = yuan_2025.selected(i, query[i].tolist(), key.tolist(), *sizes)
        assert [j for j, weight in enumerate(row) if weight] == chosen


def test_all_blocks_are_causal_attention_and_a_wide_window_is_a_window():
    x = doubles(2, N, SIZE)
    close(BlockSelectionAttention(3, N, 3)(x, x, x), CausalAttention()(x, x, x))
    far = BlockSelectionAttention(N + 1, 1, N + 1)  # no block is ever complete
    close(far(x, x, x), SlidingWindowAttention(N + 1)(x, x, x))


@pytest.mark.parametrize("parts", [[1] * N, [5, 1, 1, 6], [N]])
@pytest.mark.parametrize("groups", [4, 2])
def test_decoding_with_a_cache_equals_one_pass(parts, groups):
    attention = BlockSelectionAttention(2, 2, 3)
    heads = MultiHeadAttention(24, 4, attention, key_value_heads=groups).double()
    x = doubles(2, N, 24)
    state, found = heads.start(x), []
    for part in x.split(parts, 1):
        output, state = heads.extend(part, state)
        found.append(output)
    assert isinstance(state, KVCache)
    close(torch.cat(found, 1), heads(x, *heads.project(x)))


def test_no_gradient_reaches_a_later_position():
    x = doubles(1, N, SIZE).requires_grad_()
    attention = BlockSelectionAttention(3, 2, 4)
    for i in (2, 5, 6, 11):
        (gradient,) = torch.autograd.grad(attention(x, x, x)[0, i].sum(), x)
        assert gradient[0, i].abs().sum() > 0
        assert not gradient[0, i + 1 :].any()


def test_a_masked_key_changes_no_choice():
    query, key, value = doubles(2, 1, SIZE), doubles(2, N, SIZE), doubles(2, N, 5)
    mask = torch.ones(2, 1, N, dtype=torch.bool)
    mask[..., 1] = mask[..., 7] = False
    attention = BlockSelectionAttention(3, 1, 3)
    other = key.clone()
    other[:, [1, 7]] = 100 * query
    close(attention(query, key, value, mask), attention(query, other, value, mask))
    assert not attention.weights(query, other, mask)[..., [1, 7]].any()


def test_padding_behind_a_sequence_changes_nothing():
    x = doubles(2, N, SIZE)
    longer = torch.cat([x, doubles(2, 5, SIZE)], 1)
    mask = (torch.arange(N + 5) < N)[None, None]
    attention = BlockSelectionAttention(3, 2, 4)
    close(attention(longer, longer, longer, mask)[:, :N], attention(x, x, x))


def test_a_far_key_is_found_that_a_window_misses():
    key = torch.eye(8).double()[[0, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7]][None]
    query = 50 * key[:, :1].expand(1, 12, 8)
    value = torch.arange(12.0).double()[None, :, None]
    found = BlockSelectionAttention(2, 1, 2)(query, key, value)[0, -1]
    missed = SlidingWindowAttention(4)(query, key, value)[0, -1]
    assert abs(found.item()) < 1e-6
    assert missed > 7


def test_a_window_that_leaves_a_gap_is_an_error():
    with pytest.raises(ValueError, match="leaves a gap"):
        BlockSelectionAttention(4, 1, 3)
