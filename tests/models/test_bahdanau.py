import pytest
import torch

from companion.attention import Additive
from companion.layers import ResetBeforeGRU, ResetBeforeGRUCell, pytorch_gru
from companion.models import (
    BahdanauDecoder,
    BahdanauEncoder,
    EncoderDecoder,
    FixedVectorEncoder,
)
from tests.layers.test_gru import papers_cell, run_alone
from tests.reference import bahdanau_2015, scalars
from tests.tiny import (
    ENCODER,
    HIDDEN,
    RADIUS,
    SOURCE,
    STATES,
    TARGET,
    bahdanau,
    close,
    fixed_vector,
    local_m_bahdanau,
    random_bahdanau,
    random_current_state,
    sentences,
    spread,
)


def test_additive_is_the_papers_score():
    attention = spread(Additive(2, 3, 5))
    query, source = (
        torch.randn(4, n, d, dtype=torch.float64) for n, d in ((6, 2), (7, 3))
    )
    key, value = attention.project(source)
    scores = attention.score(query, key)
    parameters = scalars.values(attention)
    for b in range(4):
        for i in range(6):
            for j in range(7):
                expected = bahdanau_2015.additive_score(
                    parameters, query[b, i].tolist(), source[b, j].tolist()
                )
                assert scores[b, i, j].item() == pytest.approx(expected, abs=1e-10)
    assert value is source


def test_additive_has_no_more_parameters_than_the_paper():
    assert {
        name: tuple(p.shape) for name, p in Additive(2, 3, 5).named_parameters()
    } == {
        "W.weight": (5, 2),
        "U.weight": (5, 3),
        "v": (5,),
    }


def test_encoder_is_the_papers():
    encoder = spread(BahdanauEncoder(11, 3, 5, pad=0))
    states, mask = encoder(SOURCE)
    assert torch.equal(mask, SOURCE != 0)
    for row, sentence in enumerate(sentences(SOURCE)):
        close(
            states[row, : len(sentence)],
            bahdanau_2015.encoder(scalars.values(encoder), sentence.tolist()),
        )
        assert (states[row, len(sentence) :] == 0).all()


# One vector in place of the states


@pytest.mark.parametrize("gru", [pytorch_gru, ResetBeforeGRU])
def test_the_fixed_vector_is_the_final_state_of_each_direction(gru):
    encoder = spread(FixedVectorEncoder(11, 3, 5, gru=gru, pad=0))
    states, mask = encoder(SOURCE)
    assert torch.equal(mask, torch.ones(len(SOURCE), 1, dtype=torch.bool))
    for row, sentence in enumerate(sentences(SOURCE)):
        every, _ = BahdanauEncoder.forward(encoder, sentence[None])
        close(states[row, 0, :5], every[0, -1, :5])
        close(states[row, 0, 5:], every[0, 0, 5:])


def test_the_fixed_vector_does_not_depend_on_padding():
    encoder = spread(FixedVectorEncoder(11, 3, 5, pad=0))
    states, _ = encoder(SOURCE)
    more, _ = encoder(torch.nn.functional.pad(SOURCE, (0, 3)))
    close(more, states)
    for row, sentence in enumerate(sentences(SOURCE)):
        close(states[row], encoder(sentence[None])[0][0])


def test_without_attention_only_the_access_to_the_source_differs():
    attentive, fixed = bahdanau(), fixed_vector()
    fixed.load_state_dict(attentive.state_dict())  # names and shapes are the same
    states, _ = fixed.encoder(SOURCE)
    start = fixed.start(SOURCE)
    close(start.hidden, attentive.start(SOURCE).hidden)  # s_0
    step = fixed.step(torch.tensor([1, 4, 3]), start)
    assert step.weights.tolist() == [[1], [1], [1]]
    close(step.state.context, states[:, 0])  # c_1, and every c_i


def test_without_attention_the_dropout_is_that_of_the_embeddings():
    encoder = FixedVectorEncoder(11, 8, 5, dropout=0.5, pad=0)
    assert not torch.equal(encoder(SOURCE)[0], encoder(SOURCE)[0])
    encoder.eval()
    assert torch.equal(encoder(SOURCE)[0], encoder(SOURCE)[0])


def test_a_source_that_is_no_batch_of_tokens_has_no_fixed_vector_either():
    with pytest.raises(ValueError, match="padding before a word"):
        FixedVectorEncoder(11, 3, 5, pad=0)(torch.tensor([[0, 3]]))


# The initial state


def test_the_initial_state_depends_on_the_backward_state_of_the_first_token_alone():
    model = bahdanau()
    states, mask = model.encoder(SOURCE)
    states = states.detach().requires_grad_()
    state = model.decoder.start(states, mask)
    decoder = scalars.part(scalars.values(model), "decoder")
    for row in range(len(SOURCE)):
        close(
            state.hidden[row],
            bahdanau_2015.initial_state(decoder, states[row].tolist()),
        )
    state.hidden.sum().backward()
    assert (states.grad[:, 0, ENCODER:] != 0).all()
    assert (
        states.grad[:, 1:].abs().sum() == states.grad[:, :, :ENCODER].abs().sum() == 0
    )


def test_before_the_first_step_context_and_weights_are_zero():
    state = bahdanau().start(SOURCE)
    assert torch.equal(
        state.context, torch.zeros(len(SOURCE), STATES, dtype=torch.float64)
    )
    assert torch.equal(state.weights, torch.zeros(SOURCE.shape, dtype=torch.float64))


def test_a_source_may_have_one_token():
    model = bahdanau()
    step = model.step(torch.tensor([1]), model.start(torch.tensor([[5]])))
    assert step.weights.tolist() == [[1]]


def test_one_step_is_the_papers():
    model = bahdanau()
    start = model.start(SOURCE)
    token = torch.tensor([1, 4, 3])
    hidden = torch.randn(3, HIDDEN, dtype=torch.float64)
    step = model.step(token, start._replace(hidden=hidden))
    parameters = scalars.values(model)
    for row, sentence in enumerate(sentences(SOURCE)):
        states = bahdanau_2015.encoder(
            scalars.part(parameters, "encoder"), sentence.tolist()
        )
        logits, after, (context, weights) = bahdanau_2015.step(
            scalars.part(parameters, "decoder"),
            int(token[row]),
            hidden[row].tolist(),
            states,
        )
        close(step.logits[row], logits)
        close(step.state.hidden[row], after)
        close(step.state.context[row], context)
        close(step.weights[row], weights + [0.0] * (SOURCE.shape[1] - len(weights)))


def test_the_whole_model_is_the_papers():
    model = bahdanau()
    logits = model(SOURCE, TARGET)
    parameters = scalars.values(model)
    for row, sentence in enumerate(sentences(SOURCE)):
        expected, _ = bahdanau_2015.teacher_forced(
            parameters, bahdanau_2015.step, sentence.tolist(), TARGET[row].tolist()
        )
        close(logits[row], expected)


def test_dropout_is_on_the_embeddings_of_both_sides_in_training_only():
    torch.manual_seed(0)
    encoder = BahdanauEncoder(11, 8, 5, dropout=0.5, pad=0)
    decoder = BahdanauDecoder(5, 8, 4, 10, Additive(4, 10, 7), dropout=0.5)
    states, mask = encoder(SOURCE)
    assert not torch.allclose(states, encoder(SOURCE)[0])
    state = decoder.start(states, mask)
    assert not torch.allclose(decoder(TARGET, state), decoder(TARGET, state))
    for module, arguments in (
        (encoder.eval(), (SOURCE,)),
        (decoder.eval(), (TARGET, state)),
    ):
        torch.testing.assert_close(
            module(*arguments), module(*arguments), rtol=0, atol=0
        )


@pytest.mark.parametrize(("name", "sizes"), [("source", (4, 9)), ("hidden", (7, 10))])
def test_an_odd_size_is_an_error(name, sizes):
    hidden, source = sizes
    with pytest.raises(
        ValueError, match=f"{name}_size must be even.* {min(x for x in sizes if x % 2)}"
    ):
        BahdanauDecoder(5, 3, hidden, source, Additive(hidden, source, 7))


def test_the_number_of_maxout_units_is_half_the_hidden_size_unless_given():
    attention = Additive(6, 10, 7)
    assert BahdanauDecoder(5, 3, 6, 10, attention).output.W.in_features == 3
    other = BahdanauDecoder(5, 3, 6, 10, attention, maxout_size=4)
    assert other.output.W.in_features == 4
    odd = BahdanauDecoder(5, 3, 7, 10, Additive(7, 10, 2), maxout_size=1)
    state = odd.start(torch.randn(3, 7, 10), SOURCE != 0)
    assert odd(TARGET, state).shape == (*TARGET.shape, 5)


def test_with_the_papers_gru_the_whole_model_is_the_papers_too(monkeypatch):
    encoder = BahdanauEncoder(11, 3, 5, gru=ResetBeforeGRU, pad=0)
    decoder = BahdanauDecoder(5, 3, 4, 10, Additive(4, 10, 7), cell=ResetBeforeGRUCell)
    model = spread(EncoderDecoder(encoder, decoder))

    def states_of(parameters, source):
        return run_alone(encoder.rnn, encoder.embedding(torch.tensor(source)))

    def after(parameters, x, state):
        return papers_cell(decoder.cell, torch.tensor(x, dtype=torch.float64), state)

    monkeypatch.setattr(bahdanau_2015, "encoder", states_of)
    monkeypatch.setattr(bahdanau_2015, "gru_cell", after)
    logits = model(SOURCE, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        expected, _ = bahdanau_2015.teacher_forced(
            scalars.values(model),
            bahdanau_2015.step,
            sentence.tolist(),
            TARGET[row].tolist(),
        )
        close(logits[row], expected)


# Attention that depends on the query's position, which is the time step


def weights_of(model, source, target):
    """The attention weights of every step."""
    state, weights = model.start(source), []
    for token in target.unbind(1):
        step = model.step(token, state)
        state = step.state
        weights.append(step.weights)
    return torch.stack(weights, 1)


def test_the_state_counts_the_tokens_read():
    model = bahdanau()
    state = model.start(SOURCE)
    for t, token in enumerate(TARGET.unbind(1)):
        assert state.position.tolist() == [t] * len(SOURCE)
        state = model.step(token, state).state


def test_at_step_t_local_m_attends_to_the_window_around_t():
    model = local_m_bahdanau()
    weights = weights_of(model, SOURCE, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        for t in range(TARGET.shape[1]):
            window = [
                j < len(sentence) and abs(j - t) <= RADIUS
                for j in range(SOURCE.shape[1])
            ]
            assert (weights[row, t] > 0).tolist() == window


@pytest.mark.parametrize("build", [random_bahdanau, random_current_state])
def test_at_step_t_a_random_synthesizer_has_row_t_of_its_table(build):
    model = build()
    weights = weights_of(model, SOURCE, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        length = len(sentence)
        table = model.decoder.attention.R[: TARGET.shape[1], :length]
        close(weights[row, :, :length], table.softmax(-1))


def test_states_of_another_size_are_an_error():
    with pytest.raises(ValueError, match=r"\(b, k, 10\), not \(.*, 12\)"):
        bahdanau().decoder.start(torch.randn(3, 7, 12), SOURCE != 0)


def test_an_attention_of_another_query_size_is_an_error():
    decoder = BahdanauDecoder(5, 3, 4, 10, Additive(6, 10, 7))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        decoder(TARGET, decoder.start(torch.randn(3, 7, 10), SOURCE != 0))


@pytest.mark.parametrize(
    ("side", "token", "entries"),
    [("source", 11, 11), ("target", 5, 5), ("target", -1, 5)],
)
def test_a_token_outside_the_vocabulary_is_an_error(side, token, entries):
    batch = {"source": SOURCE.clone(), "target": TARGET.clone()}
    batch[side][0, 1] = token
    with pytest.raises(ValueError, match=f"{token}.* the {entries} entries"):
        bahdanau()(**batch)


@pytest.mark.usefixtures("unchecked")
def test_sizes_below_one_are_errors_with_the_name():
    with pytest.raises(ValueError, match="size must be at least 1, not 0"):
        Additive(3, 3, 0)
    with pytest.raises(ValueError, match="hidden_size must be at least 1, not 0"):
        BahdanauDecoder(5, 3, 0, 4, Additive(3, 4, 2))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((2, 0), r"\(2, 0\) has no token"),
        ((3, 4), r"\(3, 4\) does not fit 2 source sentences"),
    ],
)
def test_a_target_that_does_not_fit_is_an_error_with_the_shape(shape, message):
    decoder = BahdanauDecoder(5, 3, 4, 6, Additive(4, 6, 2))
    state = decoder.start(torch.randn(2, 7, 6), torch.ones(2, 7, dtype=torch.bool))
    with pytest.raises(ValueError, match=message):
        decoder(torch.ones(shape, dtype=torch.long), state)
