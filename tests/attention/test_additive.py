import math

import pytest
import torch
from torch import nn

from companion.attention import (
    Additive,
    LocationSensitive,
    SmoothLocationSensitive,
    additive_scores,
)
from companion.models import LocationSensitiveDecoder
from tests.reference import bahdanau_2015, chorowski_2015, scalars
from tests.tiny import close, spread

SIZES = {"query_size": 3, "key_size": 5, "size": 7}


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    return (
        torch.randn(2, 4, 3, dtype=torch.float64),
        torch.randn(2, 6, 5, dtype=torch.float64),
    )


def test_additive_scores_are_the_formula(inputs):
    attention, (query, source) = spread(Additive(**SIZES)), inputs
    scores = attention.score(query, attention.project(source)[0])
    parameters = scalars.values(attention)
    for b in range(2):
        expected = [
            [bahdanau_2015.additive_score(parameters, q, h) for h in source[b].tolist()]
            for q in query[b].tolist()
        ]
        close(scores[b], expected)
    hidden_query, hidden_key = attention.W(query), attention.U(source)
    assert torch.equal(additive_scores(hidden_query, hidden_key, attention.v), scores)


def test_the_source_is_projected_once_for_all_queries(inputs):
    attention, (query, source) = spread(Additive(**SIZES)), inputs
    key, value = attention.project(source)
    assert value is source
    source.fill_(torch.nan)  # from here on only the key is used
    assert attention.score(query, key).isfinite().all()


def sigmoid_smoothing(scores, mask):
    """α_ij = m_j σ(e_ij) / Σ_l m_l σ(e_il)   (Chorowski et al. 2015, section 2.3)"""
    sigmoids = [
        1 / (1 + math.exp(-e)) if visible else 0.0
        for e, visible in zip(scores, mask, strict=True)
    ]
    return [x / math.fsum(sigmoids) for x in sigmoids]


def test_smoothing_puts_a_sigmoid_for_the_exponential(inputs):
    query, source = inputs
    attention = spread(SmoothLocationSensitive(**SIZES, channels=2, width=3))
    mask = torch.tensor([True, True, False, True, True, False])
    previous = torch.rand(2, 6, dtype=torch.float64)
    key, _ = attention.project(source)
    key = attention.location_features(key, previous)
    weights = attention.weights(query, key, mask)
    parameters = scalars.values(attention)
    for b in range(2):
        features = chorowski_2015.location_features(
            parameters["F.weight"], previous[b].tolist()
        )
        for i, q in enumerate(query[b].tolist()):
            scores = [
                chorowski_2015.location_score(parameters, q, h, f)
                for h, f in zip(source[b].tolist(), features, strict=True)
            ]
            close(weights[b, i], sigmoid_smoothing(scores, mask.tolist()))


def test_smoothing_is_right_where_every_sigmoid_underflows():
    attention = SmoothLocationSensitive(1, 1, 1, channels=1, width=1)
    attention.v.data.fill_(-1e4)
    attention.W.weight.data.fill_(0)
    key = torch.tensor([[5.0], [5.0], [0.5]])  # scores near −10⁴, −10⁴ and −4,600
    weights = attention.weights(
        torch.zeros(1, 1), key, torch.tensor([True, True, False])
    )
    torch.testing.assert_close(weights, torch.tensor([[0.5, 0.5, 0.0]]))


def test_smoothing_has_the_parameters_of_location_sensitive_attention_and_its_decoder():
    plain = LocationSensitive(4, 6, 7, channels=2, width=3)
    smooth = SmoothLocationSensitive(4, 6, 7, channels=2, width=3)
    smooth.load_state_dict(plain.state_dict())
    LocationSensitiveDecoder(5, 3, 4, 6, smooth)


@pytest.mark.parametrize("kind", [LocationSensitive, SmoothLocationSensitive])
def test_v_is_initialised_between_the_matrices_and_the_filters_and_can_be_reset_alone(
    kind,
):
    torch.manual_seed(0)
    attention = kind(**SIZES, channels=2, width=3)
    torch.manual_seed(0)
    W, U = nn.Linear(3, 7, bias=False), nn.Linear(5, 7, bias=False)
    v = torch.empty(7).uniform_(-(7**-0.5), 7**-0.5)
    F, L = nn.Conv1d(1, 2, 3, bias=False), nn.Linear(2, 7)
    expected = {
        "v": v,
        "W.weight": W.weight,
        "U.weight": U.weight,
        "F.weight": F.weight,
        "L.weight": L.weight,
        "L.bias": L.bias,
    }
    found = {name: x.clone() for name, x in attention.state_dict().items()}
    assert found.keys() == expected.keys()
    assert all(torch.equal(x, expected[name]) for name, x in found.items())
    attention.reset_parameters()
    changed = {
        name
        for name, x in attention.state_dict().items()
        if not torch.equal(x, found[name])
    }
    assert changed == {"v"}


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("size", [0, -3])
def test_sizes_below_one_are_an_error(name, size):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not {size}"):
        Additive(**SIZES | {name: size})


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("name", [*SIZES, "channels", "width"])
@pytest.mark.parametrize("size", ["3", None, 2.5, True])
def test_sizes_that_are_not_integers_are_an_error(name, size):
    sizes = SIZES | {"channels": 2, "width": 3, name: size}
    with pytest.raises(TypeError, match=f"{name} must be an integer, not {size!r}"):
        LocationSensitive(**sizes)


def test_a_source_of_another_size_is_an_error():
    with pytest.raises(RuntimeError, match="6x4 and 5x7"):
        Additive(**SIZES).project(torch.randn(6, 4))


@pytest.mark.usefixtures("unchecked")
def test_a_key_that_was_not_projected_is_an_error():
    for features in (5, 1):  # one feature would broadcast
        with pytest.raises(ValueError, match=f"of features, not 7 and {features}"):
            Additive(**SIZES).score(torch.randn(4, 3), torch.randn(6, features))
