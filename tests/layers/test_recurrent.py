import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from companion._checks import check_even
from companion.layers import DeepOutput, reverse, run_packed, source_mask
from tests.reference import bahdanau_2015, cho_2014, recurrence, scalars
from tests.tiny import close, spread

SOURCE = torch.tensor(
    [[5, 4, 3, 0, 0, 0], [6, 0, 0, 0, 0, 0], [7, 3, 4, 5, 6, 0]]
)  # one place for all is empty


def lengths(source):
    return (source != 0).sum(1).tolist()


def test_the_mask_is_true_at_words():
    assert source_mask(SOURCE).tolist() == [
        [j < n for j in range(6)] for n in (3, 1, 5)
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([[3, 4], [0, 0], [5, 0], [0, 0]], r"\(4, 2\).*rows \[1, 3\]"),
        ([[0]], r"\(1, 1\).*rows \[0\]"),
        ([[3, 0, 0], [3, 0, 4]], r"rows \[1\] .*padding before a word"),
        ([[0, 3]], r"rows \[0\] .*padding before a word"),
    ],
)
def test_empty_sentences_and_padding_before_a_word_are_errors(source, message):
    with pytest.raises(ValueError, match=message):
        source_mask(torch.tensor(source))


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_a_source_without_words_is_an_error(shape):
    with pytest.raises(ValueError, match=r"\({}, {}\)".format(*shape)):
        source_mask(torch.zeros(shape, dtype=torch.int64))


@given(
    st.lists(
        st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=4
    ),
    st.integers(0, 3),
)
def test_reversed_sentences_keep_their_padding_at_the_end(rows, more):
    def padded(rows):
        batch = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
        return nn.functional.pad(batch, (0, more))

    source = padded(rows)
    assert torch.equal(reverse(source), padded([row[::-1] for row in rows]))
    assert torch.equal(reverse(reverse(source)), source)


@pytest.mark.parametrize("rows", [[[0, 3]], [[4, 0, 3]], [[3, 4], [0, 0]]])
def test_what_has_no_end_to_begin_from_is_not_reversed(rows):
    with pytest.raises(ValueError, match="padding before a word"):
        reverse(torch.tensor(rows))


@pytest.mark.parametrize(
    ("size", "message"),
    [(7, "even.* 7"), (0, "at least 1, not 0"), (-2, "at least 1, not -2")],
)
def test_what_cannot_be_halved_is_an_error(size, message):
    check_even(hidden_size=2)
    with pytest.raises(ValueError, match=f"hidden_size must be {message}"):
        check_even(source_size=4, hidden_size=size)


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
def test_packed_is_the_same_as_one_sentence_at_a_time(kind, bidirectional, layers):
    rnn = spread(
        kind(3, 5, num_layers=layers, bidirectional=bidirectional, batch_first=True)
    )
    inputs = torch.randn(3, 6, 3, dtype=torch.float64)
    states, final = run_packed(rnn, inputs, SOURCE != 0)
    final = final if isinstance(final, tuple) else (final,)
    assert states.shape == (3, 6, 10 if bidirectional else 5)
    for row, length in enumerate(lengths(SOURCE)):
        alone, last = rnn(inputs[row : row + 1, :length])
        last = last if isinstance(last, tuple) else (last,)
        close(states[row, :length], alone[0])
        assert torch.equal(states[row, length:], torch.zeros_like(states[row, length:]))
        for found, expected in zip(final, last, strict=True):
            close(found[:, row], expected[:, 0])


def test_padding_has_no_influence_and_gets_no_gradient():
    rnn = spread(nn.GRU(3, 5, bidirectional=True, batch_first=True))
    inputs = torch.randn(3, 6, 3, dtype=torch.float64)
    mask = SOURCE != 0
    other = inputs.masked_fill(~mask[..., None], 1e6).requires_grad_()
    states, final = run_packed(rnn, other, mask)
    close(states, run_packed(rnn, inputs, mask)[0])
    (states.sum() + final.sum()).backward()
    assert torch.equal(other.grad[~mask], torch.zeros_like(other.grad[~mask]))
    assert (other.grad[mask] != 0).all()


def test_the_gru_is_the_one_of_the_reference():
    rnn = spread(nn.GRU(3, 5, batch_first=True))
    parameters, inputs = (
        scalars.values(rnn),
        torch.randn(1, 4, 3, dtype=torch.float64),
    )
    state = [0.0] * 5
    for place, x in enumerate(inputs[0].tolist()):
        state = recurrence.gru_cell(parameters, x, state, "_l0")
        close(rnn(inputs)[0][0, place], state)


def paper_weights(diagonal):
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (5, 5)] * 3
    weights = [
        torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes
    ]
    if diagonal:
        weights[1] = weights[1].diag().diag()
    return weights


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_papers_gru_is_another_unless_the_matrix_it_resets_before_is_diagonal(
    diagonal,
):
    W, U, W_z, U_z, W_r, U_r = paper_weights(diagonal)
    cell = nn.GRUCell(3, 5, bias=False, dtype=torch.float64)
    cell.weight_ih.data = torch.cat(
        [W_r, -W_z, W]
    )  # PyTorch's update gate keeps, the paper's renews
    cell.weight_hh.data = torch.cat([U_r, -U_z, U])
    x, state = torch.randn(3, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    matrices = [matrix.tolist() for matrix in (W, U, W_z, U_z, W_r, U_r)]
    paper = bahdanau_2015.gated_unit(*matrices, x.tolist(), state.tolist())
    same = torch.allclose(cell(x, state), torch.tensor(paper, dtype=torch.float64))
    assert same == diagonal


def test_deep_output_is_the_papers_maxout():
    output = spread(DeepOutput(3, 2, 5, size=7, vocabulary_size=11))
    state, word, context = (torch.randn(4, n, dtype=torch.float64) for n in (3, 2, 5))
    parameters = scalars.values(output)
    logits = output(state, word, context)
    for row in range(4):
        parts = (x[row].tolist() for x in (state, word, context))
        close(logits[row], cho_2014.deep_output(parameters, *parts))


def test_deep_output_of_all_steps_at_once():
    output = spread(DeepOutput(3, 2, 5, size=7, vocabulary_size=11))
    parts = [torch.randn(4, 6, n, dtype=torch.float64) for n in (3, 2, 5)]
    logits = output(*parts)
    assert logits.shape == (4, 6, 11)
    for t in range(6):
        close(logits[:, t], output(*(x[:, t] for x in parts)))
