"""Decoding with shared key–value heads, and the time of a token in linear attention.

Grouped-query attention is raced against multi-head attention with as many heads, and a layer of Llama
against that of ``transformers`` with the same weights. The time a token of linear
attention is compared at the shortest and at the longest text, where it should be the same.
"""

import torch
from measure import compare, in_turn, report, setting
from transformers import DynamicCache, LlamaConfig
from transformers.models.llama.modeling_llama import (
    LlamaAttention,
    LlamaRotaryEmbedding,
)

from companion.attention import (
    CausalAttention,
    CausalLinearAttention,
    Rotary,
    adjacent_pairs,
)
from companion.attention.multihead import MultiHeadAttention
from companion.models import LlamaLayer

D_MODEL, HEADS, GROUPS = 512, 8, 2
LENGTHS = (256, 1024, 4096, 16_384)


def after(module, length):
    """A function that decodes one position after ``length`` others."""
    x = torch.randn(1, length, D_MODEL)
    _, state = module.extend(x, module.start(x))
    new = torch.randn(1, 1, D_MODEL)
    return lambda: module.extend(new, state)


def steps(module, length, number=16):
    """A function that decodes some positions, one by one, after ``length`` others."""
    x = torch.randn(1, length, D_MODEL)
    _, start = module.extend(x, module.start(x))
    new = torch.randn(1, 1, D_MODEL)

    def run():
        state = start
        for _ in range(number):
            _, state = module.extend(new, state)

    return run


def grouped():
    for length in (1024, 8192):
        ways = [
            steps(
                MultiHeadAttention(
                    D_MODEL, HEADS, Rotary(CausalAttention()), key_value_heads=groups
                ),
                length,
            )
            for groups in (GROUPS, HEADS)
        ]
        goal = "at least 1" if length < 4096 else "at least 1.5"
        compare(
            f"16 positions after {length:,}, {GROUPS} key–value heads against {HEADS}",
            *ways,
            goal,
        )


def llama():
    config = LlamaConfig(
        hidden_size=D_MODEL,
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        attn_implementation="sdpa",
    )
    theirs, rotary = LlamaAttention(config, 0).eval(), LlamaRotaryEmbedding(config)
    ours = LlamaLayer(D_MODEL, HEADS, 4, GROUPS).attention.eval()
    for mine, its, heads in [("W_Q", "q_proj", HEADS), ("W_K", "k_proj", GROUPS)]:
        weight = getattr(theirs, its).weight
        getattr(ours, mine).weight.data = adjacent_pairs(weight, heads).detach()
    ours.W_V.weight.data, ours.W_O.weight.data = (
        theirs.v_proj.weight.data,
        theirs.o_proj.weight.data,
    )
    for length in (64, 1024):
        x = torch.randn(1, length + 16, D_MODEL)
        positions = torch.arange(length + 16)[None]

        def with_ours(x=x, length=length):
            _, state = ours.extend(x[:, :length], ours.start(x))
            for n in range(length, length + 16):
                y, state = ours.extend(x[:, n : n + 1], state)
            return y

        def with_theirs(x=x, length=length, positions=positions):
            cache = DynamicCache(config=config)
            cuts = [(0, length), *((n, n + 1) for n in range(length, length + 16))]
            for first, end in cuts:
                part = x[:, first:end]
                embeddings = rotary(part, positions[:, first:end])
                y = theirs(part, embeddings, None, past_key_values=cache)[0]
            return y

        torch.testing.assert_close(with_ours(), with_theirs(), atol=1e-4, rtol=1e-3)
        compare(
            f"a prompt of {length:,} and 16 positions, against transformers",
            with_ours,
            with_theirs,
            "at least 1",
        )


def linear():
    module = MultiHeadAttention(D_MODEL, HEADS, CausalLinearAttention())
    times = in_turn({str(n): after(module, n) for n in LENGTHS}, 30)
    first, *_, last = times.values()
    report(
        f"a position after {LENGTHS[-1]:,} others, against one after {LENGTHS[0]}: linear",
        last,
        first,
        "s",
        "about 1",
    )
    dense = MultiHeadAttention(D_MODEL, HEADS, CausalAttention())
    times = in_turn({"linear": after(module, 8192), "dense": after(dense, 8192)}, 9)
    report(
        "a position after 8,192 others, linear against dense",
        *times.values(),
        "s",
        "at least 2",
    )


@torch.no_grad()
def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(setting())
    grouped()
    llama()
    linear()


if __name__ == "__main__":
    main()
