"""Gated attention: the equation, the cache, and what the gate closes."""

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

from companion.attention import (
    CausalAttention,
    GatedAttention,
    MultiHeadAttention,
    Rotary,
)
from companion.layers import NoPositionalEncoding
from companion.models import LanguageModel, LlamaLayer
from tests.reference import qiu_2025
from tests.reference.scalars import values
from tests.tiny import close, doubles, spread

N, D_MODEL, HEADS = 7, 12, 3


def gated(**options):
    return spread(GatedAttention(D_MODEL, HEADS, CausalAttention(), **options))


def together(module, x, mask=None):
    return module(x, *module.project(x), mask)


@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_formula(bias):
    module, x = gated(bias=bias), doubles(1, N, D_MODEL)
    assert (module.W_G.bias is not None) == bias
    expected = qiu_2025.gated_attention(
        values(module), x[0].tolist(), HEADS, lambda i, j: j <= i
    )
    close(together(module, x)[0], expected)


@pytest.mark.parametrize("groups", [1, 3])
def test_decoding_equals_one_pass(groups):
    module, x = gated(key_value_heads=groups), doubles(2, N, D_MODEL)
    state, found = module.start(x), []
    for part in x.split([3, 1, 1, 2], 1):
        output, state = module.extend(part, state)
        found.append(output)
    close(torch.cat(found, 1), together(module, x))
    close(module.attend(x, *module.project(x))[0], together(module, x))


def test_a_closed_gate_returns_nothing_and_an_open_one_everything():
    module, x = gated(bias=False), doubles(2, N, D_MODEL)
    plain = MultiHeadAttention(D_MODEL, HEADS, CausalAttention(), bias=False).double()
    shared = {k: v for k, v in module.state_dict().items() if not k.startswith("W_G")}
    plain.load_state_dict(shared)
    with torch.no_grad():
        module.W_G = nn.Linear(D_MODEL, D_MODEL).double()
        module.W_G.weight.zero_()
        for bias, factor in ((-1e3, 0.0), (0.0, 0.5), (1e3, 1.0)):
            module.W_G.bias.fill_(bias)
            close(together(module, x), factor * together(plain, x))


def test_the_gate_of_a_position_depends_on_that_position_alone():
    module, x = gated(), doubles(1, N, D_MODEL).requires_grad_()
    (gradient,) = torch.autograd.grad(together(module, x)[0, 3].sum(), x)
    assert (gradient[0, 4:] == 0).all()
    assert (gradient[0, :4] != 0).any(-1).all()


def test_masked_positions_have_no_influence():
    module, x = gated(), doubles(2, N, D_MODEL)
    visible = (torch.arange(N) < torch.tensor([[N], [N - 2]]))[:, None]
    other = x.clone()
    other[1, N - 2 :] = 100 * doubles(2, D_MODEL, seed=1)
    a, b = (together(module, y, visible) for y in (x, other))
    assert torch.equal(a[1, : N - 2], b[1, : N - 2])


def test_gradients_are_right():
    module = spread(GatedAttention(4, 2, CausalAttention()))
    x = doubles(1, 3, 4).requires_grad_()
    names, parameters = zip(*module.named_parameters(), strict=True)

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inside = module

        def forward(self, x):
            return together(self.inside, x)

    whole = Whole()

    def output(x, *parameters):
        given = {f"inside.{n}": p for n, p in zip(names, parameters, strict=True)}
        return functional_call(whole, given, (x,))

    assert gradcheck(output, (x, *parameters), fast_mode=True)


def test_it_is_the_attention_of_a_language_model():
    inside = [GatedAttention(12, 3, Rotary(CausalAttention())) for _ in range(2)]
    layers = [LlamaLayer(12, 3, 13, attention=x) for x in inside]
    model = spread(LanguageModel(11, layers, NoPositionalEncoding())).eval()
    tokens = torch.tensor([[3, 4, 5, 6, 7]])
    state, found = model.start(tokens[:, :0]), []
    for token in tokens.unbind(1):
        logits, state, _ = model.step(token, state)
        found.append(logits)
    close(torch.stack(found, 1), model(tokens))


@pytest.mark.usefixtures("unchecked")
def test_a_layer_that_decodes_needs_a_causal_one():
    with pytest.raises(ValueError, match="needs a causal attention, not ScaledDot"):
        LlamaLayer(12, 3, 13, attention=GatedAttention(12, 3))


def test_pytorch_has_no_gate():
    with pytest.raises(TypeError, match="has no gate, which to_torch would lose"):
        gated().to_torch()
    with pytest.raises(TypeError, match=r"use MultiHeadAttention\.from_torch"):
        GatedAttention.from_torch(nn.MultiheadAttention(12, 3, batch_first=True))
