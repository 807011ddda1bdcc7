import pytest
import torch
from torch import nn

from companion.layers import (
    ResetBeforeGRU,
    ResetBeforeGRUCell,
    pytorch_gru,
    run_packed,
)
from tests.reference import bahdanau_2015, scalars
from tests.tiny import close, spread

MASK = torch.tensor([[True] * 4, [True, False, False, False], [True] * 3 + [False]])


def papers_cell(cell, x, state):
    """The paper's gated unit with the parameters of a cell. The paper's 1 − z is our z."""
    W_r, W_z, W = cell.W.weight.detach().chunk(3)
    U_r, U_z = cell.U_gates.weight.detach().chunk(2)
    b_r, b_z, b = cell.W.bias.detach().chunk(3)
    ones = [*x.tolist(), 1.0]  # an input that is always 1, for the biases

    def matrix(weight, bias):
        return torch.cat([weight, bias[:, None]], 1).tolist()

    return bahdanau_2015.gated_unit(
        W=matrix(W, b),
        U=cell.U.weight.tolist(),
        W_z=matrix(-W_z, -b_z),
        U_z=(-U_z).tolist(),
        W_r=matrix(W_r, b_r),
        U_r=U_r.tolist(),
        x=ones,
        state=list(state),
    )


def test_the_cell_is_the_papers_with_its_update_gate_turned_round():
    cell = spread(ResetBeforeGRUCell(3, 5))
    x, h = (torch.randn(4, n, dtype=torch.float64) for n in (3, 5))
    after = cell(x, h)
    for row in range(4):
        close(after[row], papers_cell(cell, x[row], h[row].tolist()))


def test_an_update_gate_of_one_keeps_the_state():
    cell = spread(ResetBeforeGRUCell(3, 5))
    cell.W.bias.data[5:10] = 1e3
    h = torch.randn(4, 5, dtype=torch.float64)
    close(cell(torch.randn(4, 3).double(), h), h)


def test_it_differs_from_pytorchs_in_the_reset_alone():
    cell, pytorchs = spread(ResetBeforeGRUCell(3, 5)), nn.GRUCell(3, 5).double()
    pytorchs.weight_ih.data = cell.W.weight.data
    pytorchs.bias_ih.data = cell.W.bias.data
    pytorchs.bias_hh.data.zero_()
    x, h = torch.randn(4, 3).double(), torch.randn(4, 5).double()
    for diagonal in (False, True):
        if diagonal:  # a product of each dimension by itself commutes with the reset
            cell.U.weight.data = cell.U.weight.data.diag().diag()
        hidden_weights = [cell.U_gates.weight.data, cell.U.weight.data]
        pytorchs.weight_hh.data = torch.cat(hidden_weights)
        assert torch.allclose(cell(x, h), pytorchs(x, h)) == diagonal


def run_alone(rnn, inputs):
    """The states of one sequence by the paper's equations: forwards, then backwards."""
    directions = []
    for number, cell in enumerate(rnn.cells):
        state, states = [0.0] * rnn.hidden_size, []
        for x in inputs.flip(0) if number else inputs:
            state = papers_cell(cell, x, state)
            states.append(state)
        directions.append(states[::-1] if number else states)
    return [[x for h in both for x in h] for both in zip(*directions, strict=True)]


@pytest.mark.parametrize("bidirectional", [False, True])
def test_over_padded_sequences_it_is_the_papers_on_each_alone(bidirectional):
    rnn = spread(ResetBeforeGRU(3, 5, bidirectional))
    inputs = torch.randn(3, 4, 3, dtype=torch.float64)
    states, final = run_packed(rnn, inputs, MASK)
    assert final.shape == (2 if bidirectional else 1, 3, 5)
    for row, length in enumerate(MASK.sum(1).tolist()):
        expected = run_alone(rnn, inputs[row, :length])
        close(states[row, :length], expected)
        assert (states[row, length:] == 0).all()
        close(final[0, row], expected[-1][:5])
        if bidirectional:
            close(final[1, row], expected[0][5:])


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_it_has_the_shapes_of_pytorchs(bidirectional, packed):
    inputs = torch.randn(3, 4, 6)
    found, expected = (
        run_packed(rnn, inputs, MASK) if packed else rnn(inputs)
        for rnn in (
            ResetBeforeGRU(6, 5, bidirectional),
            pytorch_gru(6, 5, bidirectional),
        )
    )
    assert [x.shape for x in found] == [x.shape for x in expected]


def test_it_goes_on_from_a_given_state():
    rnn, inputs = spread(ResetBeforeGRU(3, 5)), torch.randn(2, 6, 3).double()
    states, final = rnn(inputs)
    first, between = rnn(inputs[:, :2])
    second, last = rnn(inputs[:, 2:], between)
    close(torch.cat([first, second], 1), states)
    close(last, final)


@pytest.mark.parametrize("build", [ResetBeforeGRUCell, ResetBeforeGRU, pytorch_gru])
@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((0, 5), ValueError, "input_size must be at least 1, not 0"),
        ((3, -1), ValueError, "hidden_size must be at least 1, not -1"),
        (("3", 5), TypeError, "input_size must be an integer, not '3'"),
        ((3, 2.5), TypeError, r"hidden_size must be an integer, not 2\.5"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_sizes_are_errors(build, sizes, error, message):
    with pytest.raises(error, match=message):
        build(*sizes)


def test_parameters_are_as_many_as_the_papers():
    cell = ResetBeforeGRUCell(3, 5)
    assert sum(p.numel() for p in cell.parameters()) == 3 * (5 * 3 + 5 * 5 + 5)
    assert scalars.values(cell).keys() == {
        "W.weight",
        "W.bias",
        "U_gates.weight",
        "U.weight",
    }
