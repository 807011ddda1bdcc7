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
    return {name[len(start) :]: value for name, value in parameters.items() if name.startswith(start)}


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
    exponentials = [math.exp(score) if may else 0.0 for score, may in zip(scores, mask, strict=True)]
    total = math.fsum(exponentials)
    return [x / total if total else 0.0 for x in exponentials]


def additive_score(parameters, query, state):
    """e_ij = vᵀ tanh(W s_{i−1} + U h_j)   (Bahdanau et al. 2015, appendix A.1.2)"""
    hidden = add(linear(part(parameters, "W"), query), linear(part(parameters, "U"), state))
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


# Recurrence


def gru_cell(parameters, x, state, suffix=""):
    """PyTorch's GRU, which resets after the matrix.

    r = σ(W_r x + b_r + U_r s + c_r),   z = σ(W_z x + b_z + U_z s + c_z)
    n = tanh(W_n x + b_n + r ∘ (U_n s + c_n))
    s' = (1 − z) ∘ n + z ∘ s
    """
    inputs = linear({"weight": parameters["weight_ih" + suffix], "bias": parameters["bias_ih" + suffix]}, x)
    states = linear(
        {"weight": parameters["weight_hh" + suffix], "bias": parameters["bias_hh" + suffix]}, state
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
    update = sigmoid(add([dot(row, x) for row in W_z], [dot(row, state) for row in U_z]))
    reset = sigmoid(add([dot(row, x) for row in W_r], [dot(row, state) for row in U_r]))
    kept = times(reset, state)
    new = tanh(add([dot(row, x) for row in W], [dot(row, kept) for row in U]))
    return [(1 - z) * s + z * a for z, a, s in zip(update, new, state, strict=True)]


def lstm_cell(parameters, x, state, cell, suffix=""):
    """PyTorch's LSTM: without peepholes.

    i, f, o = σ(W x + b + U s + c), each with its own;   g = tanh(W_g x + b_g + U_g s + c_g)
    c' = f ∘ c + i ∘ g,   s' = o ∘ tanh(c')
    """
    inputs = linear({"weight": parameters["weight_ih" + suffix], "bias": parameters["bias_ih" + suffix]}, x)
    states = linear(
        {"weight": parameters["weight_hh" + suffix], "bias": parameters["bias_hh" + suffix]}, state
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
    words = [parameters["embedding.weight"][token] for token in source]
    rnn = part(parameters, "rnn")
    forward, backward = [], []
    state = [0.0] * len(rnn["weight_hh_l0"][0])
    for x in words:
        state = gru_cell(rnn, x, state, "_l0")
        forward.append(state)
    state = [0.0] * len(state)
    for x in reversed(words):
        state = gru_cell(rnn, x, state, "_l0_reverse")
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
    return logits, gru_cell(part(parameters, "cell"), word + looked, hidden), (looked, weights)


def state_and_word_step(parameters, token, hidden, states, last=None):
    """As Bahdanau's, with the query [s_{i−1}; y_{i−1}]"""
    word = parameters["embedding.weight"][token]
    looked, weights = look(parameters, hidden + word, states)
    logits = deep_output(part(parameters, "output"), hidden, word, looked)
    return logits, gru_cell(part(parameters, "cell"), word + looked, hidden), (looked, weights)


def current_state_step(parameters, token, hidden, states, last=None):
    """s_i = GRU([y_{i−1}; c_{i−1}], s_{i−1});   c_i from s_i;   p(y_i) from s_i, y_{i−1}, c_i;   c_0 = 0"""
    word = parameters["embedding.weight"][token]
    before = last[0] if last else [0.0] * len(states[0])
    hidden = gru_cell(part(parameters, "cell"), word + before, hidden)
    looked, weights = look(parameters, hidden, states)
    return deep_output(part(parameters, "output"), hidden, word, looked), hidden, (looked, weights)


def location_step(parameters, token, hidden, states, last=None):
    """As Bahdanau's, with location-sensitive scores;   α_0 = 0"""
    word = parameters["embedding.weight"][token]
    attention = part(parameters, "attention")
    features = location_features(attention["F.weight"], last[1] if last else [0.0] * len(states))
    scores = [location_score(attention, hidden, h, f) for h, f in zip(states, features, strict=True)]
    weights = softmax(scores)
    looked = context(weights, states)
    logits = deep_output(part(parameters, "output"), hidden, word, looked)
    return logits, gru_cell(part(parameters, "cell"), word + looked, hidden), (looked, weights)


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
        state = gru_cell(part(encoder_, "rnn"), encoder_["embedding.weight"][token], state, "_l0")
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
        layers = deep_lstm(part(decoder, "rnn"), decoder["embedding.weight"][token], layers)
        logits.append(linear(part(decoder, "output"), layers[-1][0]))
    return logits


# Searches


def length_penalty(words, power):
    """lp(Y) = ((5 + |Y|) / 6)^α   (Wu et al. 2016, equation 14)"""
    return ((5 + words) / 6) ** power


def gnmt_score(log_prob, weights, length_power, coverage_factor):
    """s(Y, X) = log p / lp(Y) + β Σ_j log min(Σ_i α_ij, 1)   (Wu et al. 2016, equation 14)

    ``weights`` holds one list for each word of Y, of one weight for each word of X.
    """
    coverage = sum(math.log(min(sum(to_word), 1.0)) for to_word in zip(*weights, strict=True))
    return log_prob / length_penalty(len(weights), length_power) + coverage_factor * coverage


def all_sentences(vocabulary, max_length):
    """Every sentence that ends with ``<eos>``, and every one of ``max_length`` words that does not."""
    going_on = [token for token in range(vocabulary) if token != EOS]
    for length in range(1, max_length + 1):
        for beginning in product(going_on, repeat=length - 1):
            yield (*beginning, EOS)
    yield from product(going_on, repeat=max_length)


def exhaustive(log_prob, vocabulary, max_length, penalty=0.0):
    """argmax_Y log p(Y) / lp(Y) by looking at every sentence: all of them, best first, with log p(Y)."""
    found = [(sentence, log_prob(sentence)) for sentence in all_sentences(vocabulary, max_length)]
    return sorted(found, key=lambda pair: -pair[1] / length_penalty(len(pair[0]), penalty))


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
