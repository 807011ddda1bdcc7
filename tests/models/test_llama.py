import pytest
import torch
from torch import nn

from companion.attention import CausalAttention, Rotary, adjacent_pairs
from companion.layers import FeedForward, NoPositionalEncoding, SwiGLU
from companion.models import LanguageModel, LlamaLayer
from tests.tiny import close, doubles, spread


@pytest.mark.slow
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("base", [10000.0, 500_000.0])
def test_it_is_the_layer_of_transformers_with_copied_weights(groups, base):
    """In float64, outputs and the gradient of the input, over a text and step by step."""
    llama = pytest.importorskip("transformers.models.llama.modeling_llama")
    config = llama.LlamaConfig(
        hidden_size=32,
        num_attention_heads=4,
        num_key_value_heads=groups,
        intermediate_size=52,
        num_hidden_layers=1,
        attn_implementation="sdpa",
    )
    theirs = spread(exact(llama.LlamaDecoderLayer(config, 0), 32)).eval()
    ours = LlamaLayer(32, 4, 52, groups, Rotary(CausalAttention(), base)).double()
    copy(ours, theirs, 4, groups)
    a, b = (doubles(2, 9, 32).requires_grad_() for _ in range(2))
    angles = torch.arange(9)[:, None] * base ** (-torch.arange(0, 8, 2).double() / 8)
    angles = torch.cat([angles, angles], -1)[None]  # (1, n, d)
    expected = theirs(b, position_embeddings=(angles.cos(), angles.sin()))
    found = ours(a)
    close(found, expected)
    wanted = doubles(2, 9, 32, seed=1)
    close(
        torch.autograd.grad(found, a, wanted)[0],
        torch.autograd.grad(expected, b, wanted)[0],
    )
    state, cache = ours.attention.start(a), llama.DynamicCache(config=config)
    for n in range(9):
        step, state = ours.extend(a[:, n : n + 1], state)
        at = angles[:, n : n + 1]
        other = theirs(
            b[:, n : n + 1],
            past_key_values=cache,
            use_cache=True,
            position_embeddings=(at.cos(), at.sin()),
        )
        close(step, other)


def exact(layer, size):
    """Their layer in float64; their norms would compute in float32, PyTorch's do not."""
    layer.input_layernorm = nn.RMSNorm(size, eps=1e-6)
    layer.post_attention_layernorm = nn.RMSNorm(size, eps=1e-6)
    return layer.double()


def copy(ours, theirs, heads, groups):
    attention, other = ours.attention, theirs.self_attn
    pairs = [
        (attention.W_Q.weight, adjacent_pairs(other.q_proj.weight, heads)),
        (attention.W_K.weight, adjacent_pairs(other.k_proj.weight, groups)),
        (attention.W_V.weight, other.v_proj.weight),
        (attention.W_O.weight, other.o_proj.weight),
        (ours.feed_forward.gate.weight, theirs.mlp.gate_proj.weight),
        (ours.feed_forward.up.weight, theirs.mlp.up_proj.weight),
        (ours.feed_forward.down.weight, theirs.mlp.down_proj.weight),
        (ours.attention_residual.norm.weight, theirs.input_layernorm.weight),
        (
            ours.feed_forward_residual.norm.weight,
            theirs.post_attention_layernorm.weight,
        ),
    ]
    with torch.no_grad():
        for mine, its in pairs:
            mine.copy_(its)


def test_pytorchs_layers_are_refused_with_what_to_use_instead():
    other = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    with pytest.raises(TypeError, match=r"use CausalTransformerLayer\.from_torch$"):
        LlamaLayer.from_torch(other)
    with pytest.raises(TypeError, match="needs PreNorm or PostNorm, not PreRMSNorm"):
        LlamaLayer(8, 2, 20).to_torch()


def test_a_layer_knows_distances_and_not_positions():
    """All positions are shifted by masked ones before them."""
    layer, x = spread(LlamaLayer(8, 4, 13, key_value_heads=2)), doubles(2, 5, 8)
    for shift in (1, 4, 100):
        shifted = torch.cat([doubles(2, shift, 8, seed=1), x], 1)
        visible = torch.arange(shift + 5) >= shift
        close(layer(shifted, visible[None, None])[:, shift:], layer(x))
    assert not torch.allclose(layer(x)[:, -1], layer(x[:, [1, 0, 2, 3, 4]])[:, -1])


def test_steps_of_a_language_model_give_the_logits_of_one_pass():
    layers = [LlamaLayer(8, 4, 13, key_value_heads=2) for _ in range(2)]
    model = spread(LanguageModel(11, layers, NoPositionalEncoding())).eval()
    tokens = torch.tensor([[3, 4, 5, 6, 7]])
    close(model(tokens), stepwise(model, tokens))


def stepwise(model, tokens):
    state, found = model.start(tokens[:, :0]), []
    for token in tokens.unbind(1):
        logits, state, _ = model.step(token, state)
        found.append(logits)
    return torch.stack(found, 1)


def test_nothing_is_built_in_vain(monkeypatch):
    """Random numbers are taken for its own parameters alone."""
    built = []
    monkeypatch.setattr(FeedForward, "__init__", lambda *args: built.append(args))
    layer = LlamaLayer(8, 4, 13, key_value_heads=2)
    assert not built
    assert isinstance(layer.feed_forward, SwiGLU)
    assert layer.attention.key_value_heads == 2
