"""Multi-head latent attention: the equations, the cache, and the absorbed form."""

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

from companion.attention import (
    CausalAttention,
    LatentAttention,
    MultiHeadAttention,
    record_weights,
    rotary_frequencies,
)
from companion.layers import NoPositionalEncoding
from companion.models import LanguageModel, LlamaLayer
from tests.reference import deepseek_2024
from tests.reference.scalars import values
from tests.tiny import close, doubles, spread

N, D_MODEL, HEADS, LATENT, ROTATED = 7, 12, 3, 5, 2


def latent(**sizes):
    sizes = {"d_k": 6, "d_v": 3, "query_latent_size": 7} | sizes
    return spread(LatentAttention(D_MODEL, HEADS, LATENT, ROTATED, **sizes))


def together(module, x, mask=None):
    return module(x, *module.project(x), mask)


@pytest.mark.parametrize("sizes", [{}, {"query_latent_size": None, "d_v": None}])
def test_it_is_the_formula(sizes):
    module, x = latent(**sizes), doubles(1, N, D_MODEL)
    expected = deepseek_2024.latent_attention(
        values(module), x[0].tolist(), HEADS, ROTATED, lambda i, j: j <= i
    )
    close(together(module, x)[0], expected)


@pytest.mark.parametrize("parts", [N * [1], [3, 1, 1, 2], [N], [2, 0, 5]])
@pytest.mark.parametrize("grad", [False, True])
def test_absorbed_and_cached_equal_one_pass(parts, grad):
    module, x = latent(), doubles(2, N, D_MODEL)
    with torch.set_grad_enabled(grad):
        state, found = module.start(x), []
        for part in x.split(parts, 1):
            output, state = module.extend(part, state)
            found.append(output)
    close(torch.cat(found, 1), together(module, x))
    assert state.seen == N
    assert state.key.shape == (2, 1, N, LATENT + ROTATED)
    assert state.value.numel() == 0


def test_a_single_position_writes_no_keys_of_heads(monkeypatch):
    module, x = latent(), doubles(2, N, D_MODEL)
    with torch.no_grad():
        _, state = module.extend(x[:, :-1], module.start(x))
        expected, _ = module.extend(x[:, -1:], state)
        monkeypatch.setattr(module, "_keys_and_values", None)  # what the test forbids
        found, _ = module.extend(x[:, -1:], state)
    assert torch.equal(found, expected)


def test_gradients_of_the_absorbed_form_are_those_of_one_pass():
    module, x = latent(), doubles(1, 4, D_MODEL).requires_grad_()
    state, found = module.start(x), []
    for part in x.split(1, 1):
        output, state = module.extend(part, state)
        found.append(output)
    inputs = [x, *module.parameters()]
    wanted = doubles(1, 4, D_MODEL, seed=1)
    for a, b in zip(
        torch.autograd.grad(torch.cat(found, 1), inputs, wanted),
        torch.autograd.grad(together(module, x), inputs, wanted),
        strict=True,
    ):
        close(a, b)


def test_gradients_are_right():
    module = spread(LatentAttention(4, 2, 3, 2))
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


def test_no_position_depends_on_later_ones():
    module, x = latent(), doubles(1, N, D_MODEL).requires_grad_()
    (gradient,) = torch.autograd.grad(together(module, x)[0, 3].sum(), x)
    assert (gradient[0, 4:] == 0).all()
    assert (gradient[0, :4] != 0).any(-1).all()


def test_masked_positions_have_no_influence():
    module, x = latent(), doubles(2, N, D_MODEL)
    visible = (torch.arange(N) < torch.tensor([[N], [N - 2]]))[:, None]
    other = x.clone()
    other[1, N - 2 :] = 100 * doubles(2, D_MODEL, seed=1)
    a, b = (together(module, y, visible) for y in (x, other))
    assert torch.equal(a[1, : N - 2], b[1, : N - 2])
    assert torch.equal(a[0], b[0])
    assert not torch.equal(
        together(module, x)[1, N - 1], together(module, other)[1, N - 1]
    )


def test_weights_and_recording():
    module, x = latent(), doubles(2, N, D_MODEL)
    key, _ = module.project(x)
    weights = module.weights(x, key)
    assert weights.shape == (2, HEADS, N, N)
    close(weights.sum(-1), torch.ones(2, HEADS, N).double())
    close(module.attend(x, *module.project(x))[1], weights)
    with record_weights(module) as maps, torch.no_grad():
        _, state = module.extend(x[:, :-1], module.start(x))
        module.extend(x[:, -1:], state)
    close(maps["attention"][-1], weights[..., -1:, :])


def test_without_rotation_it_is_multi_head_attention_with_matrices_of_low_rank():
    module = latent(d_k=4, d_v=4, query_latent_size=None, scale=4**-0.5)
    full = MultiHeadAttention(D_MODEL, HEADS, CausalAttention(), bias=False).double()
    with torch.no_grad():
        module.W_KR.weight.zero_()
        full.W_Q.weight.copy_(module.W_UQ.weight)
        full.W_K.weight.copy_(module.W_UK.weight @ module.W_DKV.weight)
        full.W_V.weight.copy_(module.W_UV.weight @ module.W_DKV.weight)
        full.W_O.weight.copy_(module.W_O.weight)
    x = doubles(2, N, D_MODEL)
    close(together(module, x), full(x, *full.project(x)))


def test_the_rotation_has_its_base_or_its_frequencies():
    x, base = doubles(1, N, D_MODEL), 500_000.0
    modules = [
        latent(base=base),
        latent(frequencies=rotary_frequencies(ROTATED, base)),
        latent(frequencies=[0.1]),
    ]
    first, second, third = (together(module, x) for module in modules)
    close(first, second)
    assert not torch.allclose(first, third)


class Beside(nn.Module):
    """A layer and another one beside it, as in low-rank adaptation."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.other = nn.Linear(layer.in_features, layer.out_features).double()

    def forward(self, x):
        return self.layer(x) + self.other(x)


@pytest.mark.parametrize("name", ["W_UK", "W_UV"])
def test_an_adapter_acts_in_decoding_too(name):
    module, x = latent(), doubles(1, N, D_MODEL)
    before = together(module, x)
    setattr(module, name, Beside(getattr(module, name)))
    state, found = module.start(x), []
    for part in x.split(1, 1):
        output, state = module.extend(part, state)
        found.append(output)
    close(torch.cat(found, 1), together(module, x))
    assert not torch.allclose(together(module, x), before)


def test_a_hook_acts_in_decoding_too():
    module, x = latent(), doubles(1, N, D_MODEL)
    module.W_UV.register_forward_hook(lambda layer, inputs, output: 2 * output)
    state = module.start(x)
    for part in x.split(1, 1):
        output, state = module.extend(part, state)
    close(output, together(module, x)[:, -1:])


def test_it_is_the_attention_of_a_language_model():
    layers = [
        LlamaLayer(D_MODEL, HEADS, 13, attention=latent(d_v=None)) for _ in range(2)
    ]
    model = spread(LanguageModel(11, layers, NoPositionalEncoding())).eval()
    tokens = torch.tensor([[3, 4, 5, 6, 7]])
    state, found = model.start(tokens[:, :0]), []
    for token in tokens.unbind(1):
        logits, state, _ = model.step(token, state)
        found.append(logits)
    close(torch.stack(found, 1), model(tokens))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("options", [{"heads": 2}, {"key_value_heads": 3}])
def test_a_layer_of_other_heads_refuses_it(options):
    options = {"heads": HEADS} | options
    with pytest.raises(
        ValueError, match="LatentAttention has 3 heads with keys of its"
    ):
        LlamaLayer(D_MODEL, d_ff=13, attention=latent(), **options)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"latent_size": 0}, "latent_size must be at least 1"),
        ({"rotary_size": 3}, "rotary_size must be even"),
        ({"heads": 5}, "not divisible by 5 heads"),
        ({"d_v": 0}, "d_v must be at least 1"),
    ],
)
def test_sizes_that_do_not_fit_are_an_error(sizes, message):
    sizes = {"heads": HEADS, "latent_size": LATENT, "rotary_size": ROTATED} | sizes
    with pytest.raises(ValueError, match=message):
        LatentAttention(D_MODEL, **sizes)


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_state_of_its_own_is_an_error():
    module, x = latent(), doubles(2, N, D_MODEL)
    with pytest.raises(TypeError, match="continues a KVCache, not a NoneType"):
        module.extend(x, None)
    with pytest.raises(ValueError, match="batch and heads must be the same"):
        module.extend(x[:1], module.start(x))


def test_print_shows_the_sizes():
    assert "heads=3, latent_size=5, rotary_size=2" in repr(latent())


@pytest.mark.slow
def test_it_is_that_of_transformers_with_copied_weights():
    """Without their norms, and with their order of rotated pairs."""
    theirs = pytest.importorskip("transformers.models.deepseek_v2.modeling_deepseek_v2")
    config = theirs.DeepseekV2Config(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        q_lora_rank=7,
        kv_lora_rank=LATENT,
        qk_rope_head_dim=ROTATED,
        qk_nope_head_dim=6,
        v_head_dim=3,
        attn_implementation="eager",
    )
    other = spread(theirs.DeepseekV2Attention(config, 0)).eval()
    other.q_a_layernorm = other.kv_a_layernorm = nn.Identity()
    ours, x = latent(), doubles(1, N, D_MODEL)
    both = other.q_b_proj.weight.unflatten(0, (HEADS, -1))
    up = other.kv_b_proj.weight.unflatten(0, (HEADS, -1))
    down = other.kv_a_proj_with_mqa.weight
    pairs = {
        "W_DQ": other.q_a_proj.weight,
        "W_UQ": both[:, :6].flatten(0, 1),
        "W_QR": both[:, 6:].flatten(0, 1),
        "W_DKV": down[:LATENT],
        "W_KR": down[LATENT:],
        "W_UK": up[:, :6].flatten(0, 1),
        "W_UV": up[:, 6:].flatten(0, 1),
        "W_O": other.o_proj.weight,
    }
    with torch.no_grad():
        for name, weight in pairs.items():
            getattr(ours, name).weight.copy_(weight)
    angles = torch.arange(N).double()[None, :, None] * rotary_frequencies(ROTATED)
    later = torch.full((N, N), -torch.inf).triu(1).double()[None, None]
    turns = torch.polar(torch.ones_like(angles), angles)
    expected, _ = other(x, attention_mask=later, position_embeddings=turns)
    torch.testing.assert_close(together(ours, x), expected, atol=1e-6, rtol=1e-6)
