"""Xu et al. 2015, Show, attend and tell."""

import math
from itertools import product

from tests.reference import bahdanau_2015
from tests.reference.recurrence import lstm_cell
from tests.reference.scalars import add, context, linear, part, sigmoid, tanh


def convolution(parameters, image):
    """ReLU(b_o + Σ_c Σ_m Σ_n W_o,c,m,n image_c(y + m − r, x + n − r))

    at (y, x), zero beyond the border, for filters of 2r + 1 rows and columns
    """
    height, width, size = (
        len(image[0]),
        len(image[0][0]),
        len(parameters["weight"][0][0]),
    )
    r = size // 2
    channels = []
    for filters, bias in zip(parameters["weight"], parameters["bias"], strict=True):
        channel = [[bias] * width for _ in range(height)]
        for taps, plane in zip(filters, image, strict=True):
            for y, x, m, n in product(
                range(height), range(width), range(size), range(size)
            ):
                if 0 <= y + m - r < height and 0 <= x + n - r < width:
                    channel[y][x] += taps[m][n] * plane[y + m - r][x + n - r]
        channels.append([[max(number, 0.0) for number in row] for row in channel])
    return channels


def max_pool(image):
    """out(y, x) = the largest of the four pixels (2y or 2y + 1, 2x or 2x + 1)"""
    return [
        [
            [
                max(plane[y][x], plane[y + 1][x], plane[y][x + 1], plane[y + 1][x + 1])
                for x in range(0, n, 2)
            ]
            for y in range(0, n, 2)
        ]
        for plane in image
        for n in [len(plane)]
    ]


def annotations(parameters, image):
    """a_i = [features of region i; row; column], region by region, row by row"""
    image = max_pool(convolution(part(parameters, "first"), image))
    image = max_pool(convolution(part(parameters, "second"), image))
    image, n = convolution(part(parameters, "third"), image), 8
    return [
        [plane[y][x] for plane in image] + [12 * y / (n - 1) - 6, 12 * x / (n - 1) - 6]
        for y in range(n)
        for x in range(n)
    ]


def teacher_forced(parameters, states, target, alphas=None):
    """Logits and α after each token of ``target``; ``alphas``, where given, replace α in ẑ_t.

    h_0 = tanh(W_h ā + b_h),   c_0 = tanh(W_c ā + b_c)   (section 3.1.2)
    β_t = σ(f_β(h_{t−1})),   ẑ_t = β_t Σ_i α_ti a_i   (section 4.2.1)
    h_t, c_t = LSTM([y_{t−1}; ẑ_t], h_{t−1}, c_{t−1}),   logits = L_o (E y_{t−1} + L_h h_t + L_z ẑ_t)   (7)
    """
    mean = [math.fsum(numbers) / len(states) for numbers in zip(*states, strict=True)]
    hidden, cell = (
        tanh(linear(part(parameters, name), mean)) for name in ("W_h", "W_c")
    )
    logits, probabilities = [], []
    for t, token in enumerate(target):
        word = parameters["embedding.weight"][token]
        _, weights = bahdanau_2015.attend(parameters, hidden, states)
        (gate,) = sigmoid(linear(part(parameters, "f_beta"), hidden))
        attended = [
            gate * number
            for number in context(alphas[t] if alphas else weights, states)
        ]
        hidden, cell = lstm_cell(
            part(parameters, "cell"), word + attended, hidden, cell
        )
        output = part(parameters, "output")
        hidden_output = add(
            word,
            linear(part(output, "L_h"), hidden),
            linear(part(output, "L_z"), attended),
        )
        logits.append(linear(part(output, "L_o"), hidden_output))
        probabilities.append(weights)
    return logits, probabilities


def doubly_stochastic(weights, weight=1.0):
    """λ Σ_i (1 − Σ_t α_ti)²   (section 4.2.1, equation 14); ``weights`` holds one list per step"""
    return weight * math.fsum(
        (1 - math.fsum(received)) ** 2 for received in zip(*weights, strict=True)
    )


def reinforce(log_prob, rewards, baseline, entropies, policy_weight, entropy_weight):
    """− Σ_t [λ_r (Σ_{l ≥ t} r_l − b_t) log p_t + λ_e H_t], of one caption   (section 4.1)"""
    total = 0.0
    for t in range(len(rewards)):
        total -= policy_weight * (math.fsum(rewards[t:]) - baseline[t]) * log_prob[t]
        total -= entropy_weight * entropies[t]
    return total
