"""Tay et al. 2021, Synthesizer: rethinking self-attention for transformer models."""

from tests.reference.scalars import dot, part, relu, times


def linear_layer(parameters, x, head):
    """x W + b, of one head if there are several"""
    weight, bias = (
        parameters[name] if head is None else parameters[name][head]
        for name in ("weight", "bias")
    )
    return [
        dot(x, [row[e] for row in weight]) + bias[0][e] for e in range(len(bias[0]))
    ]


def dense_scores(parameters, x, i, length, head=None):
    """B_i = F(x_i), where F has two layers   (section 3.1)"""
    hidden = relu(linear_layer(part(parameters, "hidden"), x, head))
    return linear_layer(part(parameters, "output"), hidden, head)[:length]


def factorized_dense_scores(parameters, x, i, length, head=None):
    """C_i = H_A(A_i) ∘ H_B(B_i): A repeated as a whole, B entry by entry   (section 3.3)"""
    hidden = relu(linear_layer(part(parameters, "hidden"), x, head))
    a, b = (linear_layer(part(parameters, name), hidden, head) for name in "AB")
    tiled = [number for _ in b for number in a]
    repeated = [number for number in b for _ in a]
    return times(tiled, repeated)[:length]


def random_scores(parameters, x, i, length, head=None):
    """R_i   (section 3.2)"""
    table = parameters["R"] if head is None else parameters["R"][head]
    return table[i][:length]


def factorized_random_scores(parameters, x, i, length, head=None):
    """(R_1 R_2ᵀ)_i   (section 3.3)"""
    first, second = (
        parameters[name] if head is None else parameters[name][head]
        for name in ("R_1", "R_2")
    )
    return [dot(first[i], row) for row in second[:length]]
