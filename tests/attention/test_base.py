import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.autograd import gradcheck

from companion._checks import check_places, check_size
from companion.attention import Additive, Attention, masked_softmax, record_weights
from companion.attention.base import uniform_parameter
from tests.reference.scalars import softmax

few = settings(deadline=None, max_examples=30)
numbers = st.floats(-30, 30, width=32)
rows = st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=7)


class Dot(Attention):
    """The smallest mechanism there is."""

    def score(self, query, key):
        return query @ key.mT


class Fused(Dot):
    """Its forward says so when it is called, instead of computing anything."""

    def forward(self, query, key, value, mask=None):
        return torch.full_like(query[..., :1], 99).expand(
            *query.shape[:-1], value.shape[-1]
        )


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Dot()
        self.layers = nn.ModuleList([Fused()])

    def forward(self, x, mask):
        x = self.first(x, x, value=x, mask=mask)
        x = self.first(x, x, x)
        return self.layers[0](x, key=x, value=2 * x, mask=mask)


# masked_softmax


@few
@given(rows)
def test_masked_softmax_is_the_formula(row):
    scores, mask = zip(*row, strict=True)
    found = masked_softmax(
        torch.tensor(scores, dtype=torch.float64), torch.tensor(mask)
    )
    torch.testing.assert_close(
        found, torch.tensor(softmax(scores, mask), dtype=torch.float64)
    )


@few
@given(st.lists(numbers, min_size=1, max_size=7))
def test_without_a_mask_everything_may_be_attended_to(scores):
    scores = torch.tensor(scores, dtype=torch.float64)
    expected = torch.tensor(softmax(scores.tolist()), dtype=torch.float64)
    torch.testing.assert_close(masked_softmax(scores), expected)
    torch.testing.assert_close(
        masked_softmax(scores, torch.ones(len(scores)).bool()), expected
    )


@pytest.mark.parametrize(
    "shape", [(), (1,), (7,), (5, 1), (5, 7), (1, 5, 7), (3, 1, 7), (3, 5, 7)]
)
def test_a_mask_broadcasts_to_the_scores(shape):
    torch.manual_seed(0)
    scores, mask = torch.randn(3, 5, 7), torch.rand(shape) < 0.6
    weights, full = masked_softmax(scores, mask), mask.expand(3, 5, 7)
    for b in range(3):
        for q in range(5):
            expected = softmax(scores[b, q].tolist(), full[b, q].tolist())
            torch.testing.assert_close(weights[b, q], torch.tensor(expected))


def test_an_empty_row_is_zero_and_so_is_its_gradient():
    scores = torch.randn(3, 5, requires_grad=True)
    mask = torch.tensor([[True] * 5, [False] * 5, [False, True, True, False, False]])
    weights = masked_softmax(scores, mask)
    assert torch.equal(weights[1], torch.zeros(5))
    (weights * torch.arange(5)).sum().backward()
    assert scores.grad.isfinite().all()
    assert torch.equal(scores.grad[1], torch.zeros(5))
    assert torch.equal(scores.grad[~mask], torch.zeros(8))
    assert (scores.grad[0] != 0).all()


@pytest.mark.parametrize("masked", [torch.inf, -torch.inf, torch.nan, 1e30])
def test_whatever_stands_at_a_masked_place_does_not_matter(masked):
    scores = torch.tensor([1.0, masked, -2.0])
    weights = masked_softmax(scores, torch.tensor([True, False, True]))
    torch.testing.assert_close(
        weights, torch.tensor(softmax([1.0, 0.0, -2.0], [True, False, True]))
    )


@pytest.mark.parametrize("score", [-1e4, -1e9, -1e30])
def test_a_masked_place_stays_out_however_low_the_other_scores(score):
    weights = masked_softmax(
        torch.tensor([score, 0.0, score]), torch.tensor([True, False, True])
    )
    assert weights.tolist() == [0.5, 0, 0.5]


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_large_scores_do_not_overflow_and_the_dtype_stays(dtype):
    weights = masked_softmax(
        torch.tensor([3e4, 3e4, -3e4], dtype=dtype), torch.tensor([True, True, True])
    )
    assert weights.dtype == dtype
    assert weights.tolist() == [0.5, 0.5, 0]


def test_masked_softmax_gradient():
    scores = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, False, True, True, False], [False] * 5, [True] * 5])
    assert gradcheck(lambda x: masked_softmax(x, mask), scores)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
@pytest.mark.usefixtures("unchecked")
def test_a_mask_that_is_not_boolean_is_an_error(dtype):
    with pytest.raises(TypeError, match=str(dtype)):
        masked_softmax(torch.randn(3, 5), torch.ones(3, 5, dtype=dtype))


@pytest.mark.parametrize(
    "shape", [(4,), (2, 5), (5, 3), (3, 5, 1), (1, 3, 5), (0,), (3, 0)]
)
def test_a_mask_that_does_not_fit_is_an_error(shape):
    with pytest.raises(
        ValueError,
        match=r"shape \({}.*scores of \(3, 5\)".format(", ".join(map(str, shape))),
    ):
        masked_softmax(torch.randn(3, 5), torch.ones(shape, dtype=torch.bool))


def test_nothing_to_attend_to_is_an_error():
    with pytest.raises(ValueError, match=r"\(3, 0\)"):
        masked_softmax(torch.randn(3, 0))


# Attention


def test_a_mechanism_must_say_how_it_scores():
    with pytest.raises(TypeError, match="score"):
        Attention()


def test_the_source_is_key_and_value_unless_told():
    source = torch.randn(2, 3, 5)
    key, value = Dot().project(source)
    assert key is source
    assert value is source


@pytest.mark.usefixtures("unchecked")
def test_keys_and_values_come_in_pairs():
    with pytest.raises(ValueError, match="5 keys but 4 values"):
        Dot()(torch.randn(2, 3, 7), torch.randn(2, 5, 7), torch.randn(2, 4, 7))


def test_check_size():
    check_size("query", torch.randn(3, 5), 5)
    with pytest.raises(ValueError, match="query has 5 features, but 3 were announced"):
        check_size("query", torch.randn(3, 5), 3)


def test_parameters_begin_as_those_of_a_linear_layer_with_as_many_inputs():
    drawn = uniform_parameter(300, 16)
    assert (drawn.shape, drawn.requires_grad) == ((300, 16), True)
    assert -0.25 <= drawn.min() < -0.24
    assert 0.24 < drawn.max() <= 0.25


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (4, 4), (3, 4), (4, 0), (0, 4)])
def test_queries_are_among_the_keys_or_see_nothing(queries, keys):
    check_places(queries, keys)


def test_more_queries_than_keys_have_no_place():
    with pytest.raises(
        ValueError, match="5 queries cannot be among the positions of 4 keys"
    ):
        check_places(5, 4)
    with pytest.raises(
        ValueError, match="2 queries cannot be among the positions of 1 keys"
    ):
        check_places(2, 1)


# record_weights


def test_record_weights_sees_every_call_under_the_modules_name():
    torch.manual_seed(0)
    model, x, mask = (
        Model(),
        torch.randn(2, 3, 5, requires_grad=True),
        torch.tensor([True, False, True]),
    )
    with record_weights(model) as maps:
        output = model(x, mask)
    first = masked_softmax(x @ x.mT, mask)
    y = first @ x
    second = masked_softmax(y @ y.mT)
    z = second @ y
    third = masked_softmax(z @ z.mT, mask)
    assert maps.keys() == {"first", "layers.0"}
    for found, expected in zip(
        maps["first"] + maps["layers.0"], [first, second, third], strict=True
    ):
        assert not found.requires_grad
        torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(
        output, third @ (2 * z)
    )  # by the definition, although its forward is fused


def test_record_weights_leaves_nothing_behind_even_after_an_error():
    model, x = Model(), torch.randn(2, 3, 5)
    before = [set(vars(module)) for module in model.modules()]
    with (
        pytest.raises(ValueError, match=r"shape \(4,\)"),
        record_weights(model) as maps,
    ):
        model(x, torch.ones(4).bool())
    assert [set(vars(module)) for module in model.modules()] == before
    assert (model(x, None) == 99).all()  # its fused forward again
    assert maps == {"first": [], "layers.0": []}


def test_record_weights_keeps_the_gradient_of_the_model():
    model, x = Dot(), torch.randn(2, 3, 5, requires_grad=True)
    (expected,) = torch.autograd.grad(model(x, x, x).square().sum(), x)
    with record_weights(model):
        (found,) = torch.autograd.grad(model(x, x, x).square().sum(), x)
    torch.testing.assert_close(found, expected)


def test_a_model_without_attention_has_no_maps():
    with record_weights(nn.Linear(2, 3)) as maps:
        pass
    assert maps == {}


def test_an_empty_row_passes_anomaly_detection():
    scores = torch.randn(2, 3, 5, requires_grad=True)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[1, 2] = False
    with torch.autograd.set_detect_anomaly(True):
        masked_softmax(scores, mask).pow(2).sum().backward()
    assert torch.equal(scores.grad[1, 2], torch.zeros(5))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("mask", [True, [True, False]])
def test_a_mask_that_is_no_tensor_is_a_type_error(mask):
    with pytest.raises(TypeError, match=f"it is a {type(mask).__name__}"):
        masked_softmax(torch.zeros(1, 2), mask)


def test_recording_twice_at_once_and_over_a_patched_forward_leaves_the_model_as_it_was():
    attention = Additive(3, 3, 2)
    query, source = torch.randn(2, 3), torch.randn(4, 3)
    key, value = attention.project(source)
    calls, forward = [], attention.forward
    attention.forward = lambda *args: calls.append(1) or forward(*args)
    patched = attention.forward
    with record_weights(attention) as outer:
        with record_weights(attention) as inner:
            attention(query, key, value)
        attention(query, key, value)
    assert len(inner[""]) == 1
    assert len(outer[""]) == 2
    assert attention.forward is patched
    attention(query, key, value)
    assert calls == [1]
    assert "weights" not in vars(attention)
