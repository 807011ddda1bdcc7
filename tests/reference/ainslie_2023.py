"""Ainslie et al. 2023, GQA: training generalized multi-query Transformer models."""

from tests.reference.scalars import context, linear, part, softmax
from tests.reference.vaswani_2017 import scaled_dot_score


def grouped_query(parameters, queries, source, heads, groups, visible):
    """Multi-head attention in which head i reads the keys and values of group ⌊i g / h⌋   (section 2.2)"""
    q = [linear(part(parameters, "W_Q"), x) for x in queries]
    k, v = (
        [linear(part(parameters, name), x) for x in source] for name in ("W_K", "W_V")
    )
    size, outputs = len(q[0]) // heads, []
    for i, query in enumerate(q):
        concatenated = []
        for head in range(heads):
            group = head * groups // heads
            own = slice(head * size, (head + 1) * size)
            shared = slice(group * size, (group + 1) * size)
            scores = [scaled_dot_score({}, query[own], key[shared]) for key in k]
            weights = softmax(scores, [visible(i, j) for j in range(len(k))])
            concatenated += context(weights, [value[shared] for value in v])
        outputs.append(linear(part(parameters, "W_O"), concatenated))
    return outputs
