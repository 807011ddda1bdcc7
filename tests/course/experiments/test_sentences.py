"""The sentences of a result: how they are chosen, and what is refused."""

import pytest
import torch

from attention_course.data.vocabulary import MARKS, pad
from attention_course.experiments.evaluation import attended, choose
from attention_course.experiments.sentences import packed, weights_of
from companion.attention import record_weights
from companion.decoding import greedy
from tests.tiny import ATTENTIVE, MODELS, close

pytestmark = pytest.mark.slow


def words(count, longest=3):
    return ["x" * longest, *["y"] * (count - 1)]


def test_each_rule_chooses_the_first_sentence_that_is_not_yet_chosen():
    clause = [*words(4), "während", "es", "regnet"]
    sentences = [[], words(7), words(5), clause, words(7), words(9, 16), words(13, 20)]
    assert choose(sentences) == [2, 1, 6, 5, 3]
    assert choose([]) == []


@pytest.mark.parametrize("name", [*ATTENTIVE, "transformer", "convs2s"])
def test_the_weights_are_those_of_the_decoding_steps(name):
    torch.manual_seed(0)
    model, source = MODELS[name]().eval(), [5, 6, 4]
    with record_weights(model.decoder):
        found = greedy(model.step, model.start(pad([source])), 4, **MARKS)
    written = found.tokens[0].tolist()
    weights = attended(model, source, written[:-1])
    assert weights.shape[2:] == (len(written), len(source))
    if found.weights is None:
        assert weights.ndim == 4
        close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    else:
        close(weights, found.weights[None])


def test_a_model_without_attention_has_no_weights():
    assert attended(MODELS["sutskever"](), [5, 6], [4]) is None


def example(weights):
    texts = {"source": "a b c", "reference": "r", "greedy": "d", "beam": "d e"}
    return {"index": 7, **texts, "weights": weights}


def test_weights_are_read_as_they_were_written():
    weights = torch.rand(2, 4, 2, 3)
    found = weights_of(example(packed(weights)))
    assert (found - weights).abs().max() <= 0.5 / 255 + 1e-6
    assert weights_of(example(None)) is None
