"""PyTorch's GRU and LSTM cells, bidirectional and stacked."""

from tests.reference.scalars import add, linear, sigmoid, tanh, times


def _matrix(parameters, suffix):
    return {name: parameters[name + suffix] for name in ("weight", "bias")}


def gru_cell(parameters, x, state, suffix=""):
    """PyTorch's GRU, which applies the reset gate after the matrix.

    r = σ(W_r x + b_r + U_r s + c_r),   z = σ(W_z x + b_z + U_z s + c_z)
    n = tanh(W_n x + b_n + r ∘ (U_n s + c_n))
    s' = (1 − z) ∘ n + z ∘ s
    """
    inputs = linear(_matrix(parameters, "_ih" + suffix), x)
    states = linear(_matrix(parameters, "_hh" + suffix), state)
    n = len(state)
    reset = sigmoid(add(inputs[:n], states[:n]))
    update = sigmoid(add(inputs[n : 2 * n], states[n : 2 * n]))
    new = tanh(add(inputs[2 * n :], times(reset, states[2 * n :])))
    return [(1 - z) * a + z * s for z, a, s in zip(update, new, state, strict=True)]


def bidirectional_gru(parameters, inputs):
    """[→h_j; ←h_j], the states of a GRU from left to right and of one from right to left."""
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


def lstm_cell(parameters, x, state, cell, suffix=""):
    """PyTorch's LSTM, which has no peepholes.

    i, f, o = σ(W x + b + U s + c), each with its own matrices
    g = tanh(W_g x + b_g + U_g s + c_g)
    c' = f ∘ c + i ∘ g,   s' = o ∘ tanh(c')
    """
    inputs = linear(_matrix(parameters, "_ih" + suffix), x)
    states = linear(_matrix(parameters, "_hh" + suffix), state)
    n, total = len(state), add(inputs, states)
    input_gate, forget_gate, output_gate = (
        sigmoid(total[k * n : (k + 1) * n]) for k in (0, 1, 3)
    )
    cell = add(times(forget_gate, cell), times(input_gate, tanh(total[2 * n : 3 * n])))
    return times(output_gate, tanh(cell)), cell


def deep_lstm(parameters, x, layers):
    """One step of stacked LSTMs: the input of each layer is the state of the one below.

    ``layers`` are pairs (s, c).
    """
    after = []
    for number, (state, cell) in enumerate(layers):
        x, cell = lstm_cell(parameters, x, state, cell, f"_l{number}")
        after.append((x, cell))
    return after
