"""Decay and the delta rule: in chunks against position by position, and a token after many others.

The two forms are first compared with each other. Forward alone, and forward and backward of one batch.
The time a token of the delta rule is compared at the shortest and at the longest text, where it should
be the same.
"""

from functools import partial

import torch
from measure import compare, in_turn, report, setting
from torch.nn.functional import logsigmoid, normalize

from companion.attention import (
    GatedDeltaAttention,
    MultiHeadAttention,
    chunked_decay_attention,
    chunked_delta_rule,
    recurrent_decay_attention,
    recurrent_delta_rule,
)

HEADS, SIZE, N = 8, 64, 1024
LENGTHS = (256, 4096)


def given(device):
    """Query, key, value, β and log γ for a batch of heads."""
    query, key, value = (torch.randn(1, HEADS, N, SIZE, device=device) for _ in "qkv")
    gates = torch.randn(2, 1, HEADS, N, device=device)
    key = normalize(key, dim=-1)
    return query, key, value, gates[0].sigmoid(), logsigmoid(gates[1]) / 16


def learn(form, leaves):
    """Forward and backward."""
    torch.autograd.grad(form(*leaves)[0].square().sum(), leaves)


def forms(device):
    query, key, value, beta, log_decay = given(device)
    races = {
        "decay": (
            chunked_decay_attention,
            recurrent_decay_attention,
            (query, key, value, log_decay),
        ),
        "delta rule": (
            chunked_delta_rule,
            recurrent_delta_rule,
            (query, key, value, beta),
        ),
        "gated delta rule": (
            chunked_delta_rule,
            recurrent_delta_rule,
            (query, key, value, beta, log_decay),
        ),
    }
    for name, (chunked, recurrent, inputs) in races.items():
        torch.testing.assert_close(
            chunked(*inputs)[0], recurrent(*inputs)[0], atol=1e-4, rtol=1e-3
        )
        what = f"{name}, {N:,} positions in chunks against one by one"
        ways = partial(chunked, *inputs), partial(recurrent, *inputs)
        compare(f"{what}, forward", *ways, "at least 3", 5)
        leaves = [x.detach().requires_grad_() for x in inputs]
        ways = partial(learn, chunked, leaves), partial(learn, recurrent, leaves)
        compare(f"{what}, forward and backward", *ways, "at least 3", 5)


@torch.no_grad()
def token(device):
    module = MultiHeadAttention(HEADS * SIZE, HEADS, GatedDeltaAttention()).to(device)
    new = torch.randn(1, 1, HEADS * SIZE, device=device)
    actions = {}
    for n in LENGTHS:
        x = torch.randn(1, n, HEADS * SIZE, device=device)
        _, state = module.extend(x, module.start(x))
        actions[str(n)] = partial(module.extend, new, state)
    first, last = in_turn(actions, 30).values()
    name = f"a position after {LENGTHS[-1]:,} others, against one after {LENGTHS[0]}"
    report(f"{name}: gated delta rule", last, first, "s", "about 1")


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(setting())
    forms(device)
    token(device)


if __name__ == "__main__":
    main()
