import copy

import pytest
import torch
from torch import nn

from companion.decoding import for_inference, greedy
from tests.tiny import MARKS, MODELS, SOURCE


@pytest.mark.parametrize("name", ["transformer", "luong_general", "bahdanau"])
def test_names_values_and_shapes_stay_and_the_model_decodes_the_same(name):
    model = MODELS[name]().eval()
    before = copy.deepcopy(model)
    for_inference(model)
    assert model.state_dict().keys() == before.state_dict().keys()
    for tensor, old in zip(model.parameters(), before.parameters(), strict=True):
        assert torch.equal(tensor, old)
    found, expected = (
        greedy(x.step, x.start(SOURCE), 7, **MARKS) for x in (model, before)
    )
    assert torch.equal(found.tokens, expected.tokens)
    torch.testing.assert_close(found.log_probs, expected.log_probs)


def test_matrices_are_stored_input_by_input_also_in_copies_and_shared_ones():
    model = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    model[1].weight = model[0].weight
    for_inference(model)
    assert model[1].weight is model[0].weight
    for weight in (model[1].weight, copy.deepcopy(model)[1].weight):
        assert weight.shape == (5, 3)
        assert weight.stride() == (1, 5)


def test_training_goes_on():
    model = nn.Linear(3, 2)
    for_inference(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    before = model.weight.detach().clone()
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    assert (model.weight != before).all()
