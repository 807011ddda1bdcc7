import pytest
import torch

from companion.attention import Additive, LocationSensitive
from companion.models import LocationSensitiveDecoder
from tests.reference import bahdanau_2015, chorowski_2015, scalars
from tests.tiny import SOURCE, TARGET, bahdanau, close, location, sentences, spread


@pytest.fixture
def attention():
    return spread(LocationSensitive(2, 3, 5, channels=4, width=5))


def test_scores_are_the_papers(attention):
    torch.manual_seed(0)
    query, source = (
        torch.randn(2, 1, 2, dtype=torch.float64),
        torch.randn(2, 7, 3, dtype=torch.float64),
    )
    previous = torch.rand(2, 7, dtype=torch.float64)
    key, _ = attention.project(source)
    scores = attention.score(query, attention.location_features(key, previous))
    parameters = scalars.values(attention)
    for b in range(2):
        features = chorowski_2015.location_features(
            parameters["F.weight"], previous[b].tolist()
        )
        expected = [
            chorowski_2015.location_score(
                parameters, query[b, 0].tolist(), source[b, j].tolist(), features[j]
            )
            for j in range(7)
        ]
        close(scores[b, 0], expected)


def test_a_filter_reaches_equally_far_to_both_sides(attention):
    previous = torch.zeros(1, 11, dtype=torch.float64)
    previous[0, 5] = 1
    key = torch.zeros(1, 11, 5, dtype=torch.float64)
    moved = attention.location_features(key, previous) - attention.location_features(
        key, torch.zeros_like(previous)
    )
    assert moved[0].any(-1).tolist() == [3 <= j <= 7 for j in range(11)]


def test_the_whole_model_is_the_papers():
    model = location()
    logits = model(SOURCE, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        expected, _ = bahdanau_2015.teacher_forced(
            scalars.values(model),
            chorowski_2015.step,
            sentence.tolist(),
            TARGET[row].tolist(),
        )
        close(logits[row], expected)


def test_without_location_filters_it_is_bahdanaus():
    model, plain = location(), bahdanau()
    plain.load_state_dict(model.state_dict(), strict=False)
    assert not torch.allclose(model(SOURCE, TARGET), plain(SOURCE, TARGET), atol=1e-3)
    model.decoder.attention.F.weight.data.zero_()
    model.decoder.attention.L.bias.data.zero_()
    close(model(SOURCE, TARGET), plain(SOURCE, TARGET))


def test_the_memory_stays_as_it_was_projected():
    model = location()
    start = model.start(SOURCE)
    state = model.step(torch.tensor([1, 1, 1]), start).state
    assert state.memory is start.memory


@pytest.mark.parametrize("width", [2, 0, -1, -2, 10])
def test_a_width_without_a_middle_is_an_error(width):
    with pytest.raises(ValueError, match=rf"width must be (odd|at least 1).* {width}$"):
        LocationSensitive(2, 3, 5, channels=4, width=width)


@pytest.mark.usefixtures("unchecked")
def test_previous_weights_of_another_length_are_an_error(attention):
    with pytest.raises(ValueError, match="6 previous weights do not fit 7 keys"):
        attention.location_features(torch.randn(2, 7, 5), torch.rand(2, 6))


@pytest.mark.usefixtures("unchecked")
def test_its_decoder_refuses_other_attentions():
    with pytest.raises(
        TypeError,
        match="LocationSensitiveDecoder needs LocationSensitive, not Additive",
    ):
        LocationSensitiveDecoder(5, 3, 4, 6, Additive(4, 6, 2))
