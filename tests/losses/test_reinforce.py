import pytest
import torch

from companion.attention import SampledAttention
from companion.losses import MovingBaseline, reinforce_loss, reward_to_go

WORDS = torch.tensor([[True, True, True], [True, True, False], [True, False, False]])
SAMPLED = SampledAttention(torch.ones(3, 3, 1), torch.zeros(3, 3), torch.zeros(3, 3))


def broadcasts(advantage):
    """The product that a loss without a check would compute."""
    return (advantage * SAMPLED.log_prob).shape == WORDS.shape


@pytest.mark.parametrize("shape", [(3,), (3, 1), (1, 3)])
def test_an_advantage_that_would_only_be_broadcast_is_refused(shape):
    assert broadcasts(torch.ones(shape))
    with pytest.raises((ValueError, TypeError), match="advantage"):
        reinforce_loss(SAMPLED, torch.ones(shape), WORDS)


@pytest.mark.parametrize("shape", [(3,), (1, 3)])
def test_a_reward_of_another_shape_than_the_words_is_refused(shape):
    for function in (reward_to_go, MovingBaseline(3)):
        with pytest.raises((ValueError, TypeError), match=r"reward|words"):
            function(torch.ones(shape), WORDS)
