"""Heads with attentions of their own are those attentions, stacked."""

import copy
import io

import pytest
import torch

from companion.attention import (
    Additive,
    Bilinear,
    DenseSynthesizer,
    Dot,
    GumbelSoftmax,
    LocalAttention,
    LocalM,
    MultiHeadAttention,
    PatternAttention,
    PerHead,
    RandomSynthesizer,
    ScaledDot,
    SparseAttention,
    masks,
    record_weights,
)
from companion.attention.kernels.merging import MergedAttention
from companion.models import TransformerDecoder, TransformerDecoderLayer
from tests.tiny import close, spread

SIZE, KEYS, QUERIES = 4, 7, 5
HEADS = {
    "scores": lambda: [Dot(), Bilinear(SIZE, SIZE), Additive(SIZE, SIZE, SIZE)],
    "halves of strided": lambda: [
        PatternAttention(masks.strided_local(2), causal=True),
        PatternAttention(masks.strided_atrous(2), causal=True),
        PatternAttention(masks.strided(2), causal=True),
    ],
    "halves of fixed": lambda: [
        PatternAttention(masks.fixed_block(3), causal=True),
        PatternAttention(masks.fixed_summary(3), causal=True),
        PatternAttention(masks.fixed(3, 2), causal=True),
    ],
    "mixed": lambda: [LocalM(Dot(), 1), SparseAttention(1, 3), RandomSynthesizer(KEYS)],
}
each = pytest.mark.parametrize("name", HEADS)


def build(name):
    return spread(PerHead(*HEADS[name]()))


def inputs(*batch):
    torch.manual_seed(0)
    kind = {"dtype": torch.float64}
    query = torch.randn(*batch, 3, QUERIES, SIZE, **kind)
    return query, torch.randn(*batch, 3, KEYS, SIZE, **kind)


@each
@pytest.mark.parametrize(
    ("batch", "mask", "position"),
    [
        ((), None, None),
        ((2,), (7,), (5,)),
        ((), (5, 7), (3, 5)),
        ((2,), (1, 5, 7), None),
        ((), (3, 1, 7), (1, 5)),
        ((2,), (3, 5, 7), (3, 5)),
    ],
)
def test_each_head_is_its_own_attention(name, batch, mask, position):
    attention, (query, source) = build(name), inputs(*batch)
    if mask is not None:
        mask = torch.rand(mask if len(mask) < 3 else (*batch, *mask)) < 0.6
    if position is not None:
        position = torch.randint(
            KEYS, (*(batch if len(position) > 1 else ()), *position)
        )
    key, value = attention.project(source)
    context = attention(query, key, value, mask, position)
    weights = attention.weights(query, key, mask, position)
    both = attention.attend(query, key, value, mask, position)
    scores = attention.score(query, key, position)
    close(both[0], context)
    close(both[1], weights)
    for head, inner in enumerate(attention.attentions):
        own_key, own_value = inner.project(source[..., head, :, :])
        own_mask, own_position = mask, position
        if mask is not None and mask.ndim > 2:
            own_mask = mask.expand(*batch, 3, -1, -1)[..., head, :, :]
        elif mask is not None:
            own_mask = mask.expand(*batch, QUERIES, KEYS)
        if position is not None and position.ndim > 1:
            own_position = position.expand(*batch, 3, -1)[..., head, :]
        own = query[..., head, :, :], own_key, own_mask, own_position
        close(weights[..., head, :, :], inner.weights(*own))
        close(scores[..., head, :, :], inner.score_at(*own[:2], own_position))
        close(context[..., head, :, :], inner.weights(*own) @ own_value)


@pytest.mark.parametrize(
    ("rules", "whole"),
    [
        ([masks.strided_local(3), masks.strided_atrous(3)], masks.strided(3)),
        ([masks.fixed_block(3), masks.fixed_summary(3)], masks.fixed(3)),
    ],
)
def test_two_heads_with_the_halves_attend_to_what_their_union_does(rules, whole):
    attention = PerHead(*(PatternAttention(rule, causal=True) for rule in rules))
    x = torch.randn(2, 2, 11, SIZE)
    halves = attention.weights(x, x) > 0
    for head, rule in enumerate(rules):
        assert torch.equal(halves[0, head], masks.dense(rule, 11))
    assert torch.equal(halves.any(1)[0], masks.dense(whole, 11))


def test_a_rule_for_each_head_can_also_be_a_mask():
    rules = [masks.strided_local(3), masks.strided_atrous(3)]
    mask = torch.stack([masks.dense(rule, 11) for rule in rules])[None]
    x = torch.randn(2, 2, 11, SIZE)
    attention = PerHead(*map(PatternAttention, rules))
    close(attention(x, x, x), ScaledDot()(x, x, x, mask))


def test_in_multi_head_attention_it_is_recorded_and_its_tiles_are_used(monkeypatch):
    inner = PerHead(LocalAttention(1, causal=True), SparseAttention(1, 3, causal=True))
    attend, x = spread(MultiHeadAttention(8, 2, inner)), torch.randn(2, 9, 8).double()
    context = attend(x, *attend.project(x))
    with record_weights(attend) as maps:
        close(attend(x, *attend.project(x)), context)
    weights = maps["attention"][0]
    for head, name in enumerate(("attention.attentions.0", "attention.attentions.1")):
        assert torch.equal(weights[:, head, None], maps[name][0])
        rule = inner.attentions[head].rule
        assert torch.equal(weights[0, head] > 0, masks.dense(rule, 9))
    calls = []
    apply = MergedAttention.apply
    monkeypatch.setattr(
        MergedAttention, "apply", lambda *args: calls.append(args) or apply(*args)
    )
    close(attend(x, *attend.project(x)), context)
    assert len(calls) == 2


@pytest.mark.parametrize("name", ["halves of strided", "halves of fixed"])
def test_a_decoder_gives_the_same_logits_in_chunks_as_at_once(name):
    layers = [TransformerDecoderLayer(12, 3, 8, 0.0, build(name)) for _ in range(2)]
    model, tokens = (
        spread(TransformerDecoder(7, layers, 0.0)),
        torch.randint(3, 7, (2, 7)),
    )
    source = torch.randn(2, 3, 12, dtype=torch.float64), torch.ones(2, 3).bool()
    expected, _ = model.run(tokens, model.start(*source))
    state, found = model.start(*source), []
    for chunk in tokens.split([3, 1, 1, 2], 1):
        logits, state = model.run(chunk, state)
        found.append(logits)
    close(torch.cat(found, 1), expected)


def test_it_says_what_its_attentions_depend_on():
    causal, plain = PatternAttention(masks.local(1), causal=True), ScaledDot()
    assert PerHead(causal, causal).causal
    assert not PerHead(causal, plain).causal
    assert PerHead(plain, causal).uses_query_position
    for flag in ("uses_query_position", "causal"):
        assert not getattr(PerHead(plain, Dot()), flag)
    with pytest.raises(
        TypeError, match="cannot use PatternAttention, which has weights"
    ):
        GumbelSoftmax(PerHead(plain, causal))
    with pytest.raises(
        TypeError, match="cannot use DenseSynthesizer, which depends on"
    ):
        LocalM(PerHead(plain, DenseSynthesizer(4, 7)), 1)


@each
def test_saved_and_copied_it_is_the_same(name):
    attention, file, (query, source) = build(name), io.BytesIO(), inputs(2)
    torch.save(attention, file)
    file.seek(0)
    expected = attention(query, *attention.project(source))
    for other in (torch.load(file, weights_only=False), copy.deepcopy(attention)):
        assert torch.equal(other(query, *other.project(source)), expected)


@pytest.mark.usefixtures("unchecked")
def test_bad_attentions_and_other_numbers_of_heads_are_errors():
    with pytest.raises(ValueError, match="heads must be at least 1, not 0"):
        PerHead()
    with pytest.raises(TypeError, match="PerHead needs Attention, not Linear"):
        PerHead(Dot(), torch.nn.Linear(2, 2))
    attention, (query, source) = PerHead(Dot(), Dot()), inputs(2)
    for call in (
        lambda: attention.project(source),
        lambda: attention.weights(query, source),
        lambda: attention(query, source, source),
        lambda: attention(query[0, 0], source[0, 0], source[0, 0]),
    ):
        with pytest.raises(ValueError, match="no axis of 2 heads"):
            call()
    with pytest.raises(ValueError, match=r"the same sizes, not \[\(4, 4\), \(3, 4\)\]"):
        PerHead(Dot(), Additive(SIZE, SIZE, 3)).project(source[:, :2].float())
    heads = MultiHeadAttention(16, 4, PerHead(*4 * [Dot()]), key_value_heads=2)
    with pytest.raises(ValueError, match=r"a source .* no axis of 4 heads"):
        heads.project(torch.randn(1, 5, 16))
