"""DeepSeek-AI 2024, DeepSeek-V2: multi-head latent attention."""

import math

from tests.reference.scalars import context, dot, linear, part, softmax
from tests.reference.su_2021 import rotated


def latent_attention(parameters, inputs, heads, rotary_size, visible):
    """u_t = W_O [o_t,1; …; o_t,h]   (section 2.1, equations 9 to 19)"""
    latents = [linear(part(parameters, "W_DKV"), x) for x in inputs]
    shared = [
        rotated(linear(part(parameters, "W_KR"), x), j) for j, x in enumerate(inputs)
    ]
    outputs = []
    for i, x in enumerate(inputs):
        down = part(parameters, "W_DQ")
        q = linear(down, x) if down else x
        joined = []
        for head in range(heads):
            r = rotated(of_head(linear(part(parameters, "W_QR"), q), head, heads), i)
            query = [*of_head(linear(part(parameters, "W_UQ"), q), head, heads), *r]
            scores, values = [], []
            for c, k_R in zip(latents, shared, strict=True):
                k_C = of_head(linear(part(parameters, "W_UK"), c), head, heads)
                scores.append(dot(query, [*k_C, *k_R]) / math.sqrt(len(query)))
                values.append(of_head(linear(part(parameters, "W_UV"), c), head, heads))
            weights = softmax(scores, [visible(i, j) for j in range(len(inputs))])
            joined += context(weights, values)
        outputs.append(linear(part(parameters, "W_O"), joined))
    return outputs


def of_head(numbers, head, heads):
    """The part of one head."""
    size = len(numbers) // heads
    return numbers[head * size : (head + 1) * size]
