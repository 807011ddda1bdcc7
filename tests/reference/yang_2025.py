"""Yang et al. 2025, Gated Delta Networks: the delta rule with forgetting."""

from tests.reference.scalars import add, dot, transposed


def recurrence(queries, keys, values, betas, decays):
    """S_t = S_(t−1) (α_t (I − β_t k_t k_tᵀ)) + β_t v_t k_tᵀ,   o_t = S_t q_t   (section 3.1)"""
    size = len(keys[0])
    S = [[0.0] * size for _ in values[0]]
    contexts = []
    for query, key, value, beta, decay in zip(
        queries, keys, values, betas, decays, strict=True
    ):
        transition = [
            [decay * ((i == j) - beta * key[i] * key[j]) for j in range(size)]
            for i in range(size)
        ]
        kept = [[dot(row, column) for column in transposed(transition)] for row in S]
        S = [
            add(row, [beta * v * k for k in key])
            for row, v in zip(kept, value, strict=True)
        ]
        contexts.append([dot(row, query) for row in S])
    return contexts
