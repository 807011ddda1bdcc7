from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import distributed
from torch.autograd import gradcheck
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

from companion._checks import (
    check_last_positions,
    check_odd,
    check_positive,
    query_positions,
)
from companion.attention import (
    AtrousAttention,
    Attention,
    CacheRotary,
    CausalAttention,
    CausalLinearAttention,
    Concat,
    Cosine,
    DecayAttention,
    DenseSynthesizer,
    GatedDeltaAttention,
    GumbelSoftmax,
    LocalAttention,
    LocalM,
    LocalP,
    MultiHeadAttention,
    PatternAttention,
    RandomSynthesizer,
    Rotary,
    ScaledDot,
    SinkAttention,
    SparseAttention,
    dot_product_attention,
    masked_softmax,
    masks,
)
from companion.attention.base import reset_uniform, uniform_parameter
from tests.reference.scalars import softmax

numbers = st.floats(-30, 30, width=32)
rows = st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=7)


class Dot(Attention):
    """The smallest mechanism there is."""

    def score(self, query, key):
        return query @ key.mT


class Nearest(Attention):
    """Its scores depend on positions alone."""

    uses_query_position = True

    def score(self, query, key, query_position=None):
        i = query_positions(query, key.shape[-2], query_position)
        j = torch.arange(key.shape[-2])
        return -(i[..., None] - j).abs().to(query).expand(*query.shape[:-1], -1)


# masked_softmax
@given(rows)
def test_masked_softmax_is_the_formula(row):
    scores, mask = zip(*row, strict=True)
    found = masked_softmax(
        torch.tensor(scores, dtype=torch.float64), torch.tensor(mask)
    )
    torch.testing.assert_close(
        found, torch.tensor(softmax(scores, mask), dtype=torch.float64)
    )


@given(st.lists(numbers, min_size=1, max_size=7))
def test_without_a_mask_every_position_is_attended_to(scores):
    scores = torch.tensor(scores, dtype=torch.float64)
    expected = torch.tensor(softmax(scores.tolist()), dtype=torch.float64)
    torch.testing.assert_close(masked_softmax(scores), expected)
    torch.testing.assert_close(
        masked_softmax(scores, torch.ones(len(scores)).bool()), expected
    )


@pytest.mark.parametrize(
    "shape",
    [(1,), (7,), (5, 1), (5, 7), (1, 7), (1, 5, 7), (3, 1, 7), (3, 5, 1), (3, 5, 7)],
)
def test_a_mask_of_the_scores_rank_or_of_queries_and_keys_broadcasts(shape):
    torch.manual_seed(0)
    scores, mask = torch.randn(3, 5, 7), torch.rand(shape) < 0.6
    weights, full = masked_softmax(scores, mask), mask.expand(3, 5, 7)
    for b in range(3):
        for q in range(5):
            expected = softmax(scores[b, q].tolist(), full[b, q].tolist())
            torch.testing.assert_close(weights[b, q], torch.tensor(expected))


def test_a_fully_masked_row_and_its_gradient_are_zero():
    scores = torch.randn(3, 5, requires_grad=True)
    mask = torch.tensor([[True] * 5, [False] * 5, [False, True, True, False, False]])
    weights = masked_softmax(scores, mask)
    assert torch.equal(weights[1], torch.zeros(5))
    (weights * torch.arange(5)).sum().backward()
    assert scores.grad.isfinite().all()
    assert torch.equal(scores.grad[1], torch.zeros(5))
    assert torch.equal(scores.grad[~mask], torch.zeros(8))
    assert (scores.grad[0] != 0).all()


def test_a_fully_masked_row_passes_anomaly_detection():
    scores = torch.randn(2, 3, 5, requires_grad=True)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[1, 2] = False
    with torch.autograd.set_detect_anomaly(True):
        masked_softmax(scores, mask).pow(2).sum().backward()
    assert torch.equal(scores.grad[1, 2], torch.zeros(5))


@pytest.mark.parametrize("masked", [torch.inf, -torch.inf, torch.nan, 1e30])
def test_the_score_of_a_masked_position_has_no_effect(masked):
    scores = torch.tensor([1.0, masked, -2.0])
    weights = masked_softmax(scores, torch.tensor([True, False, True]))
    torch.testing.assert_close(
        weights, torch.tensor(softmax([1.0, 0.0, -2.0], [True, False, True]))
    )


@pytest.mark.parametrize("score", [-1e4, -1e9, -1e30])
def test_a_masked_position_has_weight_zero_however_low_the_other_scores(score):
    weights = masked_softmax(
        torch.tensor([score, 0.0, score]), torch.tensor([True, False, True])
    )
    assert weights.tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_large_scores_do_not_overflow_and_keep_their_dtype(dtype):
    weights = masked_softmax(
        torch.tensor([3e4, 3e4, -3e4], dtype=dtype), torch.tensor([True, True, True])
    )
    assert weights.dtype == dtype
    assert weights.tolist() == [0.5, 0.5, 0]


def test_the_gradient_of_masked_softmax_is_right():
    scores = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, False, True, True, False], [False] * 5, [True] * 5])
    assert gradcheck(lambda x: masked_softmax(x, mask), scores)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
@pytest.mark.usefixtures("unchecked")
def test_a_mask_that_is_not_boolean_is_an_error(dtype):
    with pytest.raises(TypeError, match=str(dtype)):
        masked_softmax(torch.randn(3, 5), torch.ones(3, 5, dtype=dtype))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("mask", [True, [True, False]])
def test_a_mask_that_is_not_a_tensor_is_an_error(mask):
    with pytest.raises(TypeError, match=f"it is a {type(mask).__name__}"):
        masked_softmax(torch.zeros(1, 2), mask)


@pytest.mark.parametrize(
    "shape", [(), (4,), (2, 5), (5, 3), (3, 5, 1), (1, 3, 5), (0,), (3, 0)]
)
def test_a_mask_that_does_not_fit_is_an_error(shape):
    with pytest.raises(
        ValueError,
        match=r"shape \({}.*scores of shape \(3, 5\)".format(
            ", ".join(map(str, shape))
        ),
    ):
        masked_softmax(torch.randn(3, 5), torch.ones(shape, dtype=torch.bool))


@pytest.mark.parametrize(
    ("scores", "mask"),
    [
        ((3, 5, 7), (3, 7)),  # a source mask (b, k)
        ((5, 5, 7), (5, 7)),  # the same, where b = q
        ((7, 7, 7), (7, 7)),
        ((5, 2, 5, 7), (5, 7)),  # with heads
        ((3, 2, 5, 7), (3, 5, 7)),  # a mask per sequence, of all heads
    ],
)
def test_a_mask_of_rank_two_with_a_batch_is_an_error_that_says_what_to_write(
    scores, mask
):
    with pytest.raises(ValueError, match=r"mask\[:, None\]"):
        masked_softmax(torch.randn(scores), torch.ones(mask, dtype=torch.bool))


def test_the_axes_of_an_ambiguous_mask_can_be_named():
    torch.manual_seed(0)
    scores, mask = torch.randn(5, 5, 7), torch.rand(5, 7) < 0.6
    of_batch, of_queries = (
        masked_softmax(scores, mask[:, None]),
        masked_softmax(scores, mask[None]),
    )
    for b in range(5):
        for q in range(5):
            row = scores[b, q].tolist()
            torch.testing.assert_close(
                of_batch[b, q], torch.tensor(softmax(row, mask[b].tolist()))
            )
            torch.testing.assert_close(
                of_queries[b, q], torch.tensor(softmax(row, mask[q].tolist()))
            )


def test_a_source_without_a_key_is_an_error():
    with pytest.raises(ValueError, match=r"\(3, 0\) have no key"):
        masked_softmax(torch.randn(3, 0))


# Attention


def test_a_mechanism_must_define_its_score():
    with pytest.raises(TypeError, match="score"):
        Attention()


def test_key_and_value_are_the_source_by_default():
    source = torch.randn(2, 3, 5)
    key, value = Dot().project(source)
    assert key is source
    assert value is source


def test_attend_returns_the_context_of_forward_and_the_weights():
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 3, 5), torch.randn(2, 4, 5), torch.randn(2, 4, 6)
    mask = torch.rand(2, 3, 4) < 0.6
    context, weights = Dot().attend(query, key, value, mask)
    assert torch.equal(context, Dot()(query, key, value, mask))
    assert torch.equal(weights, Dot().weights(query, key, mask))


def test_only_a_mechanism_that_uses_the_query_position_gets_it():
    query, key = torch.zeros(2, 3, 5), torch.zeros(2, 4, 5)
    position = torch.tensor([0, 3, 1])
    assert torch.equal(
        Dot().weights(query, key, None, position), torch.full((2, 3, 4), 0.25)
    )
    found = Nearest().weights(query, key, None, position)
    assert torch.equal(found.argmax(-1), position.expand(2, 3))


@pytest.fixture
def one_process():
    store = distributed.HashStore()
    distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    yield
    distributed.destroy_process_group()


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module:UserWarning")
@pytest.mark.usefixtures("unchecked", "one_process")
@pytest.mark.parametrize(
    "build", [lambda: Concat(4, 4, 4), lambda: MultiHeadAttention(4, 2)]
)
def test_a_sharded_attention_projects_where_project_is_registered(build):
    attention, x = build(), torch.randn(2, 5, 4)

    def gradients():
        attention.zero_grad()
        attention(x, *attention.project(x)).square().sum().backward()
        return [p.grad for p in attention.parameters()]

    expected = gradients()
    fully_shard(attention)
    with pytest.raises(RuntimeError, match=r"mixed .* DTensor"):
        attention.project(x)
    register_fsdp_forward_method(attention, "project")
    found = [x.full_tensor() for x in gradients()]
    torch.testing.assert_close(found, expected)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("other", [None, "text", 3, [[1.0]]], ids=str)
@pytest.mark.parametrize("name", ["query", "key", "value"])
def test_what_is_no_tensor_is_an_error_that_names_it(name, other):
    x = torch.randn(2, 5, 4)
    inputs = {"query": x, "key": x, "value": x} | {name: other}
    message = f"the {name} must be a tensor, not a {type(other).__name__}"
    for attention in (ScaledDot(), CausalLinearAttention()):
        for call in (attention, attention.attend):
            with pytest.raises(TypeError, match=message):
                call(**inputs)
    if name != "value":
        with pytest.raises(TypeError, match=message):
            ScaledDot().weights(inputs["query"], inputs["key"])
    with pytest.raises(TypeError, match=message):
        dot_product_attention(**inputs)


@pytest.mark.usefixtures("unchecked")
def test_each_key_needs_one_value():
    with pytest.raises(ValueError, match="5 keys but 4 values"):
        Dot()(torch.randn(2, 3, 7), torch.randn(2, 5, 7), torch.randn(2, 4, 7))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("query", "key", "value", "message"),
    [
        (
            (2, 3, 7),
            (4, 5, 7),
            (4, 5, 7),
            r"4.*2",
        ),
        (
            (2, 3, 7),
            (2, 5, 7),
            (4, 5, 7),
            r"4.*2",
        ),
        (
            (1, 3, 7),
            (2, 5, 7),
            (4, 5, 7),
            r"4.*2",
        ),
        ((7,), (2, 5, 7), (2, 5, 7), r"the query needs a shape .*not \(7,\)"),
        ((2, 3, 7), (7,), (2, 5, 7), r"the key needs a shape .*not \(7,\)"),
        ((2, 3, 7), (2, 5, 7), (5,), r"the value needs a shape .*not \(5,\)"),
        ((3, 7), (7,), (7,), r"the key needs a shape .*not \(7,\)"),
        ((2, 3, 7), (2, 0, 7), (2, 0, 7), r"key of shape \(2, 0, 7\) has no key"),
        ((2, 3, 0), (2, 5, 0), (2, 5, 7), r"at least one feature, not \(2, 3, 0\)"),
        ((2, 3, 7), (2, 5, 7), (2, 5, 0), r"at least one feature, not \(2, 5, 0\)"),
    ],
)
def test_inputs_whose_shapes_do_not_fit_are_an_error_with_the_numbers(
    query, key, value, message
):
    inputs = [torch.randn(shape) for shape in (query, key, value)]
    for call in (Dot(), Dot().attend):
        with pytest.raises((ValueError, RuntimeError), match=message):
            call(*inputs)


@pytest.mark.usefixtures("unchecked")
def test_a_batch_of_one_broadcasts():
    key = torch.randn(4, 5, 7)
    assert Dot()(torch.randn(1, 3, 7), key, key).shape == (4, 3, 7)
    assert Dot()(torch.randn(0, 3, 7), key[:0], key[:0]).shape == (0, 3, 7)


# query_position


def test_queries_are_by_default_the_last_positions():
    query = torch.randn(2, 3, 5)
    assert query_positions(query, 7, None).tolist() == [4, 5, 6]
    assert query_positions(query, 3, None).tolist() == [0, 1, 2]


@pytest.mark.parametrize("position", [[1, 4, 2], [[1, 4, 2], [0, 3, 6]]])
def test_positions_are_one_row_for_all_or_one_for_each_sequence(position):
    position = torch.tensor(position)
    assert torch.equal(query_positions(torch.randn(2, 3, 5), 7, position), position)


def test_one_position_is_that_of_every_query():
    query = torch.randn(2, 3, 5)
    assert query_positions(query, 7, torch.tensor([4])).tolist() == [4, 4, 4]
    found = query_positions(query, 7, torch.tensor([[1], [3]]))
    assert found.tolist() == [[1, 1, 1], [3, 3, 3]]


def test_positions_without_an_axis_for_the_heads_are_an_error():
    """``(b, q)`` would be taken for ``(h, q)``, and be accepted where b = h."""
    query, position = torch.randn(2, 2, 3, 5), torch.tensor([[0, 1, 2], [4, 5, 6]])
    with pytest.raises(
        ValueError, match=r"leading axes; with heads, pass position\[:, None\]"
    ):
        query_positions(query, 7, position)
    found = query_positions(query, 7, position[:, None])
    assert torch.equal(found.expand(2, 2, 3)[:, 1], position)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("position", "message"),
    [
        (3, "must be a tensor of integers, not 3"),
        (torch.tensor([0.0, 1.0, 2.0]), r"must hold integers, not torch\.float32"),
        (torch.tensor([True, False, True]), r"must hold integers, not torch\.bool"),
    ],
)
def test_positions_that_are_not_integers_are_an_error(position, message):
    with pytest.raises(TypeError, match=f"query_position {message}"):
        query_positions(torch.randn(2, 3, 5), 7, position)


@pytest.mark.parametrize("shape", [(), (4,), (3, 3), (2, 2), (1, 2, 3)])
def test_positions_that_do_not_fit_the_queries_are_an_error(shape):
    with pytest.raises(
        ValueError, match=r"query_position of shape \(.*\) does not fit .*\(2, 3, 5\)"
    ):
        query_positions(torch.randn(2, 3, 5), 7, torch.zeros(shape, dtype=torch.int64))


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (3, 4), (0, 4)])
def test_as_many_queries_as_keys_can_be_the_last_positions(queries, keys):
    check_last_positions(queries, keys)


@pytest.mark.parametrize(("queries", "keys"), [(5, 4), (2, 1), (4, 0)])
def test_more_queries_than_keys_need_explicit_positions(queries, keys):
    with pytest.raises(
        ValueError,
        match=f"{queries} queries cannot be the last positions of {keys} keys: give",
    ):
        check_last_positions(queries, keys)
    position = torch.arange(queries)
    assert torch.equal(
        query_positions(torch.randn(queries, 3), keys, position), position
    )


# Sizes


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["3", None, 2.5, 3.0, True, [3]])
@pytest.mark.parametrize("check", [check_positive, check_odd])
def test_a_size_that_is_not_an_integer_is_an_error(check, size):
    with pytest.raises(TypeError, match="d_model must be an integer, not "):
        check(d_model=size)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", [1, 3, np.int64(5), np.int32(7)])
def test_sizes_may_be_integers_of_numpy(size):
    check_positive(d_model=size)
    check_odd(d_model=size)


@pytest.mark.parametrize("size", [0, -1])
def test_a_size_below_one_is_an_error(size):
    with pytest.raises(ValueError, match=f"d_model must be at least 1, not {size}"):
        check_positive(d_model=size)


# Initialisation


def test_parameters_are_initialised_as_those_of_a_linear_layer():
    found = uniform_parameter(300, 16)
    assert (found.shape, found.requires_grad) == ((300, 16), True)
    assert -0.25 <= found.min() < -0.24
    assert 0.24 < found.max() <= 0.25


def test_a_parameter_is_reset_in_place_without_a_gradient():
    parameter = uniform_parameter(16)
    before = parameter.clone()
    assert reset_uniform(parameter) is parameter
    assert parameter.is_leaf
    assert not torch.equal(parameter, before)


# decoding


@pytest.mark.parametrize(
    "attention", [ScaledDot(), LocalAttention(2), PatternAttention(masks.strided(2))]
)
def test_decoding_needs_causal_attention(attention):
    x = torch.zeros(1, 2, 3, 4)
    with pytest.raises(
        ValueError,
        match=f"^step-by-step decoding needs a causal attention, not {type(attention).__name__}:",
    ):
        attention.start(x, x)
    with pytest.raises(
        ValueError, match="step-by-step decoding needs a causal attention"
    ):
        MultiHeadAttention(8, 2, attention).start(torch.zeros(1, 3, 8))


STATES = {
    "KVCache": lambda: Rotary(CausalAttention()),
    "WindowCache": lambda: CacheRotary(SinkAttention(3, 1)),
    "LinearState": CausalLinearAttention,
    "MatrixState": lambda: DecayAttention(0.9),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("own", "other"), [*permutations(STATES, 2)])
def test_a_state_of_another_kind_of_attention_is_an_error(own, other):
    attention, source = STATES[own](), STATES[other]()
    x = torch.randn(2, 3, 5, 4)
    _, state = source.extend(x, x, x, source.start(x, x))
    with pytest.raises(TypeError, match=f"continues a {own}, not a {other}"):
        attention.extend(x, x, x, state)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", STATES)
@pytest.mark.parametrize("other", [(1, 3), (4, 3), (2, 1)])
def test_a_state_of_another_batch_or_number_of_heads_is_an_error(kind, other):
    attention, x = STATES[kind](), torch.randn(2, 3, 5, 4)
    _, state = attention.extend(x, x, x, attention.start(x, x))
    new = torch.randn(*other, 1, 4)
    for held in (state, attention.start(x, x)):
        with pytest.raises(
            ValueError,
            match=rf"a {kind} of shape \(2, 3, .*keys of shape \({other[0]}, {other[1]}, 1, 4\)",
        ):
            attention.extend(new, new, new, held)


# print


@pytest.mark.parametrize(
    ("attention", "settings"),
    [
        (LocalAttention(2, causal=True), "radius=2, causal=True"),
        (AtrousAttention(3), "rate=3, causal=False"),
        (SparseAttention(2, 3), "radius=2, rate=3, causal=False"),
        (PatternAttention(masks.local(2)), "rule=local(radius=2), causal=False"),
        (CausalAttention(), ""),
        (ScaledDot(), ""),
        (Cosine(3.0), "strength=3.0"),
        (DecayAttention(0.5), "decay=(0.5,), chunk=64"),
        (GatedDeltaAttention(chunk=9), "temperature=16.0, chunk=9"),
        (LocalM(Dot(), 2), "radius=2"),
        (LocalP(Dot(), 2, 5), "radius=2"),
        (RandomSynthesizer(7), "max_length=7, heads=None"),
        (DenseSynthesizer(5, 7, heads=2), "max_length=7, heads=2"),
        (GumbelSoftmax(Dot(), 0.5), "temperature=0.5"),
        (MultiHeadAttention(8, 2), "heads=2"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_print_shows_the_settings(attention, settings):
    first, *_ = repr(attention).replace("(\n  ", "(", 1).split("\n")
    assert first.startswith(f"{type(attention).__name__}({settings}")
    assert attention.extra_repr() == settings
