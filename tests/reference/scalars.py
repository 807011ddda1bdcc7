"""The arithmetic of all papers, on Python floats."""

import math


def values(module):
    """The parameters of a module as nested lists, by name."""
    return {name: tensor.tolist() for name, tensor in module.state_dict().items()}


def part(parameters, prefix):
    """The parameters of one submodule: those whose name starts with ``prefix.``."""
    start = prefix + "."
    return {
        name[len(start) :]: value
        for name, value in parameters.items()
        if name.startswith(start)
    }


def layers(parameters):
    """The parameters of each module of a list, in order."""
    numbers = sorted({int(name.split(".")[0]) for name in parameters})
    return [part(parameters, str(number)) for number in numbers]


def dot(a, b):
    """Σ_i a_i b_i"""
    assert len(a) == len(b)
    total = 0.0
    for x, y in zip(a, b, strict=True):
        total += x * y
    return total


def add(*vectors):
    """a + b + …"""
    return [math.fsum(numbers) for numbers in zip(*vectors, strict=True)]


def times(a, b):
    """a ∘ b"""
    return [x * y for x, y in zip(a, b, strict=True)]


def linear(parameters, x):
    """W x + b, or W x where there is no b"""
    image = [dot(row, x) for row in parameters["weight"]]
    return add(image, parameters["bias"]) if "bias" in parameters else image


def tanh(x):
    """tanh, elementwise"""
    return [math.tanh(number) for number in x]


def sigmoid(x):
    """σ(x) = 1 / (1 + exp(−x)), elementwise"""
    return [1 / (1 + math.exp(-number)) for number in x]


def relu(x):
    """max(0, x), elementwise"""
    return [max(0.0, number) for number in x]


def softmax(scores, mask=None):
    """α_j = m_j exp(e_j) / Σ_l m_l exp(e_l), and all zero where every m is 0"""
    mask = [True] * len(scores) if mask is None else mask
    exponentials = [
        math.exp(score) if visible else 0.0
        for score, visible in zip(scores, mask, strict=True)
    ]
    total = math.fsum(exponentials)
    return [x / total if total else 0.0 for x in exponentials]


def context(weights, states):
    """c_i = Σ_j α_ij h_j   (Bahdanau et al. 2015, equation 5)"""
    total = [0.0] * len(states[0])
    for weight, state in zip(weights, states, strict=True):
        for i, number in enumerate(state):
            total[i] += weight * number
    return total


def transposed(matrix):
    """The matrix with its rows and columns exchanged."""
    return [list(column) for column in zip(*matrix, strict=True)]


def entropy(probabilities):
    """H = − Σ_i α_i log α_i"""
    return -math.fsum(x * math.log(x) for x in probabilities if x > 0)
