import math

import pytest
import torch
from torch import nn

from attention_course.data import numbers
from attention_course.data.vocabulary import BOS, EOS
from attention_course.tasks import TranslationTask
from attention_course.tasks.translation import AT_ONCE
from companion.attention import Additive
from companion.decoding import DecoderStep
from companion.models import BahdanauDecoder, BahdanauEncoder, EncoderDecoder


@pytest.fixture(scope="module")
def task() -> TranslationTask:
    return TranslationTask(
        *numbers.split(numbers.french_pairs(1500, seed=1), fraction=0.2, seed=1)
    )


class Dictionary(nn.Module):
    """Translates every pair of the task, apart from those whose source is in ``forgotten``."""

    def __init__(self, task: TranslationTask, forgotten: frozenset = frozenset()):
        super().__init__()
        self.size = nn.Parameter(torch.zeros(len(task.target)))
        pairs = [*task.training_pairs, *task.test_pairs]
        encoded = task.encode(pairs)
        self.known = {
            tuple(source): target
            for (source, target), pair in zip(encoded, pairs, strict=True)
            if pair.source not in forgotten
        }

    def start(self, source):
        rows = [tuple(token for token in row if token) for row in source.tolist()]
        answers = [[*self.known.get(row, []), EOS] for row in rows]
        longest = max(map(len, answers))
        script = torch.tensor(
            [answer + [EOS] * (longest - len(answer)) for answer in answers]
        )
        return script, torch.zeros(len(rows), dtype=torch.long)

    def step(self, token, state):
        script, position = state
        word = script[
            torch.arange(len(script)), position.clamp(max=script.shape[1] - 1)
        ]
        return DecoderStep(
            nn.functional.one_hot(word, len(self.size)).float() * 9,
            (script, position + 1),
            None,
        )


def model_for(task: TranslationTask) -> EncoderDecoder:
    torch.manual_seed(0)
    decoder = BahdanauDecoder(len(task.target), 6, 8, 14, Additive(8, 14, 5))
    return EncoderDecoder(BahdanauEncoder(len(task.source), 6, 7, pad=0), decoder)


def test_encoded_pairs_have_no_special_tokens(task):
    source, target = task.encode(task.test_pairs[:1])[0]
    assert tuple(task.source.decode(source)) == task.test_pairs[0].source
    assert tuple(task.target.decode(target)) == task.test_pairs[0].target
    assert not {BOS, EOS} & {*source, *target}


def test_exact_match_of_each_range_of_lengths(task):
    assert task.exact_match(Dictionary(task), [(1, 9), (10, 27), (1, 27)]) == [1, 1, 1]
    shorter = [pair for pair in task.test_pairs if len(pair.target) <= 9]
    forgetful = Dictionary(
        task, frozenset(pair.source for pair in shorter[: len(shorter) // 2])
    )
    half, all_correct = task.exact_match(forgetful, [(1, 9), (10, 27)])
    assert half == pytest.approx(1 - (len(shorter) // 2) / len(shorter))
    assert all_correct == 1


def test_translations_keep_the_order_of_the_sentences(task):
    pairs = (task.training_pairs * 2)[: AT_ONCE + 9]  # more than are translated at once
    found = task.translate(Dictionary(task), [pair.source for pair in pairs])
    assert [(f.source, f.target) for f in found] == [
        (pair.source, pair.target) for pair in pairs
    ]
    assert all(f.weights is None for f in found)


def test_weights_have_a_row_per_target_token_and_a_column_per_source_word(
    task,
):
    model = model_for(task)
    sentences = [numbers.english_words(n) for n in (7, 123_456)]
    batched = task.translate(model, sentences, max_length=9)
    alone = [
        task.translate(model, [sentence], max_length=9)[0] for sentence in sentences
    ]
    for one, other in zip(batched, alone, strict=True):
        assert one.target == other.target
        assert one.weights.shape[1] == len(one.source)
        assert one.weights.shape[0] in (
            len(one.target),
            len(one.target) + 1,
        )  # cut off, or with <eos>
        torch.testing.assert_close(one.weights, other.weights)
        torch.testing.assert_close(one.weights.sum(1), torch.ones(len(one.weights)))


def test_training_lowers_the_loss_and_leaves_the_model_in_training_mode(task):
    model = model_for(task)
    history = task.train(model, steps=120)
    assert [record["step"] for record in history] == [50, 100, 120]
    losses = [record["held_out_loss"] for record in history]
    assert losses[-1] < losses[0] < math.log(len(task.target))
    assert model.training
