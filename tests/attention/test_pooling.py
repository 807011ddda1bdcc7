import math

import pytest
import torch
from torch.autograd import gradcheck

from companion.attention import (
    Additive,
    AttentionPooling,
    Dot,
    HiddenDot,
    last_pooling,
    max_pooling,
    mean_pooling,
    record_weights,
)
from tests.reference import bahdanau_2015, scalars, yang_2016
from tests.tiny import close, spread

LENGTHS = [4, 1, 0, 6]
MASK = torch.arange(6) < torch.tensor(LENGTHS)[:, None]
HOLES = torch.tensor([[False, True, False, True, True, False]]).expand(4, 6)


def normal(*shape):
    return torch.randn(
        shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))
    )


def attention_pooling():
    return spread(AttentionPooling(Additive(5, 3, 7), query_size=5))


def expected_pooling(name, pooling, states):
    """The pooling of one sequence without padding, a list of lists."""
    if not states:
        return [0.0] * 3
    columns = list(zip(*states, strict=True))
    if name == "attention":
        parameters = scalars.values(pooling)
        attention = scalars.part(parameters, "attention")
        scores = [
            bahdanau_2015.additive_score(attention, parameters["query"], state)
            for state in states
        ]
        return scalars.context(scalars.softmax(scores), states)
    return {
        "last": states[-1],
        "mean": [math.fsum(column) / len(column) for column in columns],
        "max": [max(column) for column in columns],
    }[name]


POOLINGS = {
    "last": last_pooling,
    "mean": mean_pooling,
    "max": max_pooling,
    "attention": attention_pooling(),
}
named = pytest.mark.parametrize(("name", "pooling"), POOLINGS.items(), ids=POOLINGS)


@named
@pytest.mark.parametrize("mask", [MASK, HOLES], ids=["padding", "holes"])
def test_pooling_is_its_definition(name, pooling, mask):
    states = normal(4, 6, 3)
    found = pooling(states, mask)
    for row in range(4):
        close(
            found[row], expected_pooling(name, pooling, states[row][mask[row]].tolist())
        )


@named
def test_leading_axes_are_only_batch(name, pooling):
    states = normal(4, 6, 3)
    together = pooling(states, MASK)
    close(
        pooling(states.unflatten(0, (2, 2)), MASK.unflatten(0, (2, 2))),
        together.unflatten(0, (2, 2)),
    )
    close(pooling(states[0], MASK[0]), together[0])


@named
def test_padding_changes_no_pooling(name, pooling):
    states, more = normal(4, 6, 3), torch.nn.functional.pad
    other = states.masked_fill(~MASK[..., None], 100.0)
    assert torch.equal(pooling(other, MASK), pooling(states, MASK))
    close(
        pooling(more(other, (0, 0, 0, 5), value=9.0), more(MASK, (0, 5))),
        pooling(states, MASK),
    )


@named
def test_gradients_of_pooling_are_right_and_zero_where_masked(name, pooling):
    states = normal(4, 6, 3).requires_grad_()
    assert gradcheck(lambda x: pooling(x, MASK), states)
    pooling(states, MASK).square().sum().backward()
    assert not states.grad[~MASK].any()
    assert states.grad[MASK].any()


@named
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pooling_in_every_precision(name, pooling, dtype):
    states, pooling = (
        normal(4, 6, 3),
        attention_pooling() if name == "attention" else pooling,
    )
    expected = pooling(states, MASK)
    if name == "attention":
        pooling.to(dtype)
    found = pooling(states.to(dtype), MASK)
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, atol=5e-2, rtol=5e-2)


def test_the_weights_of_attention_pooling_are_recorded():
    pooling = attention_pooling()
    with record_weights(pooling) as maps:
        found = pooling(normal(4, 6, 3), MASK)
    (weights,) = maps["attention"]
    assert weights.shape == (4, 1, 6)
    close(weights.squeeze(1).sum(-1), MASK.any(-1).double())
    close((weights @ normal(4, 6, 3)).squeeze(1), found)


def test_the_query_of_attention_pooling_has_a_gradient():
    pooling = attention_pooling()
    pooling(normal(4, 6, 3), MASK).square().sum().backward()
    assert (pooling.query.grad != 0).all()


@named
@pytest.mark.usefixtures("unchecked")
def test_a_sequence_and_a_mask_that_do_not_fit_are_an_error(name, pooling):
    with pytest.raises(TypeError, match=r"must be boolean.*not torch\.float32"):
        pooling(normal(4, 6, 3), MASK.float())
    with pytest.raises(
        ValueError, match=r"\(4, 6, 3\) needs a mask of \(4, 6\), not \(4, 5\)"
    ):
        pooling(normal(4, 6, 3), MASK[:, 1:])
    with pytest.raises(ValueError, match=r"\(4, 0, 3\) is empty"):
        pooling(normal(4, 0, 3), MASK[:, :0])
    with pytest.raises(ValueError, match=r"\(3,\) is empty"):
        pooling(normal(3), MASK[0, 0])


def test_attention_pooling_of_another_size_is_an_error():
    with pytest.raises(ValueError, match="query_size must be at least 1, not 0"):
        AttentionPooling(Dot(), 0)
    with pytest.raises(RuntimeError, match="24x2 and 3x"):
        attention_pooling()(normal(4, 6, 2), MASK)


@named
def test_pooling_of_an_empty_batch(name, pooling):
    assert pooling(normal(0, 6, 3), MASK[:0]).shape == (0, 3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["3", None, 2.5, True])
def test_a_query_size_that_is_not_an_integer_is_an_error(size):
    with pytest.raises(TypeError, match=f"query_size must be an integer, not {size!r}"):
        AttentionPooling(Dot(), size)


def test_the_query_may_be_of_another_size_than_the_states():
    pooling = spread(AttentionPooling(HiddenDot(3, query_size=5), query_size=5))
    states = normal(4, 6, 3)
    found, parameters = pooling(states, MASK), scalars.values(pooling)
    for row in (0, 1, 3):
        sequence = states[row, : LENGTHS[row]].tolist()
        close(found[row], yang_2016.attention_pooling(parameters, sequence)[0])


def test_the_query_is_initialised_as_a_linear_layer_and_can_be_reset_alone():
    attention = Additive(5, 3, 7)
    torch.manual_seed(0)
    pooling = AttentionPooling(attention, query_size=5)
    torch.manual_seed(0)
    expected = torch.empty(5).uniform_(-(5**-0.5), 5**-0.5)
    assert torch.equal(pooling.query, expected)
    before = attention.v.clone()
    pooling.reset_parameters()
    assert not torch.equal(pooling.query, expected)
    assert torch.equal(attention.v, before)
