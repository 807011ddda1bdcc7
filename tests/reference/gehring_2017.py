"""Gehring et al. 2017, Convolutional sequence to sequence learning."""

import math

from tests.reference.scalars import (
    add,
    context,
    dot,
    layers,
    linear,
    part,
    sigmoid,
    softmax,
    times,
)


def weight_normalised(parameters):
    """w = g v / |v| for each output   (Salimans and Kingma 2016, equation 2)"""
    weight = []
    for (g,), v in zip(parameters["g"], parameters["v"], strict=True):
        norm = math.sqrt(dot(v, v))
        weight.append([g * x / norm for x in v])
    return {"weight": weight, "bias": parameters["bias"]}


def block_width(parameters):
    """The width of a convolution that maps windows of d-dimensional vectors to 2d outputs."""
    v = parameters["convolution.v"]
    return len(v[0]) // (len(v) // 2)


def gated_block(parameters, inputs, before, after):
    """√½ (A ∘ σ(B) + h_i) with [A; B] = W [h_{i−before}, …, h_{i+after}] + b   (sections 3.2 and 3.4)"""
    convolution = weight_normalised(part(parameters, "convolution"))
    size, outputs = len(inputs[0]), []
    for i in range(len(inputs)):
        window = [
            inputs[j] if 0 <= j < len(inputs) else [0.0] * size
            for j in range(i - before, i + after + 1)
        ]
        flat = [word[i] for i in range(size) for word in window]  # the layout of W
        y = linear(convolution, flat)
        gated = times(y[:size], sigmoid(y[size:]))
        outputs.append([math.sqrt(0.5) * x for x in add(gated, inputs[i])])
    return outputs


def with_positions(parameters, tokens):
    """e_j = w_j + p_j   (section 3.1)"""
    words, positions = (
        parameters["embedding.weight"],
        parameters["position.embedding.weight"],
    )
    return [add(words[token], positions[j]) for j, token in enumerate(tokens)]


def scaled_sum(scale, x, y):
    """s (x + y), where the authors' code has s = √½ and the paper 1"""
    return [scale * a for a in add(x, y)]


def teacher_forced(parameters, source, target, scale=1.0):
    """Logits after each token of ``target``, and each layer's weights   (sections 3.2 to 3.4).

    d_i = s (W_d h_i + b_d + g_i),   a_ij = softmax(d_i · z_j)
    c_i = m √(1/m) Σ_j a_ij s (z_j + e_j),   output_i = s (h_i + W_c c_i + b_c)
    """
    encoder, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    e, g = with_positions(encoder, source), with_positions(decoder, target)
    z = [linear(weight_normalised(part(encoder, "to_hidden")), x) for x in e]
    for block in layers(part(encoder, "blocks")):
        around = block_width(block) // 2
        z = gated_block(block, z, around, around)
    z = [linear(weight_normalised(part(encoder, "to_embedding")), x) for x in z]
    values, m = (
        [scaled_sum(scale, *pair) for pair in zip(z, e, strict=True)],
        len(source),
    )
    h = [linear(weight_normalised(part(decoder, "to_hidden")), x) for x in g]
    alphas = []
    for layer in layers(part(decoder, "layers")):
        block = part(layer, "block")
        h = gated_block(block, h, block_width(block) - 1, 0)
        queries = [
            scaled_sum(scale, linear(weight_normalised(part(layer, "W_d")), x), y)
            for x, y in zip(h, g, strict=True)
        ]
        alphas.append([softmax([dot(d, x) for x in z]) for d in queries])
        contexts = [
            [m * math.sqrt(1 / m) * x for x in context(a, values)] for a in alphas[-1]
        ]
        h = [
            scaled_sum(scale, x, linear(weight_normalised(part(layer, "W_c")), c))
            for x, c in zip(h, contexts, strict=True)
        ]
    h = [linear(weight_normalised(part(decoder, "to_embedding")), x) for x in h]
    return [linear(weight_normalised(part(decoder, "output")), x) for x in h], alphas
