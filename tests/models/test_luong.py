import pytest
import torch
from torch import nn

from companion.attention import Concat, Dot, LocalM
from companion.decoding import map_state
from companion.models import EncoderDecoder, luong
from tests.reference import luong_2015, scalars
from tests.tiny import HIDDEN, MODELS, RADIUS, SOURCE, TARGET, close, sentences, spread

LOOKS = {
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


def looked(model, source, target):
    """The weights of every step."""
    state, weights = model.start(source), []
    for token in target.unbind(1):
        step = model.step(token, state)
        state = step.state
        weights.append(step.weights)
    return torch.stack(weights, 1)


@pytest.mark.parametrize(("name", "look"), LOOKS.items(), ids=LOOKS.keys())
@pytest.mark.parametrize("padding", [0, 3])
def test_the_whole_model_is_the_papers(name, look, padding):
    model = MODELS[name]()
    source = nn.functional.pad(SOURCE, (0, padding))
    logits, weights = model(source, TARGET), looked(model, source, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        expected = luong_2015.teacher_forced(
            scalars.values(model),
            look,
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


def test_without_input_feeding_the_lstm_runs_once_and_all_queries_look_at_once():
    model, calls = MODELS["luong_dot"](), []
    model.decoder.rnn.register_forward_hook(lambda *_: calls.append("lstm"))
    model.decoder.attention.register_forward_hook(lambda *_: calls.append("attention"))
    model(SOURCE, TARGET)
    assert calls == ["lstm", "attention"]


@pytest.mark.parametrize(
    ("name", "feeds"), [("luong_dot", False), ("input_feeding", True)]
)
def test_whether_the_last_look_moves_the_next_state(name, feeds):
    model = MODELS[name]()
    state = model.start(SOURCE)
    other = state._replace(attentional=torch.ones_like(state.attentional))
    one, two = (model.step(TARGET[:, 0], s).state.hidden for s in (state, other))
    assert torch.allclose(one, two) == (not feeds)


def test_the_state_counts_the_words_read():
    model = MODELS["local_m"]()
    state = model.start(SOURCE)
    for t, token in enumerate(TARGET.unbind(1)):
        assert state.position.tolist() == [t] * len(SOURCE)
        state = model.step(token, state).state


def test_sentences_that_have_read_different_numbers_of_words_look_at_different_places():
    model = MODELS["local_m"]()
    start = model.start(SOURCE)
    later = model.step(TARGET[:, 0], start).state
    mixed = map_state(lambda x: x[[0, 5]], _joined(start, later))
    step = model.step(torch.tensor([4, 4]), mixed)
    close(step.logits[:1], model.step(torch.full((3,), 4), start).logits[:1])
    close(step.logits[1:], model.step(torch.full((3,), 4), later).logits[2:])


def _joined(one, two):
    """The sentences of two states in one."""
    parts = zip(one, two, strict=True)
    joined = [
        _joined(a, b) if isinstance(a, tuple) else torch.cat([a, b]) for a, b in parts
    ]
    return type(one)(*joined)


@pytest.mark.parametrize("layers", [1, 4])
def test_any_number_of_layers(layers):
    model = spread(
        EncoderDecoder(
            luong.LuongEncoder(11, 3, HIDDEN, layers),
            luong.InputFeedingDecoder(5, 3, HIDDEN, Concat(HIDDEN, HIDDEN, 7), layers),
        )
    )
    look = luong_2015.global_weights(luong_2015.concat_score)
    parameters = scalars.values(model)
    expected, _ = luong_2015.teacher_forced(
        parameters, look, SOURCE[2].tolist(), TARGET[2].tolist(), True
    )
    close(model(SOURCE, TARGET)[2], expected)


def test_encoder_and_decoder_of_different_depth_are_an_error():
    decoder = luong.LuongDecoder(5, 3, HIDDEN, Dot(), layers=3)
    with pytest.raises(
        ValueError, match=r"\(3, 2, 4\).* not of 3 layers with 4 features"
    ):
        decoder.start(*luong.LuongEncoder(11, 3, HIDDEN)(SOURCE))


def test_states_of_another_size_are_an_error():
    decoder = luong.LuongDecoder(5, 3, HIDDEN, Dot())
    with pytest.raises(ValueError, match="source has 6 features, but 4"):
        decoder.start(*luong.LuongEncoder(11, 3, 6)(SOURCE))


def test_bad_sizes_are_errors():
    with pytest.raises(ValueError, match="layers must be at least 1, not 0"):
        luong.LuongEncoder(11, 3, HIDDEN, layers=0)
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


def test_a_source_beyond_what_location_knows_is_an_error_with_both_numbers():
    with pytest.raises(
        ValueError, match="13 positions, but location attention .*12"
    ):
        MODELS["luong_location"]()(nn.functional.pad(SOURCE, (0, 6)), TARGET)
