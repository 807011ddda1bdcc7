"""Synthesizers against the paper's equations; what they promise as attentions is in ``test_contract``."""

import pytest
import torch
from torch import nn

from companion.attention import (
    Additive,
    Bilinear,
    DenseSynthesizer,
    FactorizedDense,
    FactorizedRandom,
    FixedRandom,
    Mixture,
    MultiHeadAttention,
    RandomSynthesizer,
    ScaledDot,
    masked_softmax,
)
from companion.models import TransformerDecoder, TransformerDecoderLayer
from tests.reference import scalars, tay_2021
from tests.tiny import close, spread

SIZE, LONGEST = 4, 6
KINDS = {
    "dense": (
        lambda heads: DenseSynthesizer(SIZE, LONGEST, heads),
        tay_2021.dense_scores,
    ),
    "factorized dense": (
        lambda heads: FactorizedDense(SIZE, 2, 3, heads),
        tay_2021.factorized_dense_scores,
    ),
    "random": (
        lambda heads: RandomSynthesizer(LONGEST, heads),
        tay_2021.random_scores,
    ),
    "fixed random": (
        lambda heads: FixedRandom(LONGEST, heads),
        tay_2021.random_scores,
    ),
    "factorized random": (
        lambda heads: FactorizedRandom(LONGEST, 2, heads),
        tay_2021.factorized_random_scores,
    ),
}
each_kind = pytest.mark.parametrize("name", KINDS)
UNCONDITIONAL = ["random", "fixed random", "factorized random"]


def build(name, heads=None):
    return spread(KINDS[name][0](heads))


def sequence(*batch, length=LONGEST):
    torch.manual_seed(0)
    return torch.randn(*batch, length, SIZE, dtype=torch.float64)


@each_kind
@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize("length", [1, 5, LONGEST])
def test_scores_are_the_papers(name, heads, length):
    synthesizer, x = build(name, heads), sequence(2, 3, length=length)
    scores = synthesizer.score(x, x)
    parameters = scalars.values(synthesizer)
    for b in range(2):
        for h in range(3):
            for i in range(length):
                head = None if heads is None else h
                row = x[b, h, i].tolist()
                close(scores[b, h, i], KINDS[name][1](parameters, row, i, length, head))


@each_kind
def test_the_keys_content_does_not_matter(name):
    synthesizer, x = build(name), sequence(2)
    assert torch.equal(
        synthesizer.weights(x, x), synthesizer.weights(x, torch.randn_like(x))
    )


@pytest.mark.parametrize("name", UNCONDITIONAL)
def test_no_content_matters_to_a_table(name):
    synthesizer, x = build(name), sequence(2)
    assert torch.equal(
        synthesizer.score(x, x), synthesizer.score(torch.randn_like(x), x)
    )


@each_kind
@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize(
    "mask", [None, (6,), (1, 1, 6), (2, 1, 1, 6), (6, 6), (1, 1, 6, 6), (2, 3, 6, 6)]
)
def test_forward_is_the_average_under_the_weights(name, heads, mask):
    synthesizer, x = build(name, heads), sequence(2, 3)
    may = None if mask is None else torch.rand(mask) < 0.6
    weights = masked_softmax(synthesizer.score(x, x), may)
    close(synthesizer.weights(x, x, may), weights)
    close(synthesizer(x, x, x, may), weights @ x)


@each_kind
@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize("batch", [(0, 3), (2, 0, 3)])
def test_an_empty_batch_has_empty_contexts(name, heads, batch):
    x = sequence(*batch)
    assert build(name, heads)(x, x, x).shape == x.shape


def test_factorized_dense_gives_every_position_a_score_of_its_own():
    scores = spread(FactorizedDense(SIZE, 4, 8)).score(
        sequence(length=5), sequence(length=32)
    )
    assert all(len(set(row)) == 32 for row in scores.tolist())


@each_kind
def test_the_last_queries_are_the_last_of_the_sequence(name):
    synthesizer, x = build(name), sequence(2)
    close(synthesizer(x[:, 4:], x, x), synthesizer(x, x, x)[:, 4:])


def stack(attention):
    layers = [
        TransformerDecoderLayer(12, 3, 8, dropout=0.0, attention=attention)
        for _ in range(2)
    ]
    return spread(TransformerDecoder(7, layers, dropout=0.0))


@each_kind
@pytest.mark.parametrize("heads", [None, 3])
def test_a_decoder_reads_in_pieces_what_it_reads_at_once(name, heads):
    model = stack(build(name, heads))
    tokens = torch.randint(3, 7, (2, LONGEST))
    source, mask = (
        torch.randn(2, 5, 12, dtype=torch.float64),
        torch.ones(2, 5, dtype=torch.bool),
    )
    at_once, _ = model.run(tokens, model.start(source, mask))
    state, pieces = model.start(source, mask), []
    for piece in tokens.split([1, 3, 1, 1], 1):
        logits, state = model.run(piece, state)
        pieces.append(logits)
    close(torch.cat(pieces, 1), at_once)


def test_a_fixed_table_is_saved_and_not_trained():
    attention = MultiHeadAttention(12, 3, FixedRandom(LONGEST, heads=3))
    attention(x := torch.randn(2, 5, 12), *attention.project(x)).sum().backward()
    assert attention.attention.R.grad is None
    assert "attention.R" in attention.state_dict()


@pytest.mark.parametrize(
    ("synthesizer", "expected"),
    [
        (DenseSynthesizer(SIZE, LONGEST), SIZE**2 + SIZE + SIZE * LONGEST + LONGEST),
        (FactorizedDense(SIZE, 2, 3), SIZE**2 + SIZE + SIZE * (2 + 3) + 2 + 3),
        (RandomSynthesizer(LONGEST), LONGEST**2),
        (FactorizedRandom(LONGEST, 2), 2 * LONGEST * 2),
        (RandomSynthesizer(LONGEST, heads=3), 3 * LONGEST**2),
    ],
)
def test_parameters_are_those_of_table_1_and_biases(synthesizer, expected):
    assert sum(parameter.numel() for parameter in synthesizer.parameters()) == expected


def test_a_mixture_adds_scores_in_learnt_shares():
    parts = [ScaledDot(), build("dense"), build("random")]
    mixture, x = Mixture(*parts).double(), sequence(2)
    nn.init.normal_(mixture.logits)
    shares = scalars.softmax(mixture.logits.tolist())
    close(
        mixture.score(x, x),
        sum(a * p.score(x, x) for a, p in zip(shares, parts, strict=True)),
    )
    mixture(x, x, x).square().sum().backward()
    assert (mixture.logits.grad != 0).all()


@each_kind
def test_a_sequence_beyond_the_longest_is_an_error(name):
    x = sequence(2, length=LONGEST + 1)
    with pytest.raises(ValueError, match="7 positions, but the synthesizer only 6"):
        build(name)(x, x, x)


@each_kind
def test_more_queries_than_keys_are_an_error(name):
    x = sequence(2)
    with pytest.raises(ValueError, match=r"6 queries .* 5 keys"):
        build(name)(x, x[:, 1:], x[:, 1:])


@each_kind
@pytest.mark.parametrize("batch", [(), (2,), (2, 4)])
def test_other_heads_than_announced_are_an_error(name, batch):
    x = sequence(*batch)
    with pytest.raises(ValueError, match="no axis of 3 heads"):
        build(name, heads=3)(x, x, x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DenseSynthesizer(0, 6), "size must be at least 1, not 0"),
        (lambda: DenseSynthesizer(4, 0), "max_length must be at least 1, not 0"),
        (lambda: RandomSynthesizer(-1), "max_length must be at least 1, not -1"),
        (lambda: RandomSynthesizer(6, heads=0), "heads must be at least 1, not 0"),
        (lambda: FactorizedDense(4, 0, 3), "a must be at least 1, not 0"),
        (lambda: FactorizedRandom(6, 0), "rank must be at least 1, not 0"),
        (Mixture, "at least one attention, not 0"),
        (
            lambda: Mixture(Bilinear(4, 4), RandomSynthesizer(6)),
            r"source itself as key, but Bilinear \(number 0 of 2\) projects",
        ),
        (
            lambda: Mixture(RandomSynthesizer(6), Additive(4, 4, 4)),
            r"but Additive \(number 1 of 2\) projects it first",
        ),
    ],
)
def test_bad_sizes_are_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.usefixtures("unchecked")
def test_a_table_does_not_hide_that_queries_and_values_are_of_other_batches():
    table = RandomSynthesizer(7)
    queries, values = torch.randn(3, 7, 4), torch.randn(2, 7, 4)
    with pytest.raises(RuntimeError, match="size"):
        table(queries, values, values)
    close(table(queries[:1], values, values), table(values, values, values))
