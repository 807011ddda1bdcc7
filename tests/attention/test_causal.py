import copy
import pickle

import pytest
import torch

from companion.attention import (
    Causal,
    CausalAttention,
    LocalAttention,
    MultiHeadAttention,
    PatternAttention,
    RandomSynthesizer,
    Rotary,
    ScaledDot,
    record_weights,
)
from companion.attention.masks import causal, dense, local
from tests.tiny import close, spread


def inputs(queries, keys, batch=(2, 3)):
    torch.manual_seed(0)
    query = torch.randn(*batch, queries, 4, dtype=torch.float64, requires_grad=True)
    key = torch.randn(*batch, keys, 4, dtype=torch.float64, requires_grad=True)
    value = torch.randn(*batch, keys, 5, dtype=torch.float64, requires_grad=True)
    return query, key, value


@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize(
    ("queries", "keys"), [(1, 1), (1, 6), (6, 6), (2, 6), (40, 40)]
)
def test_it_is_scaled_dot_product_attention_under_the_causal_mask(batch, queries, keys):
    given = inputs(queries, keys, batch)
    mask = dense(causal(), queries, keys, first=keys - queries)[(None,) * len(batch)]
    attention, definition = CausalAttention(), ScaledDot()
    expected, found = definition(*given, mask), attention(*given)
    close(found, expected)
    close(attention.weights(*given[:2]), definition.weights(*given[:2], mask))
    for x, y in zip(
        torch.autograd.grad(found.sin().sum(), given),
        torch.autograd.grad(expected.sin().sum(), given),
        strict=True,
    ):
        close(x, y)


@pytest.mark.parametrize("position", [None, torch.tensor([3, 0, 5, 1])])
@pytest.mark.parametrize("masked", [False, True])
def test_masks_and_positions_are_those_of_a_pattern(position, masked):
    given, pattern = inputs(4, 6), PatternAttention(causal())
    mask = torch.rand(2, 1, 4, 6) < 0.6 if masked else None
    found = CausalAttention()(*given, mask, position)
    close(found, pattern(*given, mask, position))
    with record_weights(attention := CausalAttention()) as maps:
        close(attention(*given, mask, position), found)
    (weights,) = maps[""]
    close(weights @ given[2], found)


def test_more_queries_than_keys_need_positions():
    given = inputs(6, 4)
    with pytest.raises(
        ValueError, match="6 queries cannot be the last positions of 4 keys"
    ):
        CausalAttention()(*given)
    CausalAttention()(*given, None, torch.arange(6))


def test_the_kernel_masks_by_itself(monkeypatch):
    """No n × n mask is given to it."""
    from companion.attention import functional

    calls, fused = [], functional.scaled_dot_product_attention

    def spy(query, key, value, mask, dropout, is_causal, scale=None):
        calls.append((mask is None, is_causal))
        return fused(query, key, value, mask, dropout, is_causal, scale=scale)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", spy)
    CausalAttention()(*inputs(6, 6))
    CausalAttention()(*inputs(1, 6))
    assert calls == [(True, True), (True, False)]


def test_copies_are_causal():
    attention, given = CausalAttention(), inputs(5, 5)
    for copied in (copy.deepcopy(attention), pickle.loads(pickle.dumps(attention))):
        assert copied.causal
        close(copied(*given), attention(*given))


def test_multi_head_attention_converts_it_to_pytorch_and_its_mask_is_given_there():
    ours = MultiHeadAttention(8, 2, CausalAttention())
    x = torch.randn(2, 5, 8)
    found = ours(x, *ours.project(x))
    future = ~dense(causal(), 5)
    expected = ours.to_torch()(x, x, x, attn_mask=future)[0]
    torch.testing.assert_close(found, expected)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "attention", [CausalAttention(), PatternAttention(causal()), LocalAttention(2)]
)
def test_kernel_and_definition_broadcast_the_same_batches(attention):
    query, key, value = inputs(3, 3, batch=(2,))
    for ones in ((query[:1], key, value), (query, key[:1], value[:1])):
        full = [x.expand(2, -1, -1) for x in ones]
        expected, weights = attention.attend(*full)
        close(attention(*ones), expected)
        close(attention.attend(*ones)[0], expected)
        close(attention.weights(*ones[:2]), weights)


@pytest.mark.parametrize("attention", [CausalAttention(), Rotary(CausalAttention())])
@pytest.mark.parametrize("grad", [False, True])
def test_decoding_needs_no_axis_for_heads(attention, grad):
    x, _, value = inputs(9, 9, (2,))
    with torch.set_grad_enabled(grad):
        state, found = attention.start(x, value), []
        for part, values in zip(x.split(2, 1), value.split(2, 1), strict=True):
            context, state = attention.extend(part, part, values, state)
            found.append(context)
    close(torch.cat(found, 1), attention(x, x, value))
    assert state.seen == 9


# Any other attention under the causal mask


def causal_pairs():
    return [
        (Causal(ScaledDot()), CausalAttention()),
        (Causal(LocalAttention(1)), LocalAttention(1, causal=True)),
        (Causal(PatternAttention(local(1))), PatternAttention(local(1), causal=True)),
    ]


@pytest.mark.parametrize("pair", causal_pairs())
@pytest.mark.parametrize("position", [None, torch.tensor([3, 0, 5, 1])])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_under_the_causal_mask_is_the_causal_one(pair, position, masked):
    given, (masking, causal_one) = inputs(4, 6), pair
    mask = torch.rand(2, 1, 4, 6) < 0.6 if masked else None
    close(masking(*given, mask, position), causal_one(*given, mask, position))
    weights = masking.weights(*given[:2], mask, position)
    close(weights, causal_one.weights(*given[:2], mask, position))


def test_a_table_of_scores_decodes_as_it_computes_a_whole_sequence():
    attention = spread(Causal(RandomSynthesizer(7, heads=3)))
    query, key, value = inputs(7, 7)
    state, found = attention.start(key, value), []
    pieces = (x.split([1, 3, 1, 2], -2) for x in (query, key, value))
    for parts in zip(*pieces, strict=True):
        context, state = attention.extend(*parts, state)
        found.append(context)
    close(torch.cat(found, -2), attention(query, key, value))
    scores = attention.attention.R.masked_fill(~dense(causal(), 7), -torch.inf)
    close(attention(query, key, value), scores.softmax(-1) @ value)


@pytest.mark.usefixtures("unchecked")
def test_a_mask_that_could_be_of_queries_or_of_the_batch_is_an_error():
    x = torch.randn(3, 3, 4)
    with pytest.raises(ValueError, match="ambiguous"):
        Causal(ScaledDot())(x, x, x, torch.ones(3, 3).bool())
    with pytest.raises(TypeError, match="Causal needs Attention, not Identity"):
        Causal(torch.nn.Identity())
