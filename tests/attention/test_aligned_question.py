import pytest
import torch

from companion.attention import AlignedQuestionAttention
from tests.reference import chen_2017, scalars
from tests.tiny import close, spread


def normal(*shape):
    return torch.randn(
        shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))
    )


@pytest.mark.parametrize("padding", [0, 2])
def test_the_aligned_question_is_the_formula(padding):
    attention, passage, question = (
        spread(AlignedQuestionAttention(3, 7)),
        normal(2, 5, 3),
        normal(2, 4 + padding, 3),
    )
    mask = torch.arange(4 + padding) < 4
    found = attention(passage, *attention.project(question), mask)
    parameters = scalars.values(attention)
    for b in range(2):
        words = question[b, :4].tolist()
        close(
            found[b],
            [
                chen_2017.aligned_question(parameters, p, words)
                for p in passage[b].tolist()
            ],
        )


def test_scores_are_symmetric_because_the_layer_is_shared():
    attention, words = spread(AlignedQuestionAttention(3, 7)), normal(5, 3)
    scores = attention.score(words, attention.project(words)[0])
    close(scores, scores.mT)
    assert (scores >= 0).all()
    assert sum(p.numel() for p in attention.parameters()) == 3 * 7 + 7


def test_the_value_is_the_embedding_itself():
    question = normal(2, 4, 3)
    assert spread(AlignedQuestionAttention(3, 7)).project(question)[1] is question


@pytest.mark.parametrize("sizes", [(0, 7), (3, 0)])
def test_sizes_below_one_are_an_error(sizes):
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        AlignedQuestionAttention(*sizes)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("sizes", [("3", 7), (3, None), (2.5, 7), (3, True)])
def test_sizes_that_are_not_integers_are_an_error(sizes):
    with pytest.raises(TypeError, match="size must be an integer, not "):
        AlignedQuestionAttention(*sizes)
