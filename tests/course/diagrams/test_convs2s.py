"""What the drawings of chapter 11 compute."""

import pytest
import torch

from attention_course.diagrams import convs2s


@pytest.mark.parametrize("window", [convs2s._CENTRED, convs2s._CAUSAL])
def test_the_paths_are_those_through_convolutions_of_ones(window):
    words = torch.zeros(61, requires_grad=True)
    states = words
    for _ in range(3):
        states = sum(torch.roll(states, -offset) for offset in window)
    states[30].backward()
    paths = convs2s._paths(window, 3)
    assert len(paths) == 3 * (3 - 1) + 1  # (11.3)
    counts = [int(count) for count in words.grad]
    assert counts == [paths[place - 30] for place in range(61)]


def test_no_path_leads_from_the_future_to_a_state_of_the_decoder():
    assert max(convs2s._paths(convs2s._CAUSAL, 3)) == 0


def test_each_query_is_the_context_of_the_layer_before():
    things, attention = convs2s._hops()
    assert things == ["cup", "box", "car", "yard"]
    facts = dict(convs2s._FACTS)
    assert [facts[thing] for thing in things[:-1]] == things[1:]
    for thing, weights in zip(things, attention, strict=False):
        assert sum(weights) == pytest.approx(1)
        assert convs2s._FACTS[weights.index(max(weights))][0] == thing


def test_the_layers_drawn_are_as_many_as_reach_the_first_token():
    layers = convs2s.path_length().description.count("4 layers")
    assert layers == 1
    reached = convs2s._paths(convs2s._CAUSAL, 4)
    assert min(reached) == -(convs2s._TOKENS - 1)
    assert min(convs2s._paths(convs2s._CAUSAL, 3)) > -(convs2s._TOKENS - 1)
