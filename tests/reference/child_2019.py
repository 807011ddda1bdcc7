"""Child et al. 2019, Generating long sequences with sparse transformers."""

from tests.reference import vaswani_2017
from tests.reference.scalars import softmax


def pattern_weights(may_attend, queries, keys):
    """α_ij = softmax of q_iᵀ k_j / √d over the j with ``may_attend(i, j)``.

    The queries are the last positions of the keys.
    """
    first = len(keys) - len(queries)
    return [
        softmax(
            [vaswani_2017.scaled_dot_score({}, q, k) for k in keys],
            [may_attend(first + i, j) for j in range(len(keys))],
        )
        for i, q in enumerate(queries)
    ]


def fixed(stride, expressive):
    """A⁽¹⁾ ∪ A⁽²⁾: ⌊j/l⌋ = ⌊i/l⌋, or j mod l ∈ {l − c, …, l − 1}   (section 4.3)"""
    late = range(stride - expressive, stride)
    return lambda i, j: j <= i and (j // stride == i // stride or j % stride in late)


def strided(stride):
    """A⁽¹⁾ = {t, …, i}, t = max(0, i − l), ∪ A⁽²⁾ = {j ≤ i : (i − j) mod l = 0}   (section 4.3)"""
    return lambda i, j: (
        j in range(max(0, i - stride), i + 1) or (j <= i and (i - j) % stride == 0)
    )
