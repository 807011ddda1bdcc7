"""What every :class:`Attention` promises. The rows are in ``mechanisms.py``.

Every axis has another size, each of them prime, so that no two can be confused: queries 5,
keys 7, and 2 and 3 for the batch.
"""

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

from companion.attention import (
    AtrousAttention,
    Attention,
    Dot,
    FactorizedRandom,
    FixedRandom,
    GumbelSoftmax,
    LinearBias,
    LocalAttention,
    LocalM,
    Mixture,
    RandomSynthesizer,
    SparseAttention,
    masked_softmax,
    record_weights,
)
from tests.contracts.mechanisms import MECHANISMS, Row

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
    if "row" not in metafunc.fixturenames:
        return
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


def inputs(row, batch=(3,), **kind):
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
    query, source = inputs(row, batch)
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
    query, source = inputs(row, batch)
    mask = some_mask(batch) if masked else None
    key, value = attention.project(source)
    weights = attention.weights(query, key, mask)
    torch.testing.assert_close(
        weights, masked_softmax(attention.score(query, key), mask)
    )
    torch.testing.assert_close(attention(query, key, value, mask), weights @ value)


def test_rows_sum_to_one_or_are_zero(row, attention):
    query, source = inputs(row)
    mask = some_mask()
    weights = attention.weights(query, attention.project(source)[0], mask)
    assert (weights >= 0).all()
    assert torch.equal(weights[~mask], torch.zeros(int((~mask).sum())))
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).to(weights.dtype))
    assert not mask.any(-1).all()


def test_leading_axes_are_only_batch(row, attention):
    query, source = inputs(row, (2, 3))
    mask = some_mask((2, 3))
    key, value = attention.project(source)
    together = attention(query, key, value, mask)
    for a in range(2):
        for b in range(3):
            key, value = attention.project(source[a, b])
            torch.testing.assert_close(
                together[a, b], attention(query[a, b], key, value, mask[a, b])
            )


def test_queries_do_not_depend_on_each_other(row, attention):
    """One by one, as a decoder asks, each with its position."""
    query, source = inputs(row)
    mask = some_mask()
    key, value = attention.project(source)
    together, weights = attention.attend(query, key, value, mask)
    for i in range(QUERIES):
        position = torch.tensor([KEYS - QUERIES + i])
        alone = attention(query[:, [i]], key, value, mask[:, [i]], position)
        torch.testing.assert_close(together[:, [i]], alone)
        torch.testing.assert_close(
            weights[:, [i]],
            attention.weights(query[:, [i]], key, mask[:, [i]], position),
        )


@pytest.mark.parametrize("masked", [False, True])
def test_queries_are_by_default_the_last_positions(row, attention, masked):
    query, source = inputs(row)
    mask = some_mask() if masked else None
    key, value = attention.project(source)
    last = torch.arange(KEYS - QUERIES, KEYS)
    for position in (last, last.expand(3, QUERIES), last.int()):
        torch.testing.assert_close(
            attention.weights(query, key, mask, position),
            attention.weights(query, key, mask),
        )
        torch.testing.assert_close(
            attention(query, key, value, mask, position),
            attention(query, key, value, mask),
        )


def weights_at_first_and_last_positions(attention, query, source):
    key, _ = attention.project(source)
    first, last = torch.arange(QUERIES), torch.arange(KEYS - QUERIES, KEYS)
    return (attention.weights(query, key, None, position) for position in (first, last))


def test_only_what_says_so_depends_on_the_query_position(row, attention):
    first, last = weights_at_first_and_last_positions(attention, *inputs(row))
    assert attention.uses_query_position or torch.equal(first, last)


POSITIONED = {
    "local": lambda: LocalAttention(1),
    "atrous": lambda: AtrousAttention(3),
    "sparse": lambda: SparseAttention(1, 3),
    "local-m": lambda: LocalM(Dot(), 1),
    "random": lambda: RandomSynthesizer(7),
    "fixed random": lambda: FixedRandom(7),
    "factorized random": lambda: FactorizedRandom(7, 2),
    "mixture": lambda: Mixture(Dot(), RandomSynthesizer(7)),
    "gumbel": lambda: GumbelSoftmax(RandomSynthesizer(7)).eval(),
    "linear bias": lambda: LinearBias(0.3),
}


@pytest.mark.parametrize("name", POSITIONED)
def test_what_says_so_depends_on_the_query_position(name):
    torch.manual_seed(0)
    attention = POSITIONED[name]()
    query, source = torch.randn(3, QUERIES, 11), torch.randn(3, KEYS, 11)
    first, last = weights_at_first_and_last_positions(attention, query, source)
    assert attention.uses_query_position
    assert not torch.allclose(first, last)
    key, value = attention.project(source)
    position = torch.arange(KEYS - QUERIES, KEYS)
    close(
        attention(query, key, value), attention(query, key, value, None, position), 1e-6
    )
    close(last, attention.weights(query, key), 0.0)


def test_each_sequence_may_have_positions_of_its_own(row, attention):
    query, source = inputs(row)
    key, value = attention.project(source)
    position = torch.tensor([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6], [6, 0, 3, 3, 1]])
    context, weights = attention.attend(query, key, value, None, position)
    for b in range(3):
        alone = (query[b : b + 1], key[b : b + 1])
        torch.testing.assert_close(
            weights[b : b + 1], attention.weights(*alone, None, position[b])
        )
        torch.testing.assert_close(
            context[b : b + 1], attention(*alone, value[b : b + 1], None, position[b])
        )


@pytest.mark.parametrize("position", [[2], [[0], [4], [6]]])
def test_one_position_is_that_of_every_query(row, attention, position):
    query, source = inputs(row)
    key, value = attention.project(source)
    one = torch.tensor(position)
    full = one.expand(*one.shape[:-1], QUERIES)
    expected, weights = attention.attend(query, key, value, None, full)
    torch.testing.assert_close(attention(query, key, value, None, one), expected)
    torch.testing.assert_close(attention.weights(query, key, None, one), weights)


def test_attend_returns_the_context_of_forward_and_the_weights(row, attention):
    query, source = inputs(row)
    mask = some_mask()
    key, value = attention.project(source)
    context, weights = attention.attend(query, key, value, mask)
    torch.testing.assert_close(context, attention(query, key, value, mask))
    torch.testing.assert_close(weights, attention.weights(query, key, mask))


def test_each_head_may_have_a_mask_of_its_own(row, attention):
    """Heads are a batch axis: ``(b, h, q, k)``, or ``(1, h, 1, k)`` for every sequence."""
    query, source = inputs(row, (3, 2))
    key, value = attention.project(source)
    full, for_all = some_mask((3, 2)), torch.rand(1, 2, 1, KEYS) < 0.6
    for mask in (full, for_all):
        together = attention(query, key, value, mask)
        for head in range(2):
            one = (query[:, head], key[:, head], value[:, head])
            torch.testing.assert_close(
                together[:, head], attention(*one, mask[:, head])
            )


@pytest.mark.parametrize(
    "shape", [(KEYS,), (1, KEYS), (QUERIES, KEYS), (3, 1, KEYS), (1, QUERIES, KEYS)]
)
def test_a_mask_broadcasts(row, attention, shape):
    query, source = inputs(row)
    mask = torch.rand(shape) < 0.6
    key, value = attention.project(source)
    full = mask.expand(3, QUERIES, KEYS)
    torch.testing.assert_close(
        attention(query, key, value, mask), attention(query, key, value, full)
    )


def test_masked_keys_have_no_influence_and_no_gradient(row, attention):
    query, source = inputs(row)
    mask = torch.tensor([True, True, False, True, False, False, True])
    other = source.clone()
    other[:, ~mask] = 100 * torch.randn(3, 3, row.source_size)
    source.requires_grad_()
    output = attention(query, *attention.project(source), mask)
    assert torch.equal(output, attention(query, *attention.project(other), mask))
    output.square().sum().backward()
    assert torch.equal(source.grad[:, ~mask], torch.zeros(3, 3, row.source_size))
    assert (source.grad[:, mask] != 0).any(-1).all()


def test_the_output_and_gradients_of_a_fully_masked_row_are_zero(row, attention):
    query, source = (x.requires_grad_() for x in inputs(row))
    mask = torch.ones(3, QUERIES, KEYS).bool()
    mask[1] = False
    output = attention(query, *attention.project(source), mask)
    assert torch.equal(output[1], torch.zeros_like(output[1]))
    output.square().sum().backward()
    for x in (query, source):  # some do not use the query
        assert x.grad is None or torch.equal(x.grad[1], torch.zeros_like(x[1]))
    gradients = [
        x.grad for x in (query, source, *attention.parameters()) if x.grad is not None
    ]
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_permuting_the_keys_permutes_the_weights(row, attention):
    query, source = inputs(row)
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
    query, source = inputs(row)
    weights = attention.weights(query, attention.project(source)[0])
    assert not torch.allclose(weights[:, 0], weights[:, 1], atol=1e-4)
    assert not torch.allclose(weights[..., 0], weights[..., 1], atol=1e-4)
    assert not torch.allclose(weights[0], weights[1], atol=1e-4)


def test_gradients_are_right(row, attention):
    attention = attention.double()
    query, source = (x.requires_grad_() for x in inputs(row, (2,), dtype=torch.float64))
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
    query, source = inputs(row, (2, 3), dtype=torch.float64)
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


def test_no_score_overflows_in_float16(row, attention):
    """A dot product of numbers near 200 is beyond 65,504, the largest number of float16."""
    attention = attention.half()
    query, source = (200 * x.half() for x in inputs(row))
    key, value = attention.project(source)
    context, weights = attention.attend(query, key, value)
    assert context.isfinite().all()
    assert weights.isfinite().all()
    assert weights.dtype == torch.float16
    assert attention.score(query, key).isfinite().all()


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "autocast"])
def test_weights_of_16_bits_are_those_of_float64(row, attention, precision):
    """Only what a layer of 16 bits returns, and what is rotated, is rounded before the softmax."""
    query, source = (3 * x for x in inputs(row))
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    attention, query, source = (x.to(dtype) for x in (attention, query, source))
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
        key, _ = attention.project(source)
        found = attention.weights(query, key)
    expected = attention.double().weights(query.double(), key.double())
    close(found, expected, 2e-3 if precision == "float16" else 1e-2)


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.usefixtures("unchecked")
def test_compiled_into_one_graph(row, attention, device):
    torch.compiler.reset()
    caller = Caller(attention).to(device)
    query, source, mask = (x.to(device) for x in (*inputs(row), some_mask()))
    compiled = torch.compile(
        caller, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager"
    )
    close(compiled(query, source, mask), caller(query, source, mask), 1e-5)


def test_its_weights_are_recorded(row, attention):
    query, source = inputs(row)
    mask = some_mask()
    caller = Caller(attention)
    expected = caller(query, source, mask)
    with record_weights(caller) as maps:
        torch.testing.assert_close(caller(query, source, mask), expected)
    (found,) = maps["attention"]
    torch.testing.assert_close(
        found, attention.weights(query, attention.project(source)[0], mask).detach()
    )


def test_a_state_dict_defines_the_attention(row, attention, tmp_path):
    query, source = inputs(row)
    torch.save(attention.state_dict(), tmp_path / "attention.pt")
    other = row.build()
    other.load_state_dict(torch.load(tmp_path / "attention.pt", weights_only=True))
    assert torch.equal(
        Caller(other)(query, source, None), Caller(attention)(query, source, None)
    )


def test_an_empty_source_is_an_error(row, attention):
    query, _ = inputs(row)
    with pytest.raises(ValueError, match="no key"):
        Caller(attention)(query, torch.randn(3, 0, row.source_size), None)


@pytest.mark.usefixtures("unchecked")
def test_a_mask_that_is_not_boolean_is_an_error(row, attention):
    with pytest.raises(TypeError, match=r"torch\.float32"):
        Caller(attention)(*inputs(row), torch.ones(KEYS))


@pytest.mark.parametrize(
    "shape", [(KEYS + 1,), (QUERIES,), (2, QUERIES, KEYS), (1, 3, QUERIES, KEYS)]
)
def test_a_mask_that_does_not_fit_is_an_error(row, attention, shape):
    with pytest.raises(ValueError, match=rf"\({shape[0]}.*\(3, 5, 7\)"):
        Caller(attention)(*inputs(row), torch.ones(shape, dtype=torch.bool))


def test_a_source_mask_without_an_axis_for_the_queries_is_an_error(row, attention):
    """``(b, k)``: it would be taken for ``(q, k)`` where b = q."""
    for batch in (3, QUERIES):
        query, source = inputs(row, (batch,))
        key, value = attention.project(source)
        mask = torch.rand(batch, KEYS) < 0.6
        for call in (attention, attention.attend):
            with pytest.raises(ValueError, match=r"mask\[:, None\]"):
                call(query, key, value, mask)
        with pytest.raises(ValueError, match=r"mask\[:, None\]"):
            attention.weights(query, key, mask)
        assert attention(query, key, value, mask[:, None]).isfinite().all()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("other", ["query", "key", "value"])
def test_batches_of_different_sizes_are_an_error(row, attention, other):
    query, source = inputs(row)
    key, value = attention.project(source)
    given = {"query": query, "key": key, "value": value}
    given[other] = torch.cat([given[other], given[other]])
    for call in (attention, attention.attend):
        with pytest.raises(RuntimeError, match=r"length (6|3) .*(3|6)"):
            call(**given)


@pytest.mark.usefixtures("unchecked")
def test_inputs_of_one_axis_are_an_error(row, attention):
    query, source = inputs(row)
    key, value = attention.project(source)
    for given in ((query[0, 0], key, value), (query, key[0, 0], value[0, 0])):
        with pytest.raises(ValueError, match=r"\((11|12|13|17),\)"):
            attention(*given)


@pytest.mark.usefixtures("unchecked")
def test_keys_and_values_that_do_not_pair_are_an_error(row, attention):
    query, source = inputs(row)
    key, value = attention.project(source)
    with pytest.raises(ValueError, match="7 keys but 6 values"):
        attention(query, key, value[:, :-1])


def either_order(a, b):
    return rf"(?<!\d)({a}(?!\d).*(?<!\d){b}|{b}(?!\d).*(?<!\d){a})(?!\d)"


@pytest.mark.usefixtures("unchecked")
def test_a_query_of_another_size_than_announced_is_an_error_with_the_numbers(
    row, attention
):
    _, source = inputs(row)
    with pytest.raises(
        (ValueError, RuntimeError),
        match=either_order(row.query_size + 1, row.query_size),
    ):
        Caller(attention)(torch.randn(3, QUERIES, row.query_size + 1), source, None)


@pytest.mark.usefixtures("unchecked")
def test_a_source_of_another_size_than_announced_is_an_error_with_the_numbers(
    row, attention
):
    query, _ = inputs(row)
    with pytest.raises(
        (ValueError, RuntimeError),
        match=either_order(row.source_size + 1, row.source_size),
    ):
        Caller(attention)(query, torch.randn(3, KEYS, row.source_size + 1), None)
