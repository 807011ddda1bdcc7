"""What every mechanism and every model keeps as a PyTorch module: copies, initialisation, gradients."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.func import functional_call, grad
from torch.nn.utils import parametrize

from companion.attention import record_weights
from companion.decoding import tensors
from tests.contracts.compatibility import disturb, has, loss_of
from tests.contracts.subjects import SUBJECTS

SIZES = (3, 5, 7)  # batch, queries or targets, keys or sources


@pytest.fixture(params=SUBJECTS)
def subject(request):
    torch.manual_seed(0)
    return SUBJECTS[request.param]


def same(found, expected):
    """Whether two outputs, of tensors or tuples of them, are equal bit by bit."""
    pairs = zip(tensors(found), tensors(expected), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


# Batches


def test_a_batch_of_as_many_rows_as_queries_and_keys_is_its_rows(subject):
    module, inputs = subject.build(), subject.inputs(3, 3, 3)
    together = tensors(module(*inputs))
    for row in range(3):
        alone = tensors(module(*(x[row : row + 1] for x in inputs)))
        for found, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(found[row : row + 1], expected)


# Layers in place of others


class Adapter(nn.Module):
    """A linear layer and another one beside it, as in low-rank adaptation."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.beside = nn.Linear(layer.in_features, layer.out_features).double()

    def forward(self, x):
        return self.layer(x) + self.beside(x)


def test_every_linear_layer_acts_through_its_call(subject):
    module, inputs, adapters = subject.build(), subject.inputs(*SIZES), []
    for owner in list(module.modules()):
        for name, layer in list(owner.named_children()):
            if type(layer) is nn.Linear:
                adapters.append(Adapter(layer))
                setattr(owner, name, adapters[-1])
    output = tensors(module(*inputs))
    if any(x.requires_grad for x in output):
        sum(x.square().sum() for x in output if x.requires_grad).backward()
    for x in adapters:  # some are for a decoder that calls the attention
        acts = x.layer.weight.grad is not None
        assert acts == (x.beside.weight.grad is not None)


# Copies


def test_a_saved_module_computes_the_same(subject, tmp_path):
    module, inputs = subject.build(), subject.inputs(*SIZES)
    torch.save(module, tmp_path / "module.pt")
    loaded = torch.load(tmp_path / "module.pt", weights_only=False)
    assert same(loaded(*inputs), module(*inputs))


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda module: pickle.loads(pickle.dumps(module)),
}


@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)
def test_a_copy_made_while_recording_is_independent_and_not_recorded(
    subject, duplicate
):
    module, inputs = subject.build(), subject.inputs(*SIZES)
    with record_weights(module) as maps:
        expected = module(*inputs)
        recorded = {name: len(weights) for name, weights in maps.items()}
        other = duplicate(module)
        disturb(module)
        torch.testing.assert_close(tensors(other(*inputs)), tensors(expected))
        assert {name: len(weights) for name, weights in maps.items()} == recorded
        with record_weights(other) as own:  # and can be recorded itself
            other(*inputs)
    assert {name: len(weights) for name, weights in own.items()} == recorded


def test_recording_concerns_most_of_them():
    """So that the test above compares more than empty dictionaries."""
    recorded = 0
    for subject in SUBJECTS.values():
        module = subject.build()
        with record_weights(module) as maps:
            module(*subject.inputs(*SIZES))
        recorded += any(maps.values())
    assert recorded > len(SUBJECTS) * 2 / 3


# Parameters and buffers


def test_every_parameter_is_trained(subject):
    """What is frozen is a buffer: ``requires_grad_(True)`` would train a frozen parameter."""
    module = subject.build()
    assert all(parameter.requires_grad for parameter in module.parameters())
    module.requires_grad_(True)
    assert not any(buffer.requires_grad for buffer in module.buffers())


def reset(module):
    for part in module.modules():
        if isinstance(part, parametrize.ParametrizationList):
            continue
        if hasattr(part, "reset_parameters"):
            part.reset_parameters()


def test_every_parameter_and_buffer_can_be_initialised_again(subject):
    module, inputs = subject.build(), subject.inputs(*SIZES)
    numbers = [
        x for x in (*module.parameters(), *module.buffers()) if x.is_floating_point()
    ]
    with torch.no_grad():
        for number in numbers:
            number.fill_(torch.nan)
    reset(module)
    assert all(number.isfinite().all() for number in numbers)
    assert all(x.isfinite().all() for x in tensors(module(*inputs)))


def test_a_module_made_empty_can_be_initialised(subject):
    with torch.device("meta"):
        module = subject.build()
    shapes = {name: x.shape for name, x in module.state_dict().items()}
    module.to_empty(device="cpu")
    reset(module)
    assert {name: x.shape for name, x in module.state_dict().items()} == shapes
    assert all(x.isfinite().all() for x in tensors(module(*subject.inputs(*SIZES))))


# Transforms


WITH_PARAMETERS = [x for x in SUBJECTS if list(SUBJECTS[x].build().parameters())]
OF_VECTORS = [x for x in SUBJECTS if SUBJECTS[x].inputs(*SIZES)[0].is_floating_point()]


@pytest.mark.parametrize("subject", WITH_PARAMETERS, indirect=True)
def test_functional_gradients_are_those_of_autograd(subject):
    module, inputs = subject.build(), subject.inputs(*SIZES)
    parameters = dict(module.named_parameters())

    def functional(parameters):
        return loss_of(functional_call(module, parameters, inputs))

    detached = {name: x.detach() for name, x in parameters.items()}
    if has(module, nn.RNNBase):
        with pytest.raises(NotImplementedError, match="nor transform them by"):
            grad(functional)(detached)
        return
    expected = torch.autograd.grad(
        loss_of(module(*inputs)), list(parameters.values()), materialize_grads=True
    )
    found = grad(functional)(detached)
    torch.testing.assert_close(found, dict(zip(parameters, expected, strict=True)))


def test_under_a_functional_gradient_sentences_are_checked_as_ever():
    subject = SUBJECTS["transformer model"]
    module, (source, target) = subject.build(), subject.inputs(*SIZES)
    source[0, 0] = 0  # padding before a token

    def functional(parameters):
        return loss_of(functional_call(module, parameters, (source, target)))

    with pytest.raises(ValueError, match=r"rows \[0\] .* are empty, or have padding"):
        grad(functional)({x: p.detach() for x, p in module.named_parameters()})


@pytest.mark.parametrize("subject", OF_VECTORS, indirect=True)
def test_functional_gradients_of_the_inputs_are_those_of_autograd(subject):
    module, inputs = subject.build(), subject.inputs(*SIZES)

    vectors = [x for x in inputs if x.is_floating_point()]
    rest = inputs[len(vectors) :]

    def loss(*vectors):
        return loss_of(module(*vectors, *rest))

    leaves = [x.clone().requires_grad_() for x in vectors]
    expected = torch.autograd.grad(loss(*leaves), leaves, materialize_grads=True)
    found = grad(loss, tuple(range(len(vectors))))(*vectors)
    torch.testing.assert_close(found, expected)
