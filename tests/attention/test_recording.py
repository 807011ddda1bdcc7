import copy
import io
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from companion.attention import (
    Additive,
    Attention,
    CausalAttention,
    CausalLinearAttention,
    DecayAttention,
    GumbelSoftmax,
    HardAttention,
    LocationSensitive,
    MultiHeadAttention,
    Rotary,
    ScaledDot,
    masked_softmax,
    record_weights,
)
from companion.layers import FeedForward


class Dot(Attention):
    def score(self, query, key):
        return query @ key.mT


class Fused(Dot):
    """Its context is 99 everywhere, so that a test notices who called it."""

    def compute_context(self, query, key, value, mask, position):
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


class Caller(nn.Module):
    """Additive attention from a sequence to itself."""

    def __init__(self):
        super().__init__()
        self.attention = Additive(3, 3, 2)

    def forward(self, x):
        return self.attention(x, *self.attention.project(x))


def through_torch_save(model):
    buffer = io.BytesIO()
    torch.save(model, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


COPIES = {
    "deepcopy": copy.deepcopy,
    "copy of a copy": lambda model: copy.deepcopy(copy.deepcopy(model)),
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "torch.save": through_torch_save,
}
each_copy = pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)


def test_every_call_is_recorded_under_the_name_of_its_module():
    torch.manual_seed(0)
    model, mask = Model(), torch.tensor([True, False, True])
    x = torch.randn(2, 3, 5, requires_grad=True)
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
    # By the definition, although its forward is fused.
    torch.testing.assert_close(output, third @ (2 * z))


def test_nothing_is_left_behind_even_after_an_error():
    model, x = Model(), torch.randn(2, 3, 5)
    before = [dict(vars(module)) for module in model.modules()]
    with (
        pytest.raises(ValueError, match=r"shape \(4,\)"),
        record_weights(model) as maps,
    ):
        model(x, torch.ones(4).bool())
    assert [dict(vars(module)) for module in model.modules()] == before
    assert (model(x, None) == 99).all()  # its fused forward again
    assert maps == {"first": [], "layers.0": []}


def test_the_gradient_of_the_model_is_kept():
    model, x = Dot(), torch.randn(2, 3, 5, requires_grad=True)
    (expected,) = torch.autograd.grad(model(x, x, x).square().sum(), x)
    with record_weights(model):
        (found,) = torch.autograd.grad(model(x, x, x).square().sum(), x)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("model", [nn.Linear(2, 3), nn.MultiheadAttention(8, 2)])
def test_a_model_without_our_attention_is_an_error(model):
    message = f"^{type(model).__name__} has no attention of companion.attention"
    with pytest.raises(ValueError, match=message), record_weights(model):
        pass


def test_a_model_of_ours_without_attention_has_no_maps():
    with record_weights(FeedForward(2, 3)) as maps:
        pass
    assert maps == {}


def test_a_module_with_two_names_is_listed_under_the_first():
    attention, x = Dot(), torch.randn(2, 3, 5)
    with record_weights(nn.ModuleDict({"a": attention, "b": attention})) as maps:
        attention(x, x, x)
    assert list(maps) == ["a"]
    assert len(maps["a"]) == 1


def test_weights_and_attend_are_recorded_too():
    attention, x = Dot(), torch.randn(2, 3, 5)
    mask = torch.tensor([True, False, True])
    with record_weights(attention) as maps:
        expected = attention.weights(x, x, mask=mask)
        context, weights = attention.attend(x, x, x, mask=mask)
    torch.testing.assert_close(expected, masked_softmax(x @ x.mT, mask))
    torch.testing.assert_close(context, expected @ x)
    assert torch.equal(weights, expected)
    assert len(maps[""]) == 2


@pytest.mark.usefixtures("unchecked")
def test_inputs_are_checked_while_recording():
    x = torch.randn(2, 3, 5)
    with (
        record_weights(attention := ScaledDot()),
        pytest.raises(ValueError, match="3 keys but 2 values"),
    ):
        attention(x, x, x[:, :2])


def test_nested_recordings_leave_the_model_as_it_was():
    attention = Additive(3, 3, 2)
    query, source = torch.randn(2, 3), torch.randn(4, 3)
    key, value = attention.project(source)
    before = dict(vars(attention))
    with record_weights(attention) as outer:
        with record_weights(attention) as inner:
            attention(query, key, value)
        attention(query, key, value)
    assert len(inner[""]) == 1
    assert len(outer[""]) == 2
    assert dict(vars(attention)) == before


def test_recordings_may_end_in_any_order():
    attention, x = Dot(), torch.randn(2, 3, 5)
    before = dict(vars(attention))
    first, second = record_weights(attention), record_weights(attention)
    first_maps, second_maps = first.__enter__(), second.__enter__()
    attention(x, x, x)
    first.__exit__(None, None, None)
    attention(x, x, x)
    second.__exit__(None, None, None)
    attention(x, x, x)
    assert len(first_maps[""]) == 1
    assert len(second_maps[""]) == 2
    assert dict(vars(attention)) == before


def test_recordings_of_several_threads_leave_nothing_behind():
    attention, x = Dot(), torch.randn(2, 3, 5)
    before, barrier = dict(vars(attention)), Barrier(4)

    def record(_):
        barrier.wait()
        for _ in range(20):
            with record_weights(attention) as maps:
                attention(x, x, x)
            assert maps[""]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(record, range(4)))
    assert dict(vars(attention)) == before


# Copies


@each_copy
@pytest.mark.parametrize("nested", [False, True])
def test_a_copy_made_inside_the_block_is_independent_and_not_recorded(
    duplicate, nested
):
    model, x = Caller(), torch.randn(1, 4, 3)
    expected = model(x)
    with record_weights(model) as maps:
        if nested:
            with record_weights(model):
                other = duplicate(model)
        else:
            other = duplicate(model)
        with torch.no_grad():
            model.attention.v.fill_(99.0)
        torch.testing.assert_close(other(x), expected)
        assert maps == {"attention": []}
    torch.testing.assert_close(other(x), expected)
    assert not other.attention._recorded


@each_copy
def test_a_copy_can_be_recorded_while_the_model_is(duplicate):
    model, x = Caller(), torch.randn(1, 4, 3)
    with record_weights(model) as maps:
        other = duplicate(model)
        with record_weights(other) as own:
            other(x)
        model(x)
    assert len(own["attention"]) == len(maps["attention"]) == 1
    assert torch.equal(own["attention"][0], maps["attention"][0])


@pytest.mark.parametrize(
    "build",
    [
        lambda: LocationSensitive(3, 3, 2, channels=2, width=3),
        lambda: GumbelSoftmax(Additive(3, 3, 2)),
        lambda: HardAttention(Additive(3, 3, 2)),
        lambda: MultiHeadAttention(6, 2),
    ],
)
def test_copies_of_other_mechanisms_have_the_same_parameters_and_no_others(build):
    model = build()
    with record_weights(model):
        other = copy.deepcopy(model)
    pairs = zip(model.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(a, b) and a is not b for a, b in pairs)
    assert not any(getattr(part, "_recorded", ()) for part in other.modules())


def test_a_copy_of_a_parametrized_module_is_independent():
    """PyTorch copies such a module in a way of its own, which asks for no state."""
    model, x = Caller(), torch.randn(1, 4, 3)
    parametrize.register_parametrization(model.attention, "v", nn.Identity())
    expected = model(x)
    with record_weights(model) as maps:
        other = copy.deepcopy(model)
        with torch.no_grad():
            model.attention.parametrizations.v.original.fill_(99.0)
        torch.testing.assert_close(other(x), expected)
    torch.testing.assert_close(other(x), expected)
    assert maps == {"attention": []}


# decoding


def test_steps_are_recorded_where_their_weights_are_computed():
    x = torch.randn(1, 3, 4)
    found = {}
    for attention in (CausalAttention(), Rotary(CausalAttention())):
        with record_weights(attention) as maps:
            state = attention.start(x, x)
            for part in x.split([2, 1], 1):
                _, state = attention.extend(part, part, part, state)
        found |= {
            name: [tuple(w.shape) for w in maps[name]] for name in maps if maps[name]
        }
    shapes = [(1, 2, 2), (1, 1, 3)]
    assert found == {"": shapes, "attention": shapes}


def test_decoding_from_sums_has_no_weights_to_record():
    x = torch.randn(1, 3, 4)
    for attention in (CausalLinearAttention(), DecayAttention(0.5)):
        with record_weights(attention) as maps:
            attention.extend(x, x, x, attention.start(x, x))
        assert maps == {"": []}


# torch.compile


@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
def test_a_model_compiled_inside_the_block_is_recorded_there_and_nowhere_else():
    torch.compiler.reset()
    model, x = Caller(), torch.randn(1, 4, 3)
    expected = model(x)
    with record_weights(model) as maps:
        compiled = torch.compile(model, backend="eager")
        for _ in range(2):
            torch.testing.assert_close(compiled(x), expected)
    assert len(maps["attention"]) == 2
    torch.testing.assert_close(compiled(x), expected)
    assert len(maps["attention"]) == 2


@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
def test_a_compiled_model_is_recorded_inside_the_block():
    torch.compiler.reset()
    model, x = Caller(), torch.randn(1, 4, 3)
    compiled = torch.compile(model, backend="eager")
    expected = compiled(x)
    with record_weights(model) as maps:
        torch.testing.assert_close(compiled(x), expected)
    torch.testing.assert_close(compiled(x), expected)
    (weights,) = maps["attention"]
    torch.testing.assert_close(weights @ x, expected)


class Renamed(Dot):
    def weights(self, query, key, mask=None, query_position=None):
        return super().weights(2 * query, key, mask, query_position)


def test_a_mechanism_that_overrides_what_records_is_refused():
    model = MultiHeadAttention(8, 2, Renamed())
    with (
        pytest.raises(TypeError, match=r"Renamed \(attention\) overrides weights"),
        record_weights(model),
    ):
        pass


def test_a_block_that_closes_in_another_thread_loses_no_call():
    attention, x, calls = Dot(), torch.randn(1, 2, 3), 2000
    done = Event()

    def blocks():
        while not done.is_set():
            with record_weights(attention):
                pass

    thread = Thread(target=blocks)
    thread.start()
    with record_weights(attention) as maps:
        for _ in range(calls):
            attention.weights(x, x)
    done.set()
    thread.join()
    assert len(maps[""]) == calls
