"""Heads that share keys and values: grouped-query and multi-query attention."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from companion.attention import (
    Additive,
    CausalAttention,
    LocalAttention,
    MultiHeadAttention,
    Rotary,
    ScaledDot,
    record_weights,
)
from tests.reference import ainslie_2023
from tests.reference.scalars import values
from tests.tiny import close, doubles, spread

N, D_MODEL, HEADS = 7, 24, 4


def grouped(groups, attention=None):
    return spread(MultiHeadAttention(D_MODEL, HEADS, attention, key_value_heads=groups))


def together(module, x, mask=None):
    return module(x, *module.project(x), mask)


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("causal", [False, True])
def test_it_is_the_formula(groups, causal):
    module = grouped(groups, CausalAttention() if causal else None)
    x = doubles(1, N, D_MODEL)
    expected = ainslie_2023.grouped_query(
        values(module),
        *2 * [x[0].tolist()],
        HEADS,
        groups,
        lambda i, j: j <= i or not causal,
    )
    close(together(module, x)[0], expected)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_it_is_pytorchs_kernel_with_copied_weights(groups):
    module, x = grouped(groups, CausalAttention()), doubles(2, N, D_MODEL)
    heads = [
        linear(x).unflatten(-1, (-1, 6)).transpose(1, 2)
        for linear in (module.W_Q, module.W_K, module.W_V)
    ]
    context = scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
    close(together(module, x), module.W_O(context.transpose(1, 2).flatten(2)))


@pytest.mark.parametrize("groups", [1, 2])
def test_it_is_multi_head_attention_with_repeated_matrices(groups):
    """Outputs and gradients."""
    module, full = grouped(groups), MultiHeadAttention(D_MODEL, HEADS).double()
    for name in ("W_K", "W_V"):
        shared, own = getattr(module, name), getattr(full, name)
        for part in ("weight", "bias"):
            rows = getattr(shared, part).data.unflatten(0, (groups, -1))
            repeated = rows.repeat_interleave(HEADS // groups, 0).flatten(0, 1)
            getattr(own, part).data.copy_(repeated)
    for name in ("W_Q", "W_O"):
        getattr(full, name).load_state_dict(getattr(module, name).state_dict())
    x = doubles(2, N, D_MODEL)
    a, b = together(module, x), together(full, x)
    close(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    close(module.W_Q.weight.grad, full.W_Q.weight.grad)
    of_copies = full.W_K.weight.grad.unflatten(0, (groups, HEADS // groups, -1))
    close(module.W_K.weight.grad, of_copies.sum(1).flatten(0, 1))


ATTENTIONS = {
    "scaled dot": ScaledDot,
    "additive": lambda: Additive(6, 6, 5),
    "local": lambda: LocalAttention(2),
    "causal": CausalAttention,
    "rotary": lambda: Rotary(CausalAttention()),
}


@pytest.mark.parametrize("name", ATTENTIONS)
@pytest.mark.parametrize("groups", [1, 2])
def test_padding_weights_and_recording(name, groups):
    module, x = grouped(groups, ATTENTIONS[name]()), doubles(2, N, D_MODEL)
    key, value = module.project(x)
    assert key.shape[:-1] == value.shape[:-1] == (2, groups, N)
    padding = (torch.arange(N) < torch.tensor([[N], [N - 2]]))[:, None]
    output, weights = module(x, key, value, padding), module.weights(x, key, padding)
    repeated = value.repeat_interleave(HEADS // groups, 1)
    expected = module.W_O((weights @ repeated).transpose(1, 2).flatten(2))
    close(output, expected)
    assert (weights[1, ..., N - 2 :] == 0).all()
    with record_weights(module) as maps:
        close(module(x, key, value, padding), output)
    close(maps["attention"][0], weights)


@pytest.mark.parametrize("name", ["causal", "rotary"])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("grad", [False, True])
def test_decoding_equals_one_pass_and_keeps_fewer_heads(name, groups, grad):
    module, x = grouped(groups, ATTENTIONS[name]()), doubles(2, N, D_MODEL)
    with torch.set_grad_enabled(grad):
        state, found = module.start(x), []
        for part in x.split([3, 1, 1, 2], 1):
            output, state = module.extend(part, state)
            found.append(output)
    assert state.key.shape == state.value.shape == (2, groups, N, 6)
    close(torch.cat(found, 1), together(module, x))


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_an_empty_batch_is_decoded(groups):
    module, x = grouped(groups, CausalAttention()), doubles(0, 2, D_MODEL)
    state = module.start(x)
    for part in x.split(1, 1):
        output, state = module.extend(part, state)
        assert output.shape == (0, 1, D_MODEL)
    assert state.key.shape == (0, groups, 2, 6)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("queries", [1, 2])
@pytest.mark.parametrize("batches", [(2, 1), (1, 2)])
def test_a_batch_of_one_broadcasts(queries, batches):
    module = grouped(2, CausalAttention())
    x, source = (doubles(b, N, D_MODEL) for b in batches)
    x, full = x[:, -queries:], [y.expand(2, -1, -1) for y in (x, source)]
    close(
        module(x, *module.project(source)),
        module(full[0][:, -queries:], *module.project(full[1])),
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("queries", [1, 2])
def test_queries_of_another_batch_do_not_share_heads_of_the_state(queries):
    """Without an axis for heads, the batch would be taken for one."""
    attention, x = CausalAttention(), doubles(4, N, 6)
    _, state = attention.extend(x[:2], x[:2], x[:2], attention.start(x[:2], x[:2]))
    new = x[:, :queries]
    with pytest.raises(ValueError, match="not of the same positions of one batch"):
        attention.extend(new, new[:2], new[:2], state)


def test_decoding_is_recorded():
    module, x = grouped(2, CausalAttention()), doubles(1, N, D_MODEL)
    with record_weights(module) as maps:
        state = module.start(x)
        for part in x.split(1, 1):
            _, state = module.extend(part, state)
    last = maps["attention"][-1]
    close(last, module.weights(x, module.project(x)[0])[:, :, -1:])


@pytest.mark.parametrize("groups", [3, 8])
def test_groups_that_do_not_divide_the_heads_are_an_error(groups):
    with pytest.raises(
        ValueError, match=f"4 heads cannot share {groups} key–value heads evenly"
    ):
        MultiHeadAttention(D_MODEL, HEADS, key_value_heads=groups)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("groups", [0, -1])
def test_no_group_is_an_error(groups):
    with pytest.raises(ValueError, match="key_value_heads must be at least 1"):
        MultiHeadAttention(D_MODEL, HEADS, key_value_heads=groups)


@pytest.mark.usefixtures("unchecked")
def test_keys_of_another_number_of_heads_are_an_error():
    module, x = grouped(2), doubles(1, N, D_MODEL)
    key = doubles(1, 4, N, 6)
    with pytest.raises(ValueError, match="do not fit 2 heads"):
        module(x, key, key)


def test_pytorchs_module_has_no_shared_heads():
    assert isinstance(grouped(4).to_torch(), nn.MultiheadAttention)
    with pytest.raises(ValueError, match="to_torch needs heads"):
        grouped(2).to_torch()


def test_print_shows_the_groups_where_there_are_any():
    assert "heads=4, key_value_heads=2" in repr(grouped(2))
    assert "key_value_heads" not in repr(grouped(4))
