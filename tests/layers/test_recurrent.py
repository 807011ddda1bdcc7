import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from companion._checks import check_even
from companion.decoding import tensors
from companion.layers import DeepOutput, deep_lstm, reverse, run_packed, source_mask
from tests.reference import cho_2014, recurrence, scalars
from tests.tiny import close, spread

SOURCE = torch.tensor(
    [[5, 4, 3, 0, 0, 0], [6, 0, 0, 0, 0, 0], [7, 3, 4, 5, 6, 0]]
)  # the last position is padding in every row


def lengths(source):
    return (source != 0).sum(1).tolist()


# The source mask


def test_the_mask_is_true_at_tokens():
    assert source_mask(SOURCE, pad=0).tolist() == [
        [j < n for j in range(6)] for n in (3, 1, 5)
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([[3, 4], [0, 0], [5, 0], [0, 0]], r"rows \[1, 3\] .*\(4, 2\)"),
        ([[0]], r"rows \[0\] .*\(1, 1\)"),
        ([[3, 0, 0], [3, 0, 4]], r"rows \[1\] .*padding before a word"),
        ([[0, 3]], r"rows \[0\] .*padding before a word"),
    ],
)
def test_empty_sentences_and_padding_before_a_word_are_errors(source, message):
    with pytest.raises(ValueError, match=message):
        source_mask(torch.tensor(source), pad=0)


@pytest.mark.parametrize("read", [source_mask, reverse])
@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (
            SOURCE[0],
            ValueError,
            r"a source needs a shape \(batch, length\), not \(6,\)",
        ),
        (SOURCE[None], ValueError, r"\(batch, length\), not \(1, 3, 6\)"),
        (SOURCE.float(), TypeError, "must hold integers, not torch.float32"),
        (SOURCE != 0, TypeError, "must hold integers, not torch.bool"),
        (SOURCE.tolist(), TypeError, "must be a tensor of integers, not .*5, 4"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_is_no_batch_of_tokens_is_an_error(read, source, error, message):
    with pytest.raises(error, match=message):
        read(source)


@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_padding_before_a_token_is_an_error_too(backend):
    torch.compiler.reset()
    compiled = torch.compile(source_mask, fullgraph=True, backend=backend)
    assert torch.equal(compiled(SOURCE, 0), SOURCE != 0)
    for source in (SOURCE.flip(1), torch.zeros_like(SOURCE)):
        with pytest.raises(RuntimeError, match="some rows of a source are empty, or"):
            compiled(source, 0)


def test_on_the_meta_device_there_is_a_shape():
    mask = source_mask(SOURCE.to("meta"), pad=0)
    assert (mask.shape, mask.dtype) == (SOURCE.shape, torch.bool)
    assert reverse(SOURCE.to("meta"), pad=0).shape == SOURCE.shape


@pytest.mark.cuda
def test_on_a_gpu_nothing_is_waited_for():
    source = SOURCE.to("cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        mask, backwards = source_mask(source, pad=0), reverse(source, pad=0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.equal(mask.cpu(), SOURCE != 0)
    assert torch.equal(backwards.cpu(), reverse(SOURCE, pad=0))


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_a_source_without_tokens_is_an_error(shape):
    with pytest.raises(ValueError, match=r"\({}, {}\)".format(*shape)):
        source_mask(torch.zeros(shape, dtype=torch.int64), pad=0)


def test_without_padding_every_number_is_a_token():
    assert source_mask(SOURCE).all()
    assert torch.equal(reverse(SOURCE), SOURCE.flip(1))


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
    assert torch.equal(reverse(source, pad=0), padded([row[::-1] for row in rows]))
    assert torch.equal(reverse(reverse(source, pad=0), pad=0), source)


@pytest.mark.parametrize("rows", [[[0, 3]], [[4, 0, 3]], [[3, 4], [0, 0]]])
def test_padding_before_a_token_is_not_reversed(rows):
    with pytest.raises(ValueError, match="padding before a word"):
        reverse(torch.tensor(rows), pad=0)


@pytest.mark.parametrize(
    ("size", "message"),
    [(7, "even.* 7"), (0, "at least 1, not 0"), (-2, "at least 1, not -2")],
)
def test_an_odd_size_is_an_error(size, message):
    check_even(hidden_size=2)
    with pytest.raises(ValueError, match=f"hidden_size must be {message}"):
        check_even(source_size=4, hidden_size=size)


# Packed sequences


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


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_on_the_meta_device_a_packed_network_has_its_shapes(kind):
    rnn, inputs = kind(3, 5, num_layers=2, batch_first=True), torch.randn(3, 6, 3)
    expected = run_packed(rnn, inputs, SOURCE != 0)
    found = run_packed(rnn.to("meta"), inputs.to("meta"), (SOURCE != 0).to("meta"))
    for one, other in zip(tensors(found), tensors(expected), strict=True):
        assert one.is_meta
        assert one.shape == other.shape


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        ((SOURCE != 0).flip(1), ValueError, r"rows \[0, 1, 2\] .*padding before"),
        (SOURCE == 99, ValueError, r"rows \[0, 1, 2\] of the inputs of shape \(3, 6\)"),
        ((SOURCE != 0)[:2], ValueError, r"\(3, 6, 3\) needs a mask of \(3, 6\)"),
        (SOURCE, TypeError, "must be boolean .* not torch.int64"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_mask_that_does_not_fit_the_inputs_is_an_error(mask, error, message):
    with pytest.raises(error, match=message):
        run_packed(nn.GRU(3, 5, batch_first=True), torch.randn(3, 6, 3), mask)


@pytest.mark.cuda
def test_on_a_gpu_packing_checks_the_mask_that_it_copies():
    rnn, mask = nn.GRU(3, 5, batch_first=True).cuda(), (SOURCE != 0).cuda()
    with pytest.raises(ValueError, match="padding before"):
        run_packed(rnn, torch.randn(3, 6, 3, device="cuda"), mask.flip(1))


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((0, 4, 2), ValueError, "input_size must be at least 1, not 0"),
        ((3, "4", 2), TypeError, "hidden_size must be an integer, not '4'"),
        ((3, 4, None), TypeError, "layers must be an integer, not None"),
        ((3, 4, 2.5), TypeError, r"layers must be an integer, not 2\.5"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_bad_sizes_of_an_lstm_are_errors(sizes, error, message):
    with pytest.raises(error, match=message):
        deep_lstm(*sizes, 0.0)


# The equations


def test_the_gru_is_the_one_of_the_reference():
    rnn = spread(nn.GRU(3, 5, batch_first=True))
    parameters, inputs = (
        scalars.values(rnn),
        torch.randn(1, 4, 3, dtype=torch.float64),
    )
    state = [0.0] * 5
    for t, x in enumerate(inputs[0].tolist()):
        state = recurrence.gru_cell(parameters, x, state, "_l0")
        close(rnn(inputs)[0][0, t], state)


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


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("number", range(5))
def test_bad_sizes_of_a_deep_output_are_errors(number):
    names = ["hidden_size", "embedding_size", "context_size", "size", "vocabulary_size"]
    for bad, error in ((0, ValueError), (2.5, TypeError)):
        sizes = [3, 2, 5, 7, 11]
        sizes[number] = bad
        with pytest.raises(error, match=f"^{names[number]} must be"):
            DeepOutput(*sizes)
