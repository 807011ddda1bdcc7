"""Vaswani et al. 2017, Attention is all you need."""

import math

from tests.reference.scalars import (
    add,
    context,
    dot,
    layers,
    linear,
    part,
    relu,
    softmax,
    times,
)


def scaled_dot_score(parameters, query, key):
    """e_ij = q_iᵀ k_j / √d   (section 3.2.1)"""
    return dot(query, key) / math.sqrt(len(query))


def sinusoids(position, size):
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)),   PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))   (section 3.5)"""
    features = []
    for feature in range(size):
        angle = position / 10000 ** (2 * (feature // 2) / size)
        features.append(math.cos(angle) if feature % 2 else math.sin(angle))
    return features


def multi_head(parameters, queries, source, heads, masks):
    """[head_1; …; head_h] W_O,   head_i = attention(Q W_Q,i, K W_K,i, V W_V,i)   (section 3.2.2)"""
    q = [linear(part(parameters, "W_Q"), x) for x in queries]
    k, v = (
        [linear(part(parameters, name), x) for x in source] for name in ("W_K", "W_V")
    )
    size, outputs = len(q[0]) // heads, []
    for query, mask in zip(q, masks, strict=True):
        concatenated = []
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            weights = softmax(
                [scaled_dot_score({}, query[own], key[own]) for key in k], mask
            )
            concatenated += context(weights, [value[own] for value in v])
        outputs.append(linear(part(parameters, "W_O"), concatenated))
    return outputs


def layer_norm(parameters, x):
    """g ∘ (x − μ) / σ + b, with 10⁻⁵ added to σ² as in PyTorch   (Ba et al. 2016, equation 4)"""
    mean = math.fsum(x) / len(x)
    deviation = math.sqrt(
        math.fsum((number - mean) ** 2 for number in x) / len(x) + 1e-5
    )
    return add(
        times(parameters["weight"], [(y - mean) / deviation for y in x]),
        parameters["bias"],
    )


def post_norm(parameters, x, change):
    """LayerNorm(x + Sublayer(x)), position by position   (section 3.1)"""
    norm = part(parameters, "norm")
    return [layer_norm(norm, add(*pair)) for pair in zip(x, change, strict=True)]


def feed_forward(parameters, x):
    """max(0, x W_1 + b_1) W_2 + b_2   (equation 2)"""
    hidden = relu(linear(part(parameters, "0"), x))
    return linear(part(parameters, "2"), hidden)


def transformer_layer(parameters, x, heads, masks, states=None):
    """Self-attention, attention to the source if ``states`` are given, feed-forward network."""
    attended = multi_head(part(parameters, "attention"), x, x, heads, masks)
    x = post_norm(part(parameters, "attention_residual"), x, attended)
    if states is not None:
        unmasked = [[True] * len(states)] * len(x)
        attended = multi_head(
            part(parameters, "source_attention"), x, states, heads, unmasked
        )
        x = post_norm(part(parameters, "source_residual"), x, attended)
    transformed = [feed_forward(part(parameters, "feed_forward"), word) for word in x]
    return post_norm(part(parameters, "feed_forward_residual"), x, transformed)


def logits(parameters, source, target, heads):
    """Logits after each token of ``target``: √d E embeds the tokens, and Eᵀ gives the logits."""

    def embedded(parameters, tokens):
        table = parameters["embedding.weight"]
        scale, size = math.sqrt(len(table[0])), len(table[0])
        return [
            add([scale * x for x in table[token]], sinusoids(position, size))
            for position, token in enumerate(tokens)
        ]

    encoder, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    states = embedded(encoder, source)
    for layer in layers(part(encoder, "layers")):
        states = transformer_layer(
            layer, states, heads, [[True] * len(source)] * len(source)
        )
    x, n = embedded(decoder, target), len(target)
    for layer in layers(part(decoder, "layers")):
        x = transformer_layer(
            layer, x, heads, [[j <= i for j in range(n)] for i in range(n)], states
        )
    return [linear({"weight": decoder["embedding.weight"]}, word) for word in x]
