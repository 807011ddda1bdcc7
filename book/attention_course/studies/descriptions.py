"""The first study of chapter 10: a French text describes one of four English descriptions.

The sentences are those of Multi30k. A document is several English descriptions, one after the
other. A question is one to three French descriptions, of which one, at a random place, is the
translation of a description in the document, and the others belong to other pictures. The
answer is the description, and its probability the sum of the weights of its words.

All runs take less than twenty minutes on one CPU core.
"""

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attention_course.data.examples import Shuffled
from attention_course.data.vocabulary import PAD, Vocabulary, pad
from attention_course.studies.cloze import READERS as _READERS
from attention_course.studies.recording import check_choice, grid
from attention_course.training import recipe
from attention_course.training.losses import Record
from companion.attention.attention_over_attention import pointer_sum, two_way_attention
from companion.attention.base import masked_softmax
from companion.layers.recurrent import run_packed
from companion.losses.tokens import Loss
from companion.models.attention_readers import Reader
from companion.models.text_classifier import SentenceStates

TITLE = "Chapter 10: French sentences that describe one of four English descriptions"
#: The numbers of sentences that a question may have.
SENTENCES = (1, 2, 3)
#: The numbers of descriptions in longer documents; training documents have the first.
DESCRIPTIONS = (4, 8, 16)
STEPS = 600
#: The part of Multi30k that the test questions are made of.
TEST = "test_2016_flickr"
_TESTED = 500  # questions of each kind


class QuestionWeights(Reader):
    """Attention over the document by each question word, weighted by the question alone.

    ::

        s = Σ_t β_t α(t),   β = softmax over the question of vᵀ h_t

    A control for attention over attention: the weights of the words are learned, but they do
    not depend on the document.
    """

    def __init__(
        self,
        vocabulary_size: int,
        embedding_size: int,
        size: int,
        pad: int | None = None,
    ):
        super().__init__(vocabulary_size, embedding_size, size, pad)
        self.weight = nn.Linear(size, 1, bias=False)

    def attend(
        self, document: SentenceStates, question: SentenceStates
    ) -> Float[Tensor, "b n"]:
        """The α, averaged by a softmax over the question's words."""
        scores = question.states @ document.states.mT  # (b, m, n)
        alpha = masked_softmax(scores, document.mask[:, None])
        beta = masked_softmax(self.weight(question.states).squeeze(-1), question.mask)
        return (beta.unsqueeze(-2) @ alpha).squeeze(-2)


#: The readers, by the names that they have in the chapter.
READERS: dict[str, Callable[..., Reader]] = {
    **_READERS,
    "question's own weights": QuestionWeights,
}


class Asked(NamedTuple):
    """Descriptions in English, sentences in French, and their numbers, from 0.

    ``described`` is the one of the descriptions, and ``sentence`` the one of the sentences,
    that belong together.
    """

    descriptions: tuple[tuple[str, ...], ...]
    sentences: tuple[tuple[str, ...], ...]
    described: int
    sentence: int


class AskedBatch(NamedTuple):
    """Texts as tokens, which part each token is in (from 1), and the right parts."""

    document: Int[Tensor, "b n"]
    question: Int[Tensor, "b m"]
    description: Int[Tensor, "b n"]
    sentence: Int[Tensor, "b m"]
    described: Int[Tensor, "b 1"]
    right: Int[Tensor, "b 1"]


def ask(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]],
    descriptions: int,
    sentences: Sequence[int],
    count: int,
    seed: int,
) -> list[Asked]:
    """Questions about randomly chosen pairs of an English and a French description.

    Args:
        descriptions: in a document.
        sentences: the numbers of sentences that a question may have, equally likely.

    Example:
        >>> pairs = [(("a", "dog"), ("un", "chien")), (("a", "cat"), ("un", "chat"))]
        >>> ask(pairs, descriptions=2, sentences=[1], count=1, seed=0)[0].sentences
        (('un', 'chien'),)
    """
    generator, found = random.Random(seed), []
    for _ in range(count):
        others = generator.choice(sentences) - 1
        rows = generator.sample(range(len(pairs)), descriptions + others)
        about, answer = rows[:descriptions], generator.randrange(descriptions)
        place, told = generator.randrange(others + 1), rows[descriptions:]
        told.insert(place, about[answer])
        found.append(
            Asked(
                tuple(tuple(pairs[row][0]) for row in about),
                tuple(tuple(pairs[row][1]) for row in told),
                answer,
                place,
            )
        )
    return found


def collate(vocabulary: Vocabulary, asked: Sequence[Asked]) -> AskedBatch:
    """A batch of these questions."""

    def joined(
        texts: Sequence[Sequence[Sequence[str]]],
    ) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]:
        tokens = [
            vocabulary.encode(word for part in text for word in part) for text in texts
        ]
        parts = [
            [number for number, part in enumerate(text, 1) for _ in part]
            for text in texts
        ]
        return pad(tokens), pad(parts)

    document, description = joined([one.descriptions for one in asked])
    question, sentence = joined([one.sentences for one in asked])
    described = torch.tensor([[one.described + 1] for one in asked])
    right = torch.tensor([[one.sentence + 1] for one in asked])
    return AskedBatch(document, question, description, sentence, described, right)


def answer_loss(reader: nn.Module, batch: AskedBatch) -> Loss:
    """The negative log-probability of the right descriptions, summed over their words."""
    weights = reader(batch.document, batch.question)
    probability = pointer_sum(weights, batch.description, batch.described)
    tiny = torch.finfo(probability.dtype).tiny
    return Loss(-probability.clamp_min(tiny).log().sum(), torch.tensor(len(weights)))


def right(
    weights: Float[Tensor, "b n"], batch: AskedBatch, descriptions: int
) -> Float[Tensor, " b"]:
    """1 where the most probable description is the right one, and 0 elsewhere."""
    numbers = torch.arange(1, descriptions + 1).expand(len(weights), -1)
    best = pointer_sum(weights, batch.description, numbers).argmax(-1, keepdim=True) + 1
    return (best == batch.described).squeeze(-1).double()


@torch.no_grad()
def scores(reader: Reader, batch: AskedBatch) -> Float[Tensor, "b n m"]:
    """M, the score of each document word for each question word."""
    states, queries = (
        run_packed(rnn, reader.embedding(tokens), tokens != PAD)[0]
        for rnn, tokens in (
            (reader.document_rnn, batch.document),
            (reader.question_rnn, batch.question),
        )
    )
    return states @ queries.mT


def inside(reader: Reader, batch: AskedBatch, descriptions: int) -> dict[str, float]:
    """What the second attention does in one batch.

    Returns:
        ``right`` is the accuracy. The same α are also averaged ``evenly``, and by the β of the
        rows of the right description alone (``its rows``). ``on_right`` is the weight that β
        gives to the words of the right sentence, and ``uniform`` their proportion.
    """
    M, masks = scores(reader, batch), (batch.document != PAD, batch.question != PAD)
    alpha, beta = two_way_attention(M, *masks)
    its_rows = two_way_attention(M, batch.description == batch.described, masks[1])[1]
    even = masked_softmax(torch.zeros_like(beta), masks[1])
    on_right = batch.sentence == batch.right
    accuracies = {
        name: right((weights[:, None] @ alpha)[:, 0], batch, descriptions).mean().item()
        for name, weights in (("right", beta), ("evenly", even), ("its rows", its_rows))
    }
    return {
        **accuracies,
        "on_right": (beta * on_right).sum(-1).mean().item(),
        "uniform": (even * on_right).sum(-1).mean().item(),
    }


@cache
def translations(split: str) -> list[tuple[list[str], list[str]]]:
    """The English and French descriptions of one part of Multi30k, in words."""
    from attention_course.data import multi30k

    texts = [multi30k.tokenize(multi30k.load(split, x), x) for x in ("en", "fr")]
    return list(zip(*texts, strict=True))


@cache
def vocabulary() -> Vocabulary:
    """The words of both languages that occur at least ten times in the training set."""
    pairs = translations("train")
    return Vocabulary.of(
        (words for pair in pairs for words in pair), minimum_frequency=10
    )


@cache
def _training() -> list[Asked]:
    return ask(translations("train"), DESCRIPTIONS[0], SENTENCES, 19_200, seed=1)


def questions(
    split: str,
    sentences: int,
    count: int = _TESTED,
    descriptions: int = DESCRIPTIONS[0],
) -> list[Asked]:
    """Questions of so many sentences about one part of Multi30k, always the same."""
    return ask(translations(split), descriptions, [sentences], count, seed=2)


def batches(asked: Sequence[Asked]) -> list[AskedBatch]:
    """These questions in batches of 100."""
    return [
        collate(vocabulary(), asked[row : row + 100])
        for row in range(0, len(asked), 100)
    ]


@torch.no_grad()
def _accuracy(reader: nn.Module, tested: Sequence[AskedBatch]) -> float:
    reader.eval()
    found = [
        right(reader(batch.document, batch.question), batch, DESCRIPTIONS[0])
        for batch in tested
    ]
    reader.train()
    return torch.cat(found).mean().item()


def build(reader: str, vocabulary_size: int, seed: int) -> Reader:
    """An untrained reader.

    Args:
        reader: one of :data:`READERS`.
    """
    torch.manual_seed(seed)
    return READERS[reader](vocabulary_size, embedding_size=32, size=64, pad=PAD)


def train(reader: str, learning_rate: float, seed: int) -> tuple[Reader, list[Record]]:
    """A trained reader, and its accuracy on validation questions every 50 steps."""
    check_choice("reader", reader, READERS)  # before any data is read
    words = vocabulary()
    model = build(reader, len(words), seed)
    watched = [batch for n in SENTENCES for batch in batches(questions("val", n, 100))]
    history = recipe.train(
        model,
        answer_loss,
        Shuffled(_training(), lambda asked: collate(words, asked), 32, seed),
        STEPS,
        learning_rate,
        lambda model: {"accuracy": _accuracy(model, watched)},
    )
    return model.eval(), history


def measure(reader: str, learning_rate: float, seed: int) -> dict[str, Any]:
    """Train one reader on documents of four descriptions.

    Returns:
        ``validation``, the accuracy after every 50 steps, and ``test``, the accuracy for each
        of :data:`SENTENCES`. For attention over attention also what :func:`inside` finds, for
        each of :data:`SENTENCES` (``inside``), and for two sentences and each of
        :data:`DESCRIPTIONS` (``longer``); and with seed 0 at 0.01 ``examples``. In other runs
        these are empty.
    """
    model, history = train(reader, learning_rate, seed)
    tested = {n: batches(questions(TEST, n)) for n in SENTENCES}
    found: dict[str, Any] = {
        "validation": [record["accuracy"] for record in history],
        "test": [_accuracy(model, some) for some in tested.values()],
        "inside": [],
        "longer": [],
        "examples": [],
    }
    if reader == "attention over attention":
        found["inside"] = [_inside(model, some, 4) for some in tested.values()]
        found["longer"] = [
            _inside(model, batches(questions(TEST, 2, descriptions=n)), n)
            for n in DESCRIPTIONS
        ]
        if seed == 0 and learning_rate == 0.01:
            found["examples"] = _examples(model)
    return found


def _inside(
    model: Reader, tested: Sequence[AskedBatch], descriptions: int
) -> dict[str, float]:
    found = [inside(model, batch, descriptions) for batch in tested]
    return {name: sum(one[name] for one in found) / len(found) for name in found[0]}


def _examples(model: Reader) -> list[dict[str, Any]]:
    """The first four test questions of two sentences that are short and whose words are known.

    Short means at most 48 words in the document and 26 in the question.
    """
    words, found = vocabulary(), []
    for one in questions(TEST, 2):
        known = all(
            word in words.ids
            for part in (*one.descriptions, *one.sentences)
            for word in part
        )
        sizes = [sum(map(len, texts)) for texts in (one.descriptions, one.sentences)]
        if known and sizes[0] <= 48 and sizes[1] <= 26:
            M = scores(model, collate(words, [one]))[0]
            found.append({**one._asdict(), "scores": M.tolist()})
    return found[:4]


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    return [
        *grid(reader=[*READERS], learning_rate=0.01, seed=range(3)),
        *grid(reader="attention over attention", learning_rate=0.02, seed=range(3)),
        *grid(reader="attention mean", learning_rate=0.02, seed=range(2)),
        *grid(reader="attention sum", learning_rate=0.02, seed=0),
        *grid(reader=[*_READERS], learning_rate=0.04, seed=0),
        *grid(reader="question's own weights", learning_rate=0.02, seed=0),
    ]
