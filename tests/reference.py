"""Each paper's equations as scalar loops over Python floats: slow, plain, and the oracle of the tests.

A vector is a list of floats, a matrix a list of rows, and a model's parameters are a dictionary from the
names of its ``state_dict`` to such lists. Nothing here imports ``companion`` or ``torch``.
"""

import math
from itertools import product

PAD, BOS, EOS = 0, 1, 2


def values(module):
    """The parameters of a module as nested lists, by name."""
    return {name: tensor.tolist() for name, tensor in module.state_dict().items()}


def part(parameters, prefix):
    """The parameters of one part of a model: those whose name starts with ``prefix.``."""
    start = prefix + "."
    return {
        name[len(start) :]: value
        for name, value in parameters.items()
        if name.startswith(start)
    }


# Vectors


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
    """tanh, element by element"""
    return [math.tanh(number) for number in x]


def sigmoid(x):
    """σ(x) = 1 / (1 + exp(−x)), element by element"""
    return [1 / (1 + math.exp(-number)) for number in x]


# Attention


def softmax(scores, mask=None):
    """α_j = m_j exp(e_j) / Σ_l m_l exp(e_l), and all zero where no m is 1"""
    mask = [True] * len(scores) if mask is None else mask
    exponentials = [
        math.exp(score) if may else 0.0 for score, may in zip(scores, mask, strict=True)
    ]
    total = math.fsum(exponentials)
    return [x / total if total else 0.0 for x in exponentials]


def additive_score(parameters, query, state):
    """e_ij = vᵀ tanh(W s_{i−1} + U h_j)   (Bahdanau et al. 2015, appendix A.1.2)"""
    hidden = add(
        linear(part(parameters, "W"), query), linear(part(parameters, "U"), state)
    )
    return dot(parameters["v"], tanh(hidden))


def context(weights, states):
    """c_i = Σ_j α_ij h_j   (Bahdanau et al. 2015, equation 5)"""
    total = [0.0] * len(states[0])
    for weight, state in zip(weights, states, strict=True):
        for feature, number in enumerate(state):
            total[feature] += weight * number
    return total


def location_features(filters, previous):
    """f_ij,c = Σ_m F_c,m α_{i−1, j+m−middle}, with α = 0 beyond both ends   (Chorowski et al. 2015, (8))"""
    features = []
    for j in range(len(previous)):
        row = []
        for (taps,) in filters:
            middle, total = len(taps) // 2, 0.0
            for m, tap in enumerate(taps):
                if 0 <= j + m - middle < len(previous):
                    total += tap * previous[j + m - middle]
            row.append(total)
        features.append(row)
    return features


def location_score(parameters, query, state, features):
    """e_ij = vᵀ tanh(W s_{i−1} + U h_j + L f_ij + b)   (Chorowski et al. 2015, equation 9)"""
    hidden = add(
        linear(part(parameters, "W"), query),
        linear(part(parameters, "U"), state),
        linear(part(parameters, "L"), features),
    )
    return dot(parameters["v"], tanh(hidden))


# The family of scores


def dot_score(parameters, query, key):
    """e_ij = q_iᵀ k_j   (Luong et al. 2015, section 3.1)"""
    return dot(query, key)


def scaled_dot_score(parameters, query, key):
    """e_ij = q_iᵀ k_j / √d   (Vaswani et al. 2017, section 3.2.1)"""
    return dot(query, key) / math.sqrt(len(query))


def cosine_score(parameters, query, key):
    """e_ij = q_iᵀ k_j / (|q_i| |k_j|), and 0 where either is zero   (Graves et al. 2014, section 3.3.1)"""
    lengths = math.sqrt(dot(query, query)) * math.sqrt(dot(key, key))
    return dot(query, key) / lengths if lengths else 0.0


def bilinear_score(parameters, query, key):
    """e_ij = q_iᵀ W k_j   (Luong et al. 2015, section 3.1, general)"""
    return dot(query, linear(part(parameters, "W"), key))


def concat_score(parameters, query, key):
    """e_ij = vᵀ tanh(W [q_i; k_j])   (Luong et al. 2015, section 3.1, concat)"""
    return dot(parameters["v"], tanh(linear(part(parameters, "W"), query + key)))


def mlp_score(parameters, query, key):
    """z_1 = ReLU(W q_i + U k_j + b),   z_l = ReLU(W_l z_{l−1} + b_l),   e_ij = vᵀ z_L"""
    hidden = add(
        linear(part(parameters, "W"), query), linear(part(parameters, "U"), key)
    )
    hidden, layer = [max(x, 0.0) for x in hidden], 0
    while f"hidden.{layer}.weight" in parameters:
        hidden = [
            max(x, 0.0) for x in linear(part(parameters, f"hidden.{layer}"), hidden)
        ]
        layer += 1
    return dot(parameters["v"], hidden)


def aligned_question(parameters, word, question):
    """f_align(p_i) = Σ_j a_ij E(q_j), a_ij ∝ exp(α(E(p_i)) · α(E(q_j)))   (Chen et al. 2017, section 3.2)"""
    dense = part(parameters, "W")
    images = [
        [max(x, 0.0) for x in linear(dense, vector)] for vector in (word, *question)
    ]
    return context(softmax([dot(images[0], image) for image in images[1:]]), question)


def pattern_weights(sees, queries, keys):
    """α_ij = softmax of q_iᵀ k_j / √d among the j that ``sees(i, j)``; the last query is at the last key"""
    first = len(keys) - len(queries)
    return [
        softmax(
            [scaled_dot_score({}, q, k) for k in keys],
            [sees(first + i, j) for j in range(len(keys))],
        )
        for i, q in enumerate(queries)
    ]


def fixed_sees(stride, expressive):
    """A⁽¹⁾ ∪ A⁽²⁾: ⌊j/l⌋ = ⌊i/l⌋, or j mod l ∈ {l − c, …, l − 1}   (Child et al. 2019, section 4.2)"""
    late = range(stride - expressive, stride)
    return lambda i, j: j <= i and (j // stride == i // stride or j % stride in late)


def strided_sees(stride):
    """A⁽¹⁾ = {t, …, i}, t = max(0, i − l), ∪ A⁽²⁾ = {j ≤ i : (i − j) mod l = 0}   (the same section)"""
    return lambda i, j: (
        j in range(max(0, i - stride), i + 1) or (j <= i and (i - j) % stride == 0)
    )


# Yin et al. 2016


def match_scores(left, right):
    """A_ij = 1 / (1 + |x_i − y_j|)   (section 4)"""
    return [[1 / (1 + math.dist(x, y)) for y in right] for x in left]


def attention_feature_map(W, scores):
    """F_i = Σ_j A_ij W_0[:, j], one for each row of A   (section 4)"""
    return [
        [sum(a * w for a, w in zip(row, feature, strict=False)) for feature in W]
        for row in scores
    ]


def wide_convolution(parameters, words):
    """p_i = tanh(W [v_{i−w+1}; …; v_i] + b), i = 1 … s + w − 1, zero beyond both ends   (section 3)"""
    width, phrases = len(parameters["weight"][0][0]), []
    for i in range(len(words) + width - 1):
        phrase = list(parameters["bias"])
        for channel, taps in enumerate(parameters["weight"]):
            for feature, row in enumerate(taps):
                for m, tap in enumerate(row):
                    if 0 <= i - width + 1 + m < len(words):
                        phrase[channel] += tap * words[i - width + 1 + m][feature]
        phrases.append(tanh(phrase))
    return phrases


def window_sums(phrases, weights, width):
    """v'_j = Σ_{k=j}^{j+w−1} a_k p_k   (sections 3 and 4)"""
    return [
        context(weights[j : j + width], phrases[j : j + width])
        for j in range(len(phrases) - width + 1)
    ]


def abcnn(parameters, left, right, before, after):
    """A block on one pair of sentences, with attention before and after the convolution or without."""
    convolution = part(parameters, "convolution")
    width = len(convolution["weight"][0][0])
    if before:
        scores = match_scores(left, right)
        turned = [list(column) for column in zip(*scores, strict=True)]
        first = attention_feature_map(parameters["W_0"], scores)
        second = attention_feature_map(parameters["W_0"], turned)
        left = [x + f for x, f in zip(left, first, strict=True)]
        right = [x + f for x, f in zip(right, second, strict=True)]
    left, right = (
        wide_convolution(convolution, left),
        wide_convolution(convolution, right),
    )
    rows, columns = [1 / width] * len(left), [1 / width] * len(right)
    if after:
        scores = match_scores(left, right)
        rows = [sum(row) for row in scores]
        columns = [sum(column) for column in zip(*scores, strict=True)]
    return window_sums(left, rows, width), window_sums(right, columns, width)


# Recurrence


def gru_cell(parameters, x, state, suffix=""):
    """PyTorch's GRU, which resets after the matrix.

    r = σ(W_r x + b_r + U_r s + c_r),   z = σ(W_z x + b_z + U_z s + c_z)
    n = tanh(W_n x + b_n + r ∘ (U_n s + c_n))
    s' = (1 − z) ∘ n + z ∘ s
    """
    inputs = linear(
        {
            "weight": parameters["weight_ih" + suffix],
            "bias": parameters["bias_ih" + suffix],
        },
        x,
    )
    states = linear(
        {
            "weight": parameters["weight_hh" + suffix],
            "bias": parameters["bias_hh" + suffix],
        },
        state,
    )
    n = len(state)
    reset = sigmoid(add(inputs[:n], states[:n]))
    update = sigmoid(add(inputs[n : 2 * n], states[n : 2 * n]))
    new = tanh(add(inputs[2 * n :], times(reset, states[2 * n :])))
    return [(1 - z) * a + z * s for z, a, s in zip(update, new, state, strict=True)]


def paper_gru_cell(W, U, W_z, U_z, W_r, U_r, x, state):
    """The paper's gated unit, which resets before the matrix   (Bahdanau et al. 2015, appendix A.1.1).

    z = σ(W_z x + U_z s),   r = σ(W_r x + U_r s)
    s̃ = tanh(W x + U [r ∘ s])
    s' = (1 − z) ∘ s + z ∘ s̃
    """
    update = sigmoid(
        add([dot(row, x) for row in W_z], [dot(row, state) for row in U_z])
    )
    reset = sigmoid(add([dot(row, x) for row in W_r], [dot(row, state) for row in U_r]))
    kept = times(reset, state)
    new = tanh(add([dot(row, x) for row in W], [dot(row, kept) for row in U]))
    return [(1 - z) * s + z * a for z, a, s in zip(update, new, state, strict=True)]


def lstm_cell(parameters, x, state, cell, suffix=""):
    """PyTorch's LSTM: without peepholes.

    i, f, o = σ(W x + b + U s + c), each with its own;   g = tanh(W_g x + b_g + U_g s + c_g)
    c' = f ∘ c + i ∘ g,   s' = o ∘ tanh(c')
    """
    inputs = linear(
        {
            "weight": parameters["weight_ih" + suffix],
            "bias": parameters["bias_ih" + suffix],
        },
        x,
    )
    states = linear(
        {
            "weight": parameters["weight_hh" + suffix],
            "bias": parameters["bias_hh" + suffix],
        },
        state,
    )
    n, total = len(state), add(inputs, states)
    enter, forget, leave = (sigmoid(total[k * n : (k + 1) * n]) for k in (0, 1, 3))
    cell = add(times(forget, cell), times(enter, tanh(total[2 * n : 3 * n])))
    return times(leave, tanh(cell)), cell


def deep_lstm(parameters, x, layers):
    """One step of a stack: each layer reads the state of the one below. ``layers`` are pairs (s, c)."""
    after = []
    for number, (state, cell) in enumerate(layers):
        x, cell = lstm_cell(parameters, x, state, cell, f"_l{number}")
        after.append((x, cell))
    return after


def deep_output(parameters, state, embedded, looked):
    """t̃ = [U_o V_o C_o] [s; y; c],  t_j = max(t̃_{2j−1}, t̃_{2j}),  logits = W_o t   (A.2.2)"""
    raw = linear(part(parameters, "hidden"), state + embedded + looked)
    maxout = [max(raw[j], raw[j + 1]) for j in range(0, len(raw), 2)]
    return linear(part(parameters, "W"), maxout)


# Bahdanau et al. 2015


def encoder(parameters, source):
    """→h_j = GRU(x_j, →h_{j−1}),   ←h_j = GRU(x_j, ←h_{j+1}),   h_j = [→h_j; ←h_j]   (section 3.2)"""
    return both_ways(
        part(parameters, "rnn"),
        [parameters["embedding.weight"][token] for token in source],
    )


def both_ways(parameters, inputs):
    """A bidirectional GRU over vectors: what it has read up to each from the left, and from the right."""
    forward, backward = [], []
    state = [0.0] * len(parameters["weight_hh_l0"][0])
    for x in inputs:
        state = gru_cell(parameters, x, state, "_l0")
        forward.append(state)
    state = [0.0] * len(state)
    for x in reversed(inputs):
        state = gru_cell(parameters, x, state, "_l0_reverse")
        backward.insert(0, state)
    return [ahead + behind for ahead, behind in zip(forward, backward, strict=True)]


def initial_state(parameters, states):
    """s_0 = tanh(W_s ←h_1)   (appendix A.2.2)"""
    return tanh(linear(part(parameters, "W_s"), states[0][len(states[0]) // 2 :]))


def look(parameters, query, states):
    """α_ij = softmax_j(e_ij),   c_i = Σ_j α_ij h_j"""
    attention = part(parameters, "attention")
    weights = softmax([additive_score(attention, query, state) for state in states])
    return context(weights, states), weights


def bahdanau_step(parameters, token, hidden, states, last=None):
    """c_i from s_{i−1};   p(y_i) from s_{i−1}, y_{i−1}, c_i;   s_i = GRU([y_{i−1}; c_i], s_{i−1})"""
    word = parameters["embedding.weight"][token]
    looked, weights = look(parameters, hidden, states)
    logits = deep_output(part(parameters, "output"), hidden, word, looked)
    return (
        logits,
        gru_cell(part(parameters, "cell"), word + looked, hidden),
        (looked, weights),
    )


def state_and_word_step(parameters, token, hidden, states, last=None):
    """As Bahdanau's, with the query [s_{i−1}; y_{i−1}]"""
    word = parameters["embedding.weight"][token]
    looked, weights = look(parameters, hidden + word, states)
    logits = deep_output(part(parameters, "output"), hidden, word, looked)
    return (
        logits,
        gru_cell(part(parameters, "cell"), word + looked, hidden),
        (looked, weights),
    )


def current_state_step(parameters, token, hidden, states, last=None):
    """s_i = GRU([y_{i−1}; c_{i−1}], s_{i−1});   c_i from s_i;   p(y_i) from s_i, y_{i−1}, c_i;   c_0 = 0"""
    word = parameters["embedding.weight"][token]
    before = last[0] if last else [0.0] * len(states[0])
    hidden = gru_cell(part(parameters, "cell"), word + before, hidden)
    looked, weights = look(parameters, hidden, states)
    return (
        deep_output(part(parameters, "output"), hidden, word, looked),
        hidden,
        (looked, weights),
    )


def location_step(parameters, token, hidden, states, last=None):
    """As Bahdanau's, with location-sensitive scores;   α_0 = 0"""
    word = parameters["embedding.weight"][token]
    attention = part(parameters, "attention")
    features = location_features(
        attention["F.weight"], last[1] if last else [0.0] * len(states)
    )
    scores = [
        location_score(attention, hidden, h, f)
        for h, f in zip(states, features, strict=True)
    ]
    weights = softmax(scores)
    looked = context(weights, states)
    logits = deep_output(part(parameters, "output"), hidden, word, looked)
    return (
        logits,
        gru_cell(part(parameters, "cell"), word + looked, hidden),
        (looked, weights),
    )


def teacher_forced(parameters, step, source, target):
    """Logits and weights after each word of ``target``, of one sentence, by one of the steps above."""
    states = encoder(part(parameters, "encoder"), source)
    decoder = part(parameters, "decoder")
    hidden, last = initial_state(decoder, states), None
    logits, weights = [], []
    for token in target:
        scores, hidden, last = step(decoder, token, hidden, states, last)
        logits.append(scores)
        weights.append(last[1])
    return logits, weights


# Cho et al. 2014


def cho(parameters, source, target):
    """Logits after each word of ``target``   (section 2.2 and appendix A.1).

    h_j = GRU(x_j, h_{j−1}),   c = tanh(V h_T)
    h'_0 = tanh(V' c),   h'_t = GRU([y_{t−1}; c], h'_{t−1}),   p(y_t) from h'_t, y_{t−1}, c
    """
    encoder_, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    state = [0.0] * len(encoder_["rnn.weight_hh_l0"][0])
    for token in source:
        state = gru_cell(
            part(encoder_, "rnn"), encoder_["embedding.weight"][token], state, "_l0"
        )
    summary = tanh(linear(part(encoder_, "V"), state))
    hidden, logits = tanh(linear(part(decoder, "V"), summary)), []
    for token in target:
        word = decoder["embedding.weight"][token]
        hidden = gru_cell(part(decoder, "rnn"), word + summary, hidden, "_l0")
        logits.append(deep_output(part(decoder, "output"), hidden, word, summary))
    return logits


# Sutskever et al. 2014


def sutskever(parameters, source, target):
    """Logits after each word of ``target``   (sections 2 and 3.3).

    layers = LSTM over x_T, …, x_1;   layers = LSTM(y_{t−1}, layers),   logits = W s_t of the last layer
    """
    return deep_lstm_pair(parameters, source[::-1], target)


def deep_lstm_pair(parameters, source, target):
    """The same with the source as it stands."""
    encoder_, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    rnn = part(encoder_, "rnn")
    count = sum(name.startswith("weight_hh") for name in rnn)
    zeros = [0.0] * len(rnn["weight_hh_l0"][0])
    layers, logits = [(zeros, zeros)] * count, []
    for token in source:
        layers = deep_lstm(rnn, encoder_["embedding.weight"][token], layers)
    for token in target:
        layers = deep_lstm(
            part(decoder, "rnn"), decoder["embedding.weight"][token], layers
        )
        logits.append(linear(part(decoder, "output"), layers[-1][0]))
    return logits


# Xu et al. 2015


def convolution(parameters, image):
    """ReLU(b_o + Σ_c Σ_m Σ_n W_o,c,m,n image_c(y + m − r, x + n − r)) at (y, x), zero beyond the border

    where the filters have 2r + 1 rows and columns
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


def halved(image):
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
    """a_i = [features of field i; row; column], field by field, row by row"""
    image = halved(convolution(part(parameters, "first"), image))
    image = halved(convolution(part(parameters, "second"), image))
    image, n = convolution(part(parameters, "third"), image), 8
    return [
        [plane[y][x] for plane in image] + [12 * y / (n - 1) - 6, 12 * x / (n - 1) - 6]
        for y in range(n)
        for x in range(n)
    ]


def captioner(parameters, states, target, looks=None):
    """Logits and α after each word of ``target``; where ``looks`` are given, they take the place of α.

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
        _, weights = look(parameters, hidden, states)
        (gate,) = sigmoid(linear(part(parameters, "f_beta"), hidden))
        seen = [
            gate * number for number in context(looks[t] if looks else weights, states)
        ]
        hidden, cell = lstm_cell(part(parameters, "cell"), word + seen, hidden, cell)
        output = part(parameters, "output")
        together = add(
            word, linear(part(output, "L_h"), hidden), linear(part(output, "L_z"), seen)
        )
        logits.append(linear(part(output, "L_o"), together))
        probabilities.append(weights)
    return logits, probabilities


def doubly_stochastic(weights, weight=1.0):
    """λ Σ_i (1 − Σ_t α_ti)²   (section 4.2.1, equation 14); ``weights`` holds one list a step"""
    return weight * math.fsum(
        (1 - math.fsum(received)) ** 2 for received in zip(*weights, strict=True)
    )


def entropy(probabilities):
    """H = − Σ_i α_i log α_i"""
    return -math.fsum(x * math.log(x) for x in probabilities if x > 0)


def reinforce(log_prob, rewards, baseline, entropies, policy_weight, entropy_weight):
    """− Σ_t [λ_r (Σ_{l ≥ t} r_l − b_t) log p_t + λ_e H_t], of one caption   (section 4.1)"""
    total = 0.0
    for t in range(len(rewards)):
        total -= policy_weight * (math.fsum(rewards[t:]) - baseline[t]) * log_prob[t]
        total -= entropy_weight * entropies[t]
    return total


# Luong et al. 2015


def global_weights(score):
    """a_t(s) = exp(e_ts) / Σ_s' exp(e_ts')   (equation 7)"""
    return lambda parameters, query, states, t: softmax(
        [score(parameters, query, h) for h in states]
    )


def location_weights(parameters, query, states, t):
    """a_t = softmax(W_a h_t), of which a sentence uses its own positions   (equation 8)"""
    return softmax(linear(part(parameters, "W"), query)[: len(states)])


def window_weights(score, parameters, query, states, centre, radius):
    """a_t(s) = softmax over the s with |s − p_t| ≤ D, and 0 elsewhere   (section 3.2)"""
    scores = [score(part(parameters, "attention"), query, h) for h in states]
    return softmax(scores, [abs(s - centre) <= radius for s in range(len(states))])


def local_m_weights(score, radius):
    """p_t = t   (section 3.2)"""
    return lambda parameters, query, states, t: window_weights(
        score, parameters, query, states, t, radius
    )


def predicted_centre(parameters, query, length):
    """p_t = S σ(v_pᵀ tanh(W_p h_t))   (equation 9)"""
    hidden = tanh(linear(part(parameters, "W_p"), query))
    return length * sigmoid([dot(parameters["v_p"], hidden)])[0]


def local_p_weights(score, radius):
    """a_t(s) exp(−(s − p_t)² / 2σ²) with σ = D / 2   (equation 10)"""

    def weights(parameters, query, states, t):
        centre, sigma = predicted_centre(parameters, query, len(states)), radius / 2
        around = window_weights(score, parameters, query, states, centre, radius)
        return [
            a * math.exp(-((s - centre) ** 2) / (2 * sigma**2))
            for s, a in enumerate(around)
        ]

    return weights


def luong(parameters, look, source, target, input_feeding):
    """Logits and weights after each word of ``target``   (section 3).

    h_t = LSTM(y_{t−1}, h_{t−1}), or with input feeding LSTM([y_{t−1}; h̃_{t−1}], h_{t−1}), h̃_0 = 0
    c_t = Σ_s a_t(s) h̄_s,   h̃_t = tanh(W_c [c_t; h_t]),   logits = W_s h̃_t
    """
    encoder_, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    rnn = part(encoder_, "rnn")
    zeros = [0.0] * len(rnn["weight_hh_l0"][0])
    layers = [(zeros, zeros)] * sum(name.startswith("weight_hh") for name in rnn)
    states, fed, logits, weights = [], zeros, [], []
    for token in source:
        layers = deep_lstm(rnn, encoder_["embedding.weight"][token], layers)
        states.append(layers[-1][0])
    for t, token in enumerate(target):
        word = decoder["embedding.weight"][token]
        layers = deep_lstm(
            part(decoder, "rnn"), word + fed if input_feeding else word, layers
        )
        query = layers[-1][0]
        weights.append(look(part(decoder, "attention"), query, states, t))
        fed = tanh(linear(part(decoder, "W_c"), context(weights[-1], states) + query))
        logits.append(linear(part(decoder, "output"), fed))
    return logits, weights


# Gehring et al. 2017


def normalised(parameters):
    """w = g v / |v| for each output   (Salimans and Kingma 2016, equation 2)"""
    scales, directions = parameters["parametrizations.weight.original0"], []
    for (scale,), direction in zip(
        scales, parameters["parametrizations.weight.original1"], strict=True
    ):
        length = math.sqrt(dot(direction, direction))
        directions.append([scale * x / length for x in direction])
    return {"weight": directions, "bias": parameters["bias"]}


def block_width(parameters):
    """A block reads a window of d numbers a word, and its convolution gives 2 d of them."""
    weight = parameters["convolution.parametrizations.weight.original1"]
    return len(weight[0]) // (len(weight) // 2)


def gated_block(parameters, inputs, before, after):
    """√½ (A ∘ σ(B) + h_i) with [A; B] = W [h_{i−before}, …, h_{i+after}] + b   (sections 3.2 and 3.4)"""
    convolution = normalised(part(parameters, "convolution"))
    size, outputs = len(inputs[0]), []
    for i in range(len(inputs)):
        window = [
            inputs[j] if 0 <= j < len(inputs) else [0.0] * size
            for j in range(i - before, i + after + 1)
        ]
        seen = [
            word[feature] for feature in range(size) for word in window
        ]  # as the weights are laid out
        y = linear(convolution, seen)
        gated = times(y[:size], sigmoid(y[size:]))
        outputs.append([math.sqrt(0.5) * x for x in add(gated, inputs[i])])
    return outputs


def with_positions(parameters, tokens):
    """e_j = w_j + p_j   (section 3.1)"""
    words, places = (
        parameters["embedding.weight"],
        parameters["position.embedding.weight"],
    )
    return [add(words[token], places[j]) for j, token in enumerate(tokens)]


def several(parameters):
    """The parts of a list of modules, in order."""
    numbers = sorted({int(name.split(".")[0]) for name in parameters})
    return [part(parameters, str(number)) for number in numbers]


def convs2s(parameters, source, target):
    """Logits after each word of ``target``, and each layer's weights   (sections 3.2 to 3.4).

    d_i = W_d h_i + b_d + g_i,   a_ij = softmax(d_i · z_j),   c_i = m √(1/m) Σ_j a_ij (z_j + e_j)
    """
    encoder_, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    e, g = with_positions(encoder_, source), with_positions(decoder, target)
    z = [linear(normalised(part(encoder_, "to_hidden")), x) for x in e]
    for block in several(part(encoder_, "blocks")):
        around = block_width(block) // 2
        z = gated_block(block, z, around, around)
    z = [linear(normalised(part(encoder_, "to_embedding")), x) for x in z]
    values_, m = [add(x, y) for x, y in zip(z, e, strict=True)], len(source)
    h, looks = [linear(normalised(part(decoder, "to_hidden")), x) for x in g], []
    for layer in several(part(decoder, "layers")):
        block = part(layer, "block")
        h = gated_block(block, h, block_width(block) - 1, 0)
        queries = [
            add(linear(normalised(part(layer, "W_d")), x), y)
            for x, y in zip(h, g, strict=True)
        ]
        looks.append([softmax([dot(d, x) for x in z]) for d in queries])
        found = [
            [m * math.sqrt(1 / m) * x for x in context(a, values_)] for a in looks[-1]
        ]
        h = [
            add(x, linear(normalised(part(layer, "W_c")), c))
            for x, c in zip(h, found, strict=True)
        ]
    h = [linear(normalised(part(decoder, "to_embedding")), x) for x in h]
    return [linear(normalised(part(decoder, "output")), x) for x in h], looks


# Vaswani et al. 2017


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
        joined = []
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            weights = softmax(
                [scaled_dot_score({}, query[own], key[own]) for key in k], mask
            )
            joined += context(weights, [value[own] for value in v])
        outputs.append(linear(part(parameters, "W_O"), joined))
    return outputs


def layer_norm(parameters, x):
    """g ∘ (x − μ) / σ + b, where PyTorch adds 10⁻⁵ to the variance σ²   (Ba et al. 2016, equation 4)"""
    mean = math.fsum(x) / len(x)
    deviation = math.sqrt(
        math.fsum((number - mean) ** 2 for number in x) / len(x) + 1e-5
    )
    return add(
        times(parameters["weight"], [(y - mean) / deviation for y in x]),
        parameters["bias"],
    )


def post_norm(parameters, x, change):
    """LayerNorm(x + Sublayer(x)), word by word   (section 3.1)"""
    norm = part(parameters, "norm")
    return [layer_norm(norm, add(*pair)) for pair in zip(x, change, strict=True)]


def feed_forward(parameters, x):
    """max(0, x W_1 + b_1) W_2 + b_2   (equation 2)"""
    hidden = [max(0.0, number) for number in linear(part(parameters, "0"), x)]
    return linear(part(parameters, "2"), hidden)


def transformer_layer(parameters, x, heads, masks, states=None):
    """A look at the words, one at the source if ``states`` is given, and the feed-forward network."""
    looked = multi_head(part(parameters, "attention"), x, x, heads, masks)
    x = post_norm(part(parameters, "around_attention"), x, looked)
    if states is not None:
        everything = [[True] * len(states)] * len(x)
        looked = multi_head(
            part(parameters, "source_attention"), x, states, heads, everything
        )
        x = post_norm(part(parameters, "around_source"), x, looked)
    thought = [feed_forward(part(parameters, "feed_forward"), word) for word in x]
    return post_norm(part(parameters, "around_feed_forward"), x, thought)


def transformer(parameters, source, target, heads):
    """Logits after each word of ``target``: E is the embedding, √d its scale, and again the output."""

    def embedded(parameters, tokens):
        table = parameters["embedding.weight"]
        scale, size = math.sqrt(len(table[0])), len(table[0])
        return [
            add([scale * x for x in table[token]], sinusoids(position, size))
            for position, token in enumerate(tokens)
        ]

    encoder_, decoder = part(parameters, "encoder"), part(parameters, "decoder")
    states = embedded(encoder_, source)
    for layer in several(part(encoder_, "layers")):
        states = transformer_layer(
            layer, states, heads, [[True] * len(source)] * len(source)
        )
    x, n = embedded(decoder, target), len(target)
    for layer in several(part(decoder, "layers")):
        x = transformer_layer(
            layer, x, heads, [[j <= i for j in range(n)] for i in range(n)], states
        )
    return [linear({"weight": decoder["embedding.weight"]}, word) for word in x]


# Searches


def length_penalty(words, power):
    """lp(Y) = ((5 + |Y|) / 6)^α   (Wu et al. 2016, equation 14)"""
    return ((5 + words) / 6) ** power


def gnmt_score(log_prob, weights, length_power, coverage_factor):
    """s(Y, X) = log p / lp(Y) + β Σ_j log min(Σ_i α_ij, 1)   (Wu et al. 2016, equation 14)

    ``weights`` holds one list for each word of Y, of one weight for each word of X.
    """
    coverage = sum(
        math.log(min(sum(to_word), 1.0)) for to_word in zip(*weights, strict=True)
    )
    return (
        log_prob / length_penalty(len(weights), length_power)
        + coverage_factor * coverage
    )


def all_sentences(vocabulary, max_length):
    """Every sentence that ends with ``<eos>``, and every one of ``max_length`` words that does not."""
    going_on = [token for token in range(vocabulary) if token != EOS]
    for length in range(1, max_length + 1):
        for beginning in product(going_on, repeat=length - 1):
            yield (*beginning, EOS)
    yield from product(going_on, repeat=max_length)


def exhaustive(log_prob, vocabulary, max_length, penalty=0.0):
    """argmax_Y log p(Y) / lp(Y) by looking at every sentence: all of them, best first, with log p(Y)."""
    found = [
        (sentence, log_prob(sentence))
        for sentence in all_sentences(vocabulary, max_length)
    ]
    return sorted(
        found, key=lambda pair: -pair[1] / length_penalty(len(pair[0]), penalty)
    )


def beam(next_log_probs, max_length, width, penalty=0.0):
    """Beam search over one sentence, without batches, back pointers or an early end.

    ``next_log_probs(beginning)`` are log p(y | beginning). At each step the ``width`` best continuations
    of the living beginnings count: those that end are finished. The ``width`` best that go on live.
    """
    alive, finished = [((), 0.0)], []
    for _ in range(max_length):
        candidates = [
            ((*beginning, token), total + more)
            for beginning, total in alive
            for token, more in enumerate(next_log_probs(beginning))
        ]
        candidates.sort(key=lambda pair: -pair[1])
        finished += [pair for pair in candidates[:width] if pair[0][-1] == EOS]
        alive = [pair for pair in candidates if pair[0][-1] != EOS][:width]
    finished += alive
    finished.sort(key=lambda pair: -pair[1] / length_penalty(len(pair[0]), penalty))
    return finished[:width]


# Synthesizer (Tay et al. 2021)


def layer(parameters, x, head):
    """x W + b, of one head where there are several"""
    weight, bias = (
        parameters[name] if head is None else parameters[name][head]
        for name in ("weight", "bias")
    )
    return [
        dot(x, [row[e] for row in weight]) + bias[0][e] for e in range(len(bias[0]))
    ]


def relu(x):
    """max(0, x), element by element"""
    return [max(0.0, number) for number in x]


def dense_scores(parameters, x, i, length, head=None):
    """B_i = F(x_i), F two layers   (section 3.1)"""
    hidden = relu(layer(part(parameters, "hidden"), x, head))
    return layer(part(parameters, "output"), hidden, head)[:length]


def factorized_dense_scores(parameters, x, i, length, head=None):
    """C_i = H_A(A_i) * H_B(B_i): A tiled whole, each entry of B repeated   (section 3.3)"""
    hidden = relu(layer(part(parameters, "hidden"), x, head))
    a, b = (layer(part(parameters, name), hidden, head) for name in "AB")
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


# Attention over attention (Cui et al. 2017)


def columns(matrix):
    """The matrix with rows and columns exchanged."""
    return [list(column) for column in zip(*matrix, strict=True)]


def attention_over_attention(scores):
    """s_i = Σ_t α(t)_i β_t   (section 3): a row of M for each word of the document, none is padding"""
    alpha = [softmax(column) for column in columns(scores)]
    beta = [
        math.fsum(column) / len(scores)
        for column in columns([softmax(row) for row in scores])
    ]
    return [
        math.fsum(a[i] * b for a, b in zip(alpha, beta, strict=True))
        for i in range(len(scores))
    ]


# Hierarchical attention (Yang et al. 2016)


def hidden_dot_score(parameters, query, state):
    """u_j = tanh(W h_j + b),   e_j = qᵀ u_j   (equations 5 and 6)"""
    return dot(query, tanh(linear(part(parameters, "W"), state)))


def attention_pooling(parameters, states):
    """α_j = softmax_j(uᵀ u_j),   Σ_j α_j h_j   (equations 6 and 7)"""
    scores = [
        hidden_dot_score(part(parameters, "attention"), parameters["query"], state)
        for state in states
    ]
    weights = softmax(scores)
    return context(weights, states), weights


def hierarchical_attention(parameters, document):
    """s_i from the words of each sentence, v from the sentences   (equations 1 to 11); nothing is padding

    Returns the logits, each sentence's word weights, and the sentence weights.
    """
    sentences, words = [], []
    for sentence in document:
        states = encoder(part(parameters, "encoder.words"), sentence)
        vector, weights = attention_pooling(part(parameters, "encoder.pooling"), states)
        sentences.append(vector)
        words.append(weights)
    states = both_ways(part(parameters, "encoder.rnn"), sentences)
    vector, weights = attention_pooling(part(parameters, "pooling"), states)
    return linear(part(parameters, "W"), vector), words, weights
