"""Command: train the reader of the figure in chapter 10, and write its weights and questions for the page.

    python -m attention_course.live.question

It takes two minutes, and needs Multi30k and the extra ``experiments``. The reader is that of the
study ``descriptions`` at a learning rate of 0.01 with seed 0, whose question the chapter opens with. Its
weights, with the embeddings of the words on the page alone, are written to
``book/_static/question/weights.js``, and what it does on the test questions, and what the still picture
shows, to ``question.json`` beside this file.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attention_course.data.vocabulary import SPECIAL, Vocabulary
from attention_course.live import weights
from attention_course.studies import descriptions as study
from attention_course.studies.descriptions import Asked
from companion.attention.attention_over_attention import pointer_sum, two_way_attention
from companion.models.attention_readers import Reader

SCRIPT = Path(__file__).resolve().parents[2] / "_static" / "question" / "weights.js"
STILL = Path(__file__).with_name("question.json")
COMMENT = "The weights of a reader, written by attention_course.live.question; tensors.js reads them."
RATE, SEED = 0.01, 0  # of the run that the chapter's examples come from
#: The questions in the page: their title, and which of the test questions of so many sentences.
EXAMPLES = {
    "Baby": (2, 323),
    "Camera": (2, 49),
    "Three sentences": (3, 8),
    "Failure": (2, 336),
}


class Found(NamedTuple):
    """What the reader makes of a question: which words attend, β, and what each attends to."""

    attends: Bool[Tensor, " m"]
    beta: Float[Tensor, " m"]
    attended: Float[Tensor, "m k"]

    @property
    def answer(self) -> Float[Tensor, " k"]:
        """The probability of each description."""
        return self.beta @ self.attended

    @property
    def evenly(self) -> Float[Tensor, " k"]:
        """The same with equal weights for all words that attend."""
        return self.attended[self.attends].mean(0)


@torch.no_grad()
def read(
    model: Reader, words: Vocabulary, asked: Asked, silent: Collection[int] = ()
) -> Found:
    """What the reader makes of a question whose words of these numbers do not attend."""
    batch = study.collate(words, [asked])
    (M,) = study.scores(model, batch)
    attends = torch.tensor([t not in silent for t in range(M.shape[1])])
    alpha, beta = two_way_attention(M, torch.ones(len(M)) > 0, attends)
    numbers = torch.arange(1, len(asked.descriptions) + 1)
    each = (one.expand(len(alpha), -1) for one in (batch.description[0], numbers))
    return Found(attends, beta, pointer_sum(alpha, *each))


def without(asked: Asked, crossed: Collection[int]) -> Asked:
    """The question without the words of these numbers."""
    numbers = iter(range(sum(map(len, asked.sentences))))
    kept = tuple(
        tuple(word for word in sentence if next(numbers) not in crossed)
        for sentence in asked.sentences
    )
    return asked._replace(sentences=kept)


def about(asked: Asked, sentence: int, english: Mapping[Any, Any]) -> Asked:
    """The question when the document describes another of its sentences."""
    told = list(asked.descriptions)
    told[asked.described] = tuple(english[asked.sentences[sentence]])
    return asked._replace(descriptions=tuple(told), sentence=sentence)


def numbered(asked: Asked) -> range:
    """The numbers of the words of the right sentence."""
    start = sum(map(len, asked.sentences[: asked.sentence]))
    return range(start, start + len(asked.sentences[asked.sentence]))


def translations() -> dict[tuple[str, ...], tuple[str, ...]]:
    """The English of each French description in the test set."""
    return {
        tuple(french): tuple(english)
        for english, french in study.translations(study.TEST)
    }


def examples() -> list[dict[str, Any]]:
    """The questions in the page, and the English of all their sentences."""
    english = translations()
    found = []
    for title, (sentences, number) in EXAMPLES.items():
        asked = study.questions(study.TEST, sentences)[number]
        told = [english[sentence] for sentence in asked.sentences]
        found.append({"title": title, **asked._asdict(), "english": told})
    return found


def asked_of(example: Mapping[str, Any]) -> Iterator[Asked]:
    """An example's question, for each of its sentences that the document can describe."""
    sentences = tuple(map(tuple, example["sentences"]))
    english = dict(zip(sentences, example["english"], strict=True))
    told = tuple(map(tuple, example["descriptions"]))
    asked = Asked(told, sentences, example["described"], example["sentence"])
    return (about(asked, number, english) for number in range(len(sentences)))


def script(model: Reader) -> str:
    """The script that declares the questions in the page, and the reader for their words."""
    shown = examples()
    words = study.vocabulary()
    used = {
        word
        for one in shown
        for key in ("descriptions", "sentences", "english")
        for text in one[key]
        for word in text
        if word in words.ids
    }
    rows = sorted({*range(len(SPECIAL)), *(words.ids[word] for word in used)})
    state = model.state_dict()
    state["embedding.weight"] = state["embedding.weight"][rows]
    content = {
        "words": [words.tokens[row] for row in rows],
        "examples": shown,
        "accuracy": accuracies(model),
        "model": {name: weights.encode(value) for name, value in state.items()},
    }
    return weights.script(COMMENT, "QUESTION_MODEL", content)


def restore(content: Mapping[str, Any]) -> tuple[Reader, Vocabulary]:
    """The reader with the weights of the script, and its vocabulary."""
    words = Vocabulary(content["words"][len(SPECIAL) :])
    model = study.build("attention over attention", len(words), SEED)
    model.load_state_dict(
        {name: weights.decode(value) for name, value in content["model"].items()}
    )
    return model.eval(), words


def rounded(model: Reader) -> Reader:
    """The model with its weights as the script has them."""
    state = {
        name: weights.decode(weights.encode(value))
        for name, value in model.state_dict().items()
    }
    model.load_state_dict(state)
    return model


def accuracies(model: Reader) -> list[list[float]]:
    """Of one, two and three sentences: the accuracy with β, and with equal weights for the same α."""
    found = []
    for sentences in study.SENTENCES:
        asked = study.batches(study.questions(study.TEST, sentences))
        runs = [study.inside(model, batch, study.DESCRIPTIONS[0]) for batch in asked]
        found.append(
            [
                round(sum(run[key] for run in runs) / len(runs), 3)
                for key in ("right", "evenly")
            ]
        )
    return found


def crossed_out(model: Reader) -> dict[str, Any]:
    """What changes on all test questions of two sentences.

    ``on_right`` is the weight of the right sentence, before and after its description is exchanged
    for that of the other sentence, and ``moved`` how often it falls. ``lost`` is what the right
    description loses of its probability, on average, without one word of its sentence: if
    the word is deleted, and if it is read but does not attend.
    """
    words, english = study.vocabulary(), translations()
    on_right, lost = [], []
    for asked in study.questions(study.TEST, 2):
        its = list(numbered(asked))
        before = read(model, words, asked)
        after = read(model, words, about(asked, 1 - asked.sentence, english))
        on_right.append([x.beta[its].sum().item() for x in (before, after)])
        for t in its:
            kinds = (
                read(model, words, without(asked, [t])),
                read(model, words, asked, [t]),
            )
            lost.append(
                [(before.answer - x.answer)[asked.described].item() for x in kinds]
            )
    weight, loss = torch.tensor(on_right).double(), torch.tensor(lost).double()
    return {
        "on_right": [round(x, 3) for x in weight.mean(0).tolist()],
        "moved": round((weight[:, 1] < weight[:, 0]).double().mean().item(), 3),
        "lost": [round(x, 4) for x in loss.mean(0).tolist()],
    }


def still(content: Mapping[str, Any]) -> dict[str, Any]:
    """What the still picture shows: β of the first question, for each document."""
    model, words = restore(content)
    (example, *_) = content["examples"]
    found = [read(model, words, asked) for asked in asked_of(example)]
    return {
        "sentences": example["sentences"],
        "beta": [[round(x, 2) for x in one.beta.tolist()] for one in found],
    }


def recorded() -> dict[str, Any]:
    """What the command has written."""
    return json.loads(STILL.read_text("utf-8"))


def main() -> None:
    """Train, and write what the page, its still picture and the text need."""
    torch.set_num_threads(1)  # or the weights depend on the machine
    model = rounded(study.train("attention over attention", RATE, SEED)[0])
    text = script(model)
    SCRIPT.write_text(text, "utf-8")
    content = weights.read(text)
    record = {
        "accuracy": content["accuracy"],
        **crossed_out(model),
        "still": still(content),
    }
    STILL.write_text(json.dumps(record, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
