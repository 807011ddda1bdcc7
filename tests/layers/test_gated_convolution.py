import copy
import math
import pickle

import pytest
import torch
from torch import nn

from companion.layers import GatedConvolution, WeightNormLinear
from companion.layers.gated_convolution import normalised_once, normalised_weights
from tests.reference import gehring_2017, scalars
from tests.tiny import close, spread

GAINS = [1.0, 0.8, 4.0]


@pytest.fixture
def layer():
    return spread(WeightNormLinear(3, 2))


def expected(layer, x):
    """The layer's output by PyTorch's functions, from its parameters as they are."""
    weight = layer.g * layer.v / layer.v.norm(dim=1, keepdim=True)
    return (x.to(weight.dtype) @ weight.T + layer.bias).detach()


X = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


# The equation


def test_the_weight_is_normalised(layer):
    parameters = scalars.values(layer)
    close(layer.weight, gehring_2017.weight_normalised(parameters)["weight"])
    for row, x in zip(layer(X), X.tolist(), strict=True):
        close(row, scalars.linear(gehring_2017.weight_normalised(parameters), x))


@pytest.mark.cuda
def test_on_a_gpu_float64_is_exact(layer):
    before = layer.weight
    close(layer.cuda().weight.cpu(), before)


def test_gradients_are_right(layer):
    def output(g, v, bias):
        parameters = {"g": g, "v": v, "bias": bias}
        return torch.func.functional_call(layer, parameters, (X,))

    assert torch.autograd.gradcheck(output, (layer.g, layer.v, layer.bias))


@pytest.mark.parametrize("gain", GAINS)
def test_outputs_start_with_gain_times_the_variance_of_the_inputs(gain):
    torch.manual_seed(0)
    layer = WeightNormLinear(400, 300, gain)
    assert layer.g.shape == (300, 1)
    assert (layer.bias == 0).all()
    torch.testing.assert_close(layer.weight, layer.v)
    assert layer.weight.std().item() == pytest.approx(math.sqrt(gain / 400), rel=0.02)
    outputs = layer(torch.randn(1000, 400))
    assert outputs.var().item() == pytest.approx(gain, rel=0.05)


def test_the_initial_numbers_are_those_of_pytorchs_parametrization():
    torch.manual_seed(0)
    layer = WeightNormLinear(7, 5, gain=4.0)
    after = torch.rand(3)
    torch.manual_seed(0)
    plain = nn.Linear(7, 5)
    nn.init.normal_(plain.weight, std=math.sqrt(4 / 7))
    plain = nn.utils.parametrizations.weight_norm(plain)
    assert torch.equal(layer.weight, plain.weight)
    assert torch.equal(after, torch.rand(3))


def test_it_can_be_initialised_again(layer):
    layer(X)
    torch.manual_seed(3)
    layer.reset_parameters()
    torch.manual_seed(3)
    again = torch.empty(2, 3, dtype=torch.float64).normal_(std=3**-0.5)
    close(layer.weight, again)
    assert (layer.bias == 0).all()


# Changes of parameters


def load(layer):
    layer.load_state_dict(spread(WeightNormLinear(3, 2), seed=7).state_dict())


def assign(layer):
    other = spread(WeightNormLinear(3, 2), seed=7).state_dict()
    layer.load_state_dict(other, assign=True)


def optimise(layer, **options):
    layer(X).sum().backward()
    torch.optim.Adam(layer.parameters(), 0.1, **options).step()


def change_data(layer):
    """As old code does. PyTorch doesn't report it."""
    for parameter in layer.parameters():
        parameter.data.mul_(-2)


def change_in_place(layer):
    with torch.no_grad():
        layer.g.mul_(2)


def reset(layer):
    layer.reset_parameters()


def replace(layer):
    layer.v = nn.Parameter(layer.v.detach().flip(0))


def round_off(layer):
    """Through 16 bits and back, which leaves identity, version, dtype and device."""
    layer.bfloat16().double()


@torch.no_grad()
def assign_data(layer):
    layer.v.data = -layer.v


@torch.no_grad()
def assign_vector(layer):
    vector = nn.utils.parameters_to_vector(layer.parameters())
    nn.utils.vector_to_parameters(-2 * vector, layer.parameters())


@torch.no_grad()
def change_weight(layer):
    """Which is no parameter, so it changes nothing."""
    layer.weight.zero_()
    layer.bias.add_(1)


def train_compiled(layer):
    torch.compile(layer, backend="eager")(X).sum().backward()
    torch.optim.Adam(layer.parameters(), 0.1, fused=True).step()


CHANGES = {
    "load_state_dict": load,
    "assigned": assign,
    "optimizer": optimise,
    "foreach": lambda layer: optimise(layer, foreach=True),
    "fused": lambda layer: optimise(layer, fused=True),
    "data": change_data,
    "in_place": change_in_place,
    "reset_parameters": reset,
    "replaced": replace,
    "rounded": round_off,
    "assigned_data": assign_data,
    "vector_to_parameters": assign_vector,
    "weight_changed": change_weight,
    "float": lambda layer: layer.float(),
    "bfloat16": lambda layer: layer.to(torch.bfloat16),
    "to_empty": lambda layer: spread(layer.to_empty(device="cpu"), seed=9),
}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_changes_a_parameter_the_weight_is_right(layer, change, mode):
    with mode():
        before = layer(X).clone()
    change(layer)
    with mode():
        after = layer(X.to(layer.v.dtype))
        found = expected(layer, X)
    assert not torch.equal(found.double(), before)
    torch.testing.assert_close(after, found)


@pytest.mark.usefixtures("unchecked")
def test_a_compiled_training_step_is_noticed(layer):
    test_whatever_changes_a_parameter_the_weight_is_right(
        layer, train_compiled, torch.no_grad
    )


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda layer: pickle.loads(pickle.dumps(layer)),
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
@torch.no_grad()
def test_a_copy_is_independent(layer, duplicate):
    before = layer(X)
    other = duplicate(layer)
    assert torch.equal(other(X), before)
    change_in_place(layer)
    assert torch.equal(other(X), before)
    torch.testing.assert_close(layer(X), expected(layer, X))


@torch.no_grad()
def test_functional_call_uses_the_parameters_it_is_given(layer):
    before = layer(X)
    other = {name: 2 * p for name, p in layer.named_parameters()}
    found = torch.func.functional_call(layer, other, (X,))
    close(found, 2 * before)
    assert torch.equal(layer(X), before)


@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("gradients", [False, True])
def test_compiled_into_one_graph_that_follows_its_parameters(layer, gradients):
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with torch.set_grad_enabled(gradients):
        for _ in range(2):
            torch.testing.assert_close(compiled(X).detach(), expected(layer, X))
            change_in_place(layer)


# The weights of a search


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_weights_are_reused_within_a_block_and_nowhere_else(layer, mode):
    with mode():
        weights = normalised_weights(nn.Sequential(layer, nn.Linear(2, 2)))
        (kept,) = weights.values()
        assert layer.weight is not kept
        with normalised_once(weights):
            assert layer.weight is kept
            torch.testing.assert_close(layer(X), expected(layer, X))
        assert layer.weight is not kept


def test_with_gradients_the_weight_has_a_graph_though_one_is_kept(layer):
    with torch.no_grad():
        weights = normalised_weights(layer)
    with normalised_once(weights):
        layer(X).sum().backward()
    assert all(p.grad is not None for p in layer.parameters())


def test_after_an_error_no_weight_is_kept(layer):
    with torch.no_grad():
        weights = normalised_weights(layer)
        with pytest.raises(RuntimeError), normalised_once(weights):
            layer(X[:, :2].contiguous())
        change_in_place(layer)
        torch.testing.assert_close(layer(X), expected(layer, X))


# The gated convolution


@pytest.mark.parametrize("width", [1, 2, 5])
def test_a_block_is_the_papers(width):
    block = spread(GatedConvolution(3, width, dropout=0.0))
    inputs = torch.randn(1, 6, 3, dtype=torch.float64)
    found = block(inputs, nn.functional.pad(inputs, (0, 0, width - 1, 0)))
    parameters = scalars.values(block)
    close(
        found[0], gehring_2017.gated_block(parameters, inputs[0].tolist(), width - 1, 0)
    )


# Refusals


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0, 2), ValueError, "in_features must be at least 1, not 0"),
        ((3, "2"), TypeError, "out_features must be an integer, not '2'"),
        ((3, 2, 0.0), ValueError, r"gain must be finite and above 0, not 0\.0"),
        ((3, 2, -1.0), ValueError, r"gain must be finite and above 0, not -1\.0"),
        ((3, 2, math.nan), ValueError, "gain must be finite and above 0, not nan"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_arguments_are_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        WeightNormLinear(*arguments)


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (None, 3), (3, 2.5)])
@pytest.mark.usefixtures("unchecked")
def test_bad_sizes_of_a_block_are_errors(sizes):
    with pytest.raises((TypeError, ValueError), match=r"(size|width) must be"):
        GatedConvolution(*sizes)
