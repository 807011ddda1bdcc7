"""Pavlopoulos et al. 2017, Deeper attention to abusive user content moderation."""

from tests.reference.scalars import add, dot, layers, linear, part, relu


def mlp_score(parameters, query, key):
    """z_1 = ReLU(W q_i + U k_j + b),   z_l = ReLU(W_l z_{l−1} + b_l),   e_ij = vᵀ z_L"""
    W, U = part(parameters, "W"), part(parameters, "U")
    hidden = relu(add(linear(W, query), linear(U, key)))
    for layer in layers(part(parameters, "hidden")):
        hidden = relu(linear(layer, hidden))
    return dot(parameters["v"], hidden)
