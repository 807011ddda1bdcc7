"""Synthesizers against the paper's equations; their contract is in ``tests/contracts``."""

import io

import pytest
import torch
from torch import nn
from torch.func import grad, vmap

from companion.attention import (
    Additive,
    Bilinear,
    Causal,
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
def test_scores_do_not_depend_on_the_content_of_the_keys(name):
    synthesizer, x = build(name), sequence(2)
    assert torch.equal(
        synthesizer.weights(x, x), synthesizer.weights(x, torch.randn_like(x))
    )


@pytest.mark.parametrize("name", UNCONDITIONAL)
def test_a_table_does_not_depend_on_the_content_of_the_query_either(name):
    synthesizer, x = build(name), sequence(2)
    assert torch.equal(
        synthesizer.score(x, x), synthesizer.score(torch.randn_like(x), x)
    )


@each_kind
@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize(
    "mask", [None, (6,), (1, 1, 1, 6), (2, 1, 1, 6), (6, 6), (1, 1, 6, 6), (2, 3, 6, 6)]
)
def test_forward_is_the_average_of_the_values_under_the_weights(name, heads, mask):
    synthesizer, x = build(name, heads), sequence(2, 3)
    visible = None if mask is None else torch.rand(mask) < 0.6
    weights = masked_softmax(synthesizer.score(x, x), visible)
    close(synthesizer.weights(x, x, visible), weights)
    close(synthesizer(x, x, x, visible), weights @ x)


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
def test_by_default_the_queries_are_the_last_positions(name):
    synthesizer, x = build(name), sequence(2)
    close(synthesizer(x[:, 4:], x, x), synthesizer(x, x, x)[:, 4:])


@pytest.mark.parametrize("name", UNCONDITIONAL)
@pytest.mark.parametrize("heads", [None, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_a_table_has_the_row_of_each_query_position(name, heads, masked):
    synthesizer, x = build(name, heads), sequence(2, 3)
    mask = torch.rand(2, 1, 1, 6) < 0.6 if masked else None
    table = synthesizer.weights(x, x, mask)
    contexts = synthesizer(x, x, x, mask)
    position = torch.tensor([[[4, 0, 4]], [[1, 5, 2]]])  # (b, 1, q)
    for given in (position[0, 0], position):
        rows = given.expand(2, 3, 3)[..., None].expand(-1, -1, -1, 6)
        found = synthesizer.weights(x[:, :, :3], x, mask, given)
        close(found, table.gather(2, rows))
        found = synthesizer(x[:, :, :3], x, x, mask, given)
        close(found, contexts.gather(2, rows[..., :SIZE]))


@pytest.mark.parametrize("position", [-1, LONGEST])
@pytest.mark.parametrize("name", UNCONDITIONAL)
def test_a_position_outside_the_table_is_an_error(name, position):
    x = sequence(2, length=2)
    with pytest.raises(ValueError, match="requested, but the table has 6, 0 to 5"):
        build(name)(x, x, x, None, torch.tensor([0, position]))


def stack(attention):
    layers = [
        TransformerDecoderLayer(12, 3, 8, dropout=0.0, attention=attention)
        for _ in range(2)
    ]
    return spread(TransformerDecoder(7, layers, dropout=0.0))


@each_kind
@pytest.mark.parametrize("heads", [None, 3])
def test_a_decoder_gives_the_same_logits_in_chunks_as_at_once(name, heads):
    model = stack(Causal(build(name, heads)))
    tokens = torch.randint(3, 7, (2, LONGEST))
    source, mask = (
        torch.randn(2, 5, 12, dtype=torch.float64),
        torch.ones(2, 5, dtype=torch.bool),
    )
    at_once, _ = model.run(tokens, model.start(source, mask))
    state, chunks = model.start(source, mask), []
    for chunk in tokens.split([1, 3, 1, 1], 1):
        logits, state = model.run(chunk, state)
        chunks.append(logits)
    close(torch.cat(chunks, 1), at_once)


def test_a_fixed_table_is_saved_and_not_trained():
    model = MultiHeadAttention(12, 3, FixedRandom(LONGEST, heads=3))
    before = model.attention.R.clone()
    model.requires_grad_(True)
    x = torch.randn(2, 5, 12)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(x, *model.project(x)).sum().backward()
    optimizer.step()
    assert torch.equal(model.attention.R, before)
    assert not model.attention.R.requires_grad
    copy = MultiHeadAttention(12, 3, FixedRandom(LONGEST, heads=3))
    copy.load_state_dict(model.state_dict())
    assert torch.equal(copy.attention.R, before)


def test_a_fixed_table_is_the_initial_one_of_a_random_synthesizer():
    torch.manual_seed(3)
    fixed = FixedRandom(LONGEST, heads=2).R
    torch.manual_seed(3)
    assert torch.equal(fixed, RandomSynthesizer(LONGEST, heads=2).R)


@each_kind
@pytest.mark.parametrize("heads", [None, 3])
def test_reset_draws_the_initial_numbers_again(name, heads):
    torch.manual_seed(3)
    synthesizer = KINDS[name][0](heads)
    initial = {name: x.clone() for name, x in synthesizer.state_dict().items()}
    for x in synthesizer.state_dict().values():
        x.fill_(7)
    torch.manual_seed(3)
    for module in synthesizer.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    assert initial.keys() == synthesizer.state_dict().keys()
    for key, x in synthesizer.state_dict().items():
        assert torch.equal(x, initial[key])


def test_a_reset_mixture_weighs_its_scores_equally():
    mixture = Mixture(ScaledDot(), build("random"))
    nn.init.normal_(mixture.logits)
    mixture.reset_parameters()
    assert mixture.logits.tolist() == [0, 0]


@each_kind
def test_saved_and_loaded_it_is_the_same(name):
    synthesizer, x, file = build(name), sequence(2), io.BytesIO()
    torch.save(Mixture(ScaledDot(), synthesizer).double(), file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False).attentions[1]
    assert torch.equal(loaded(x, x, x), synthesizer(x, x, x))


@each_kind
def test_gradients_per_sample_by_vmap_are_those_of_autograd(name):
    synthesizer, x = build(name, heads=3), sequence(2, 3).requires_grad_()

    def loss(x):
        return synthesizer(x, x, x).square().sum()

    (expected,) = torch.autograd.grad(loss(x), x)
    close(vmap(grad(loss))(x.detach()), expected)


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


def test_a_mixture_is_a_learned_weighted_sum_of_scores():
    parts = [ScaledDot(), build("dense"), build("random")]
    mixture, x = Mixture(*parts).double(), sequence(2)
    nn.init.normal_(mixture.logits)
    weights = scalars.softmax(mixture.logits.tolist())
    close(
        mixture.score(x, x),
        sum(a * p.score(x, x) for a, p in zip(weights, parts, strict=True)),
    )
    mixture(x, x, x).square().sum().backward()
    assert (mixture.logits.grad != 0).all()


@each_kind
def test_a_sequence_beyond_the_maximum_length_is_an_error(name):
    x = sequence(2, length=LONGEST + 1)
    with pytest.raises(
        ValueError, match="7 positions, but the synthesizer has scores for 6 only"
    ):
        build(name)(x, x, x)


@pytest.mark.parametrize("name", UNCONDITIONAL)
def test_more_queries_than_keys_need_positions_in_a_table(name):
    synthesizer, x = build(name), sequence(2)
    with pytest.raises(ValueError, match=r"6 queries .* 5 keys: give their query_pos"):
        synthesizer(x, x[:, 1:], x[:, 1:])
    found = synthesizer.score(x, x[:, 1:], torch.arange(6))
    close(found, synthesizer.score(x, x)[..., :5])


@pytest.mark.parametrize("name", ["dense", "factorized dense"])
def test_more_queries_than_keys_need_no_positions_in_a_dense_synthesizer(name):
    synthesizer, x = build(name), sequence(2)
    close(synthesizer.score(x, x[:, 1:]), synthesizer.score(x, x)[..., :5])


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
def test_queries_and_values_of_other_batches_are_an_error_in_a_table():
    table = RandomSynthesizer(7).double()
    queries, values = torch.randn(3, 7, 4).double(), torch.randn(2, 7, 4).double()
    with pytest.raises(RuntimeError, match=r"length 2 .* to \[3\]"):
        table(queries, values, values)
    close(table(queries[:1], values, values), table(values, values, values))
