"""What every :class:`Attention` promises. A new mechanism joins with one row in ``MECHANISMS``.

Every axis has another size, each of them prime, so that no two can be taken for each other:
queries 5, keys 7, and 2 and 3 for the batch.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

from companion.attention import (
    MLP,
    Additive,
    AlignedQuestionAttention,
    AtrousAttention,
    Attention,
    Bilinear,
    Concat,
    Cosine,
    DenseSynthesizer,
    Dot,
    FactorizedDense,
    FactorizedRandom,
    FixedRandom,
    GumbelSoftmax,
    HiddenDot,
    LocalAttention,
    LocalM,
    LocalP,
    Location,
    LocationSensitive,
    Mixture,
    RandomSynthesizer,
    ScaledDot,
    SparseAttention,
    masked_softmax,
    record_weights,
)


class Row(NamedTuple):
    build: Callable[[], Attention]
    query_size: int
    source_size: int
    promises_not: tuple[str, ...] = ()  # tests of what its equations do not promise


SOFTMAX = (
    "test_weights_are_the_masked_softmax_of_the_scores_and_forward_is_their_average"
)
SUM = "test_rows_sum_to_one_or_are_zero"
PERMUTED = "test_permuting_the_keys_permutes_the_weights"
SOURCE_SIZE = (
    "test_a_source_of_another_size_than_announced_is_an_error_with_the_numbers"
)
COMPILED = "test_compiled_into_one_graph"
ALONE = "test_queries_do_not_see_each_other"  # but their place among the keys counts
CONTENT = "test_the_score_depends_on_query_and_key"
QUERY_SIZE = "test_a_query_of_another_size_than_announced_is_an_error_with_the_numbers"
UNCONDITIONAL = (PERMUTED, SOURCE_SIZE, ALONE, CONTENT, QUERY_SIZE)
MECHANISMS = {
    "additive": Row(lambda: Additive(11, 13, 17), 11, 13),
    "gumbel": Row(lambda: GumbelSoftmax(Additive(11, 13, 17)).eval(), 11, 13),
    "location": Row(
        lambda: LocationSensitive(11, 13, 17, channels=19, width=23), 11, 13
    ),
    "dot": Row(Dot, 11, 11),
    "scaled dot": Row(ScaledDot, 11, 11),
    "cosine": Row(lambda: Cosine(strength=3.0), 11, 11),
    "bilinear": Row(lambda: Bilinear(11, 13), 11, 13),
    "concat": Row(lambda: Concat(11, 13, 17), 11, 13),
    "hidden dot": Row(lambda: HiddenDot(11), 11, 11),
    "mlp": Row(lambda: MLP(11, 13, 17, layers=3), 11, 13),
    "aligned": Row(lambda: AlignedQuestionAttention(11, 17), 11, 11),
    # These see all keys here, and less in tests/test_sparse.py. Compiled they are there, without type checks.
    "local": Row(lambda: LocalAttention(7), 11, 11, (COMPILED,)),
    "atrous": Row(lambda: AtrousAttention(1), 11, 11, (COMPILED,)),
    "sparse": Row(lambda: SparseAttention(1, 1), 11, 11, (COMPILED,)),
    "dense": Row(lambda: DenseSynthesizer(11, 7), 11, 13, (PERMUTED, SOURCE_SIZE)),
    "factorized dense": Row(
        lambda: FactorizedDense(11, 2, 4), 11, 13, (PERMUTED, SOURCE_SIZE)
    ),
    "random": Row(lambda: RandomSynthesizer(7), 11, 13, UNCONDITIONAL),
    "fixed random": Row(lambda: FixedRandom(7), 11, 13, UNCONDITIONAL),
    "factorized random": Row(lambda: FactorizedRandom(7, 2), 11, 13, UNCONDITIONAL),
    "mixture": Row(
        lambda: Mixture(ScaledDot(), DenseSynthesizer(11, 7), RandomSynthesizer(7)),
        11,
        11,
        (PERMUTED, ALONE),
    ),
    "luong location": Row(lambda: Location(11, 7), 11, 13, (PERMUTED, SOURCE_SIZE)),
    "local-m": Row(lambda: LocalM(Bilinear(11, 13), 7), 11, 13),
    "local-p": Row(
        lambda: LocalP(Bilinear(11, 13), 7, 11), 11, 13, (SOFTMAX, SUM, PERMUTED)
    ),
}
BATCHES = [(), (3,), (2, 3)]
QUERIES, KEYS = 5, 7


class Caller(nn.Module):
    """Project and attend in one call."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, query, source, mask):
        return self.attention(query, *self.attention.project(source), mask)


def pytest_generate_tests(metafunc):
    """Each test runs for every mechanism that promises it."""
    test = metafunc.function.__name__
    rows = {
        name: row for name, row in MECHANISMS.items() if test not in row.promises_not
    }
    metafunc.parametrize("row", rows.values(), ids=rows.keys(), indirect=True)


@pytest.fixture
def row(request) -> Row:
    torch.manual_seed(0)
    return request.param


@pytest.fixture
def attention(row) -> Attention:
    return row.build()


def draw(row, batch=(3,), **kind):
    """A query and a source."""
    query = torch.randn(*batch, QUERIES, row.query_size, **kind)
    return query, torch.randn(*batch, KEYS, row.source_size, **kind)


def some_mask(batch=(3,)):
    """Each query may attend to some keys, and the first of all to none."""
    mask = torch.rand(*batch, QUERIES, KEYS) < 0.6
    mask[..., 1] = True
    mask[(0,) * len(batch)][0] = False
    return mask


def close(found, expected, tolerance):
    torch.testing.assert_close(
        found.double().cpu(), expected.double().cpu(), atol=tolerance, rtol=tolerance
    )


@pytest.mark.parametrize("batch", BATCHES)
def test_shapes(row, attention, batch):
    query, source = draw(row, batch)
    key, value = attention.project(source)
    assert key.shape[:-1] == value.shape[:-1] == (*batch, KEYS)
    assert attention.score(query, key).shape == (*batch, QUERIES, KEYS)
    assert attention.weights(query, key).shape == (*batch, QUERIES, KEYS)
    assert attention(query, key, value).shape == (*batch, QUERIES, value.shape[-1])


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("masked", [False, True])
def test_weights_are_the_masked_softmax_of_the_scores_and_forward_is_their_average(
    row, attention, batch, masked
):
    query, source = draw(row, batch)
    mask = some_mask(batch) if masked else None
    key, value = attention.project(source)
    weights = attention.weights(query, key, mask)
    torch.testing.assert_close(
        weights, masked_softmax(attention.score(query, key), mask)
    )
    torch.testing.assert_close(attention(query, key, value, mask), weights @ value)


def test_rows_sum_to_one_or_are_zero(row, attention):
    query, source = draw(row)
    mask = some_mask()
    weights = attention.weights(query, attention.project(source)[0], mask)
    assert (weights >= 0).all()
    assert torch.equal(weights[~mask], torch.zeros(int((~mask).sum())))
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).to(weights.dtype))
    assert not mask.any(-1).all()


def test_leading_axes_are_only_batch(row, attention):
    query, source = draw(row, (2, 3))
    mask = some_mask((2, 3))
    key, value = attention.project(source)
    together = attention(query, key, value, mask)
    for a in range(2):
        for b in range(3):
            key, value = attention.project(source[a, b])
            torch.testing.assert_close(
                together[a, b], attention(query[a, b], key, value, mask[a, b])
            )


def test_queries_do_not_see_each_other(row, attention):
    query, source = draw(row)
    key, value = attention.project(source)
    together = attention(query, key, value)
    for i in range(QUERIES):
        torch.testing.assert_close(
            together[:, i : i + 1], attention(query[:, i : i + 1], key, value)
        )


@pytest.mark.parametrize(
    "shape", [(KEYS,), (1, KEYS), (QUERIES, KEYS), (3, 1, KEYS), (1, QUERIES, KEYS)]
)
def test_a_mask_broadcasts(row, attention, shape):
    query, source = draw(row)
    mask = torch.rand(shape) < 0.6
    key, value = attention.project(source)
    full = mask.expand(3, QUERIES, KEYS)
    torch.testing.assert_close(
        attention(query, key, value, mask), attention(query, key, value, full)
    )


def test_masked_keys_have_no_influence_and_get_no_gradient(row, attention):
    query, source = draw(row)
    mask = torch.tensor([True, True, False, True, False, False, True])
    other = source.clone()
    other[:, ~mask] = 100 * torch.randn(3, 3, row.source_size)
    source.requires_grad_()
    output = attention(query, *attention.project(source), mask)
    assert torch.equal(output, attention(query, *attention.project(other), mask))
    output.square().sum().backward()
    assert torch.equal(source.grad[:, ~mask], torch.zeros(3, 3, row.source_size))
    assert (source.grad[:, mask] != 0).any(-1).all()


def test_where_nothing_may_be_attended_to_output_and_gradients_are_zero(row, attention):
    query, source = (x.requires_grad_() for x in draw(row))
    mask = torch.ones(3, QUERIES, KEYS).bool()
    mask[1] = False
    output = attention(query, *attention.project(source), mask)
    assert torch.equal(output[1], torch.zeros_like(output[1]))
    output.square().sum().backward()
    for x in (query, source):  # some do not look at the query
        assert x.grad is None or torch.equal(x.grad[1], torch.zeros_like(x[1]))
    gradients = [
        x.grad for x in (query, source, *attention.parameters()) if x.grad is not None
    ]
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_permuting_the_keys_permutes_the_weights(row, attention):
    query, source = draw(row)
    order = torch.randperm(KEYS)
    key, value = attention.project(source)
    moved_key, moved_value = attention.project(source[:, order])
    torch.testing.assert_close(
        attention.weights(query, moved_key), attention.weights(query, key)[..., order]
    )
    torch.testing.assert_close(
        attention(query, moved_key, moved_value), attention(query, key, value)
    )


def test_the_score_depends_on_query_and_key(row, attention):
    query, source = draw(row)
    weights = attention.weights(query, attention.project(source)[0])
    assert not torch.allclose(weights[:, 0], weights[:, 1], atol=1e-4)
    assert not torch.allclose(weights[..., 0], weights[..., 1], atol=1e-4)
    assert not torch.allclose(weights[0], weights[1], atol=1e-4)


def test_gradients_are_right(row, attention):
    attention = attention.double()
    query, source = (x.requires_grad_() for x in draw(row, (2,), dtype=torch.float64))
    mask = some_mask((2,))
    names, parameters = [], []  # a mechanism may have none
    for name, parameter in attention.named_parameters():
        names.append(name)
        parameters.append(parameter)

    def output(query, source, *parameters):
        given = {
            f"attention.{name}": p for name, p in zip(names, parameters, strict=True)
        }
        return functional_call(Caller(attention), given, (query, source, mask))

    assert gradcheck(output, (query, source, *parameters), fast_mode=True)


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16", "autocast"])
def test_every_device_and_precision(row, attention, device, precision):
    query, source = draw(row, (2, 3), dtype=torch.float64)
    mask = some_mask((2, 3))
    expected = Caller(attention.double())(query, source, mask)
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    attention = attention.to(device, dtype)
    query, source = (x.to(device, dtype).requires_grad_() for x in (query, source))
    with torch.autocast(device, torch.bfloat16, enabled=precision == "autocast"):
        found = Caller(attention)(query, source, mask.to(device))
    assert found.device.type == device
    if precision != "autocast":
        assert found.dtype == dtype
    close(found, expected, {"float64": 1e-10, "float32": 1e-4}.get(precision, 5e-2))
    found.square().sum().backward()
    reached = (query, source, *attention.parameters())
    assert all(x.grad is None or x.grad.isfinite().all() for x in reached)


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.usefixtures("unchecked")
def test_compiled_into_one_graph(row, attention, device):
    torch.compiler.reset()
    caller = Caller(attention).to(device)
    query, source, mask = (x.to(device) for x in (*draw(row), some_mask()))
    compiled = torch.compile(
        caller, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager"
    )
    close(compiled(query, source, mask), caller(query, source, mask), 1e-5)


def test_record_weights_sees_it(row, attention):
    query, source = draw(row)
    mask = some_mask()
    caller = Caller(attention)
    expected = caller(query, source, mask)
    with record_weights(caller) as maps:
        torch.testing.assert_close(caller(query, source, mask), expected)
    (found,) = maps["attention"]
    torch.testing.assert_close(
        found, attention.weights(query, attention.project(source)[0], mask).detach()
    )


def test_a_state_dict_makes_the_same_attention(row, attention, tmp_path):
    query, source = draw(row)
    torch.save(attention.state_dict(), tmp_path / "attention.pt")
    other = row.build()
    other.load_state_dict(torch.load(tmp_path / "attention.pt", weights_only=True))
    assert torch.equal(
        Caller(other)(query, source, None), Caller(attention)(query, source, None)
    )


def test_an_empty_source_is_an_error(row, attention):
    query, _ = draw(row)
    with pytest.raises(ValueError, match="no key"):
        Caller(attention)(query, torch.randn(3, 0, row.source_size), None)


@pytest.mark.usefixtures("unchecked")
def test_a_mask_that_is_not_boolean_is_an_error(row, attention):
    with pytest.raises(TypeError, match=r"torch\.float32"):
        Caller(attention)(*draw(row), torch.ones(KEYS))


@pytest.mark.parametrize(
    "shape", [(KEYS + 1,), (QUERIES,), (2, QUERIES, KEYS), (1, 3, QUERIES, KEYS)]
)
def test_a_mask_that_does_not_fit_is_an_error(row, attention, shape):
    with pytest.raises(ValueError, match=rf"\({shape[0]}.*\(3, 5, 7\)"):
        Caller(attention)(*draw(row), torch.ones(shape, dtype=torch.bool))


@pytest.mark.usefixtures("unchecked")
def test_keys_and_values_that_do_not_pair_are_an_error(row, attention):
    query, source = draw(row)
    key, value = attention.project(source)
    with pytest.raises(ValueError, match="7 keys but 6 values"):
        attention(query, key, value[:, :-1])


def either_order(a, b):
    return rf"\b{a} .*\b{b}\b|\b{b} .*\b{a}\b"


def test_a_query_of_another_size_than_announced_is_an_error_with_the_numbers(
    row, attention
):
    _, source = draw(row)
    with pytest.raises(
        ValueError, match=either_order(row.query_size + 1, row.query_size)
    ):
        Caller(attention)(torch.randn(3, QUERIES, row.query_size + 1), source, None)


def test_a_source_of_another_size_than_announced_is_an_error_with_the_numbers(
    row, attention
):
    query, _ = draw(row)
    with pytest.raises(
        ValueError, match=either_order(row.source_size + 1, row.source_size)
    ):
        Caller(attention)(query, torch.randn(3, KEYS, row.source_size + 1), None)
