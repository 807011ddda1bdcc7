"""What every network that reads tokens keeps: integers of any width, and of one batch."""

import pytest
import torch
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from tests.contracts.subjects import NETWORKS
from tests.tiny import MODELS, SOURCE, TARGET

each = pytest.mark.parametrize("name", NETWORKS)
pytestmark = pytest.mark.usefixtures("unchecked")
NARROW = torch.int8, torch.uint8, torch.int16, torch.uint16, torch.int32, torch.uint32


@each
def test_tokens_are_integers_of_any_width(name):
    network, inputs = NETWORKS[name].build(), NETWORKS[name].inputs(3, 4, 5)
    expected = network(*inputs)
    for dtype in NARROW:
        assert torch.equal(network(*(x.to(dtype) for x in inputs)), expected)


@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.bool])
def test_other_tokens_are_refused_as_tokens(name, dtype):
    network, inputs = NETWORKS[name].build(), NETWORKS[name].inputs(3, 4, 5)
    with pytest.raises(TypeError, match=f"tokens .*integers, not {dtype}"):
        network(*(x.to(dtype) for x in inputs))


def test_a_recurrent_network_is_not_traced_as_if_there_were_no_padding():
    subject = NETWORKS["attention sum"]
    network, inputs = subject.build(), subject.inputs(3, 4, 5)

    def run(parameters, *inputs):
        return functional_call(network, parameters, inputs)

    parameters = {name: x.detach() for name, x in network.named_parameters()}
    with pytest.raises(NotImplementedError, match="neither export packed"):
        make_fx(run, tracing_mode="fake")(parameters, *inputs)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("shape", [(2,), (3, 1)])
def test_a_step_refuses_tokens_of_another_batch_than_the_state(name, shape):
    model = MODELS[name]()
    message = rf"tokens of shape \({shape[0]},.* do not fit .* 3 sentences"
    with pytest.raises(ValueError, match=message):
        model.step(torch.ones(shape, dtype=torch.long), model.start(SOURCE))
    with pytest.raises(ValueError, match="does not fit 3 source sentences"):
        model.decoder(TARGET[:2], model.start(SOURCE))
