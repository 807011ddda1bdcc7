import pytest
import torch
from torch import nn

from companion.attention import Concat, Dot, LocalM
from companion.decoding import map_state
from companion.models import EncoderDecoder, luong
from tests.reference import luong_2015, scalars
from tests.tiny import (
    HIDDEN,
    MODELS,
    RADIUS,
    SOURCE,
    STATES,
    TARGET,
    close,
    sentences,
    spread,
)

WEIGHTS = {
    "luong_dot": luong_2015.global_weights(luong_2015.dot_score),
    "luong_general": luong_2015.global_weights(luong_2015.bilinear_score),
    "luong_concat": luong_2015.global_weights(luong_2015.concat_score),
    "luong_location": luong_2015.location_weights,
    "local_m": luong_2015.local_m_weights(luong_2015.dot_score, RADIUS),
    "local_p": luong_2015.local_p_weights(luong_2015.bilinear_score, RADIUS),
    "input_feeding": luong_2015.global_weights(luong_2015.dot_score),
    "local_m_input_feeding": luong_2015.local_m_weights(
        luong_2015.bilinear_score, RADIUS
    ),
    "local_p_input_feeding": luong_2015.local_p_weights(luong_2015.dot_score, RADIUS),
}


def weights_of(model, source, target):
    """The weights of every step."""
    state, weights = model.start(source), []
    for token in target.unbind(1):
        step = model.step(token, state)
        state = step.state
        weights.append(step.weights)
    return torch.stack(weights, 1)


@pytest.mark.parametrize(("name", "attend"), WEIGHTS.items(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("padding", [0, 3])
def test_the_whole_model_is_the_papers(name, attend, padding):
    model = MODELS[name]()
    source = nn.functional.pad(SOURCE, (0, padding))
    logits, weights = model(source, TARGET), weights_of(model, source, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        expected = luong_2015.teacher_forced(
            scalars.values(model),
            attend,
            sentence.tolist(),
            TARGET[row].tolist(),
            input_feeding="input_feeding" in name,
        )
        close(logits[row], expected[0])
        close(weights[row, :, : len(sentence)], expected[1])
        assert (weights[row, :, len(sentence) :] == 0).all()


@pytest.mark.parametrize(
    "name", ["luong_dot", "local_m", "local_p", "local_m_input_feeding"]
)
def test_teacher_forcing_goes_on_from_any_state(name):
    model = MODELS[name]()
    state = model.step(
        TARGET[:, 1], model.step(TARGET[:, 0], model.start(SOURCE)).state
    ).state
    close(model.decoder(TARGET[:, 2:], state), model(SOURCE, TARGET)[:, 2:])


def test_without_input_feeding_the_lstm_and_the_attention_run_once():
    model, calls = MODELS["luong_dot"](), []
    model.decoder.rnn.register_forward_hook(lambda *_: calls.append("lstm"))
    model.decoder.attention.register_forward_hook(lambda *_: calls.append("attention"))
    model(SOURCE, TARGET)
    assert calls == ["lstm", "attention"]


@pytest.mark.parametrize(
    ("name", "feeds"), [("luong_dot", False), ("input_feeding", True)]
)
def test_whether_the_next_state_depends_on_the_last_attentional_state(name, feeds):
    model = MODELS[name]()
    state = model.start(SOURCE)
    other = state._replace(attentional=torch.ones_like(state.attentional))
    one, two = (model.step(TARGET[:, 0], s).state.hidden for s in (state, other))
    assert torch.allclose(one, two) == (not feeds)


def test_the_state_counts_the_tokens_read():
    model = MODELS["local_m"]()
    state = model.start(SOURCE)
    for t, token in enumerate(TARGET.unbind(1)):
        assert state.position.tolist() == [t] * len(SOURCE)
        state = model.step(token, state).state


def test_sentences_that_have_read_different_numbers_of_tokens_have_their_own_positions():
    model = MODELS["local_m"]()
    start = model.start(SOURCE)
    later = model.step(TARGET[:, 0], start).state
    mixed = map_state(lambda x: x[[0, 5]], _concatenated(start, later))
    step = model.step(torch.tensor([4, 4]), mixed)
    close(step.logits[:1], model.step(torch.full((3,), 4), start).logits[:1])
    close(step.logits[1:], model.step(torch.full((3,), 4), later).logits[2:])


def _concatenated(one, two):
    """The sentences of two states in one."""
    pairs = zip(one, two, strict=True)
    parts = [
        _concatenated(a, b) if isinstance(a, tuple) else torch.cat([a, b])
        for a, b in pairs
    ]
    return type(one)(*parts)


@pytest.mark.parametrize("layers", [1, 4])
def test_any_number_of_layers(layers):
    model = spread(
        EncoderDecoder(
            luong.LuongEncoder(11, 3, HIDDEN, layers, pad=0),
            luong.InputFeedingDecoder(5, 3, HIDDEN, Concat(HIDDEN, HIDDEN, 7), layers),
        )
    )
    attend = luong_2015.global_weights(luong_2015.concat_score)
    parameters = scalars.values(model)
    expected, _ = luong_2015.teacher_forced(
        parameters, attend, SOURCE[2].tolist(), TARGET[2].tolist(), True
    )
    close(model(SOURCE, TARGET)[2], expected)


@pytest.mark.parametrize("kind", [luong.LuongDecoder, luong.InputFeedingDecoder])
@pytest.mark.parametrize("attentional", [1, 3, 9])
def test_any_attentional_size(kind, attentional):
    decoder = kind(5, 3, HIDDEN, Dot(), attentional_size=attentional)
    model = spread(EncoderDecoder(luong.LuongEncoder(11, 3, HIDDEN, pad=0), decoder))
    assert model.start(SOURCE).attentional.shape == (len(SOURCE), attentional)
    attend = luong_2015.global_weights(luong_2015.dot_score)
    feeding = kind is luong.InputFeedingDecoder
    for row, sentence in enumerate(sentences(SOURCE)):
        expected, _ = luong_2015.teacher_forced(
            scalars.values(model),
            attend,
            sentence.tolist(),
            TARGET[row].tolist(),
            feeding,
        )
        close(model(SOURCE, TARGET)[row], expected)


def test_the_source_may_have_another_size_than_the_decoder():
    model = MODELS["luong_other_sizes"]()
    state = model.start(SOURCE)
    assert state.memory.value.shape == (*SOURCE.shape, STATES)
    assert model.decoder.W_c.weight.shape == (3, STATES + HIDDEN)
    query = torch.randn(3, 2, HIDDEN, dtype=torch.float64)
    context = model.decoder.attention(*model.decoder.attention_inputs(query, state))
    expected = torch.cat([context, query], -1) @ model.decoder.W_c.weight.T
    close(model.decoder.combine(context, query), expected.tanh())


def test_sizes_that_are_not_given_are_the_hidden_size():
    decoder = luong.LuongDecoder(5, 3, HIDDEN, Dot())
    assert decoder.W_c.weight.shape == (HIDDEN, 2 * HIDDEN)
    assert decoder.output.weight.shape == (5, HIDDEN)


def test_the_output_can_be_initialised_again():
    torch.manual_seed(0)
    decoder = luong.LuongDecoder(500, 3, 100, Dot())
    assert decoder.output.weight.std().item() == pytest.approx(0.2, rel=0.02)
    for part in (decoder.output, decoder):
        part.reset_parameters()
    assert decoder.output.weight.std().item() == pytest.approx(0.2, rel=0.02)


def test_encoder_and_decoder_of_different_depth_are_an_error():
    decoder = luong.LuongDecoder(5, 3, HIDDEN, Dot(), layers=3)
    state = decoder.start(*luong.LuongEncoder(11, 3, HIDDEN, pad=0)(SOURCE))
    with pytest.raises(RuntimeError, match=r"Expected hidden\[0\] size \(3, 3, 4\)"):
        decoder(TARGET, state)


def test_states_of_another_size_are_an_error():
    decoder = luong.LuongDecoder(5, 3, HIDDEN, Dot())
    with pytest.raises(ValueError, match=r"\(b, k, 4\), not \(3, 7, 6\)"):
        decoder.start(*luong.LuongEncoder(11, 3, 6, pad=0)(SOURCE))


def test_bad_sizes_are_errors():
    with pytest.raises(ValueError, match="layers must be at least 1, not 0"):
        luong.LuongEncoder(11, 3, HIDDEN, layers=0)
    with pytest.raises(ValueError, match="source_size must be at least 1, not 0"):
        luong.LuongDecoder(5, 3, HIDDEN, Dot(), source_size=0)
    with pytest.raises(ValueError, match="attentional_size must be at least 1, not -1"):
        luong.LuongDecoder(5, 3, HIDDEN, Dot(), attentional_size=-1)
    with pytest.raises(ValueError, match="hidden_size must be at least 1, not 0"):
        luong.LuongDecoder(5, 3, 0, LocalM(Dot(), 2))


@pytest.mark.usefixtures("unchecked")
def test_a_target_for_other_sentences_is_an_error():
    for name in ("luong_dot", "input_feeding"):
        model = MODELS[name]()
        with pytest.raises(
            ValueError, match=r"\(2, 5\) does not fit 3 source sentences"
        ):
            model(SOURCE, TARGET[:2])


def test_a_source_longer_than_location_attention_is_an_error_with_both_numbers():
    with pytest.raises(ValueError, match=r"13 positions, but location attention .*12"):
        MODELS["luong_location"]()(nn.functional.pad(SOURCE, (0, 6)), TARGET)
