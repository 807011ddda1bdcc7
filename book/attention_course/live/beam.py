"""Command: write what the still picture of a beam search shows, and what beams of each width get wrong.

    python -m attention_course.live.beam

It takes half a minute. The model is the one without attention of the live translation, with the weights of
the page. What it finds is written to ``beam.json`` beside this file.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attention_course.data import numbers
from attention_course.data.vocabulary import BOS, EOS, PAD, pad
from attention_course.live import translation, weights
from attention_course.tasks.number_translation import french_numbers
from attention_course.tasks.translation import TranslationTask
from companion.decoding.beam import beam_search
from companion.decoding.hypotheses import Hypotheses
from companion.decoding.state import DecoderStep
from companion.models.seq2seq import EncoderDecoder

STILL = Path(__file__).with_name("beam.json")
NUMBER, WIDTH = 7_164, 2  # in the still picture
WIDTHS = range(1, 6)


def model() -> EncoderDecoder:
    """The model without attention, with the weights of the page."""
    script = (translation.FOLDER / "weights.js").read_text("utf-8")
    return translation.models_of(weights.read(script))["withoutAttention"]


def search(
    task: TranslationTask,
    model: EncoderDecoder,
    chosen: list[int],
    width: int,
    length_penalty: float = 0.0,
) -> tuple[Hypotheses, list[Tensor]]:
    """What a beam finds for numbers, and the prefixes ``(rows, t)`` kept at each step, ``bos`` first."""
    source = pad([task.source.encode(numbers.english_words(n)) for n in chosen])
    kept = []

    def step(token: Tensor, state: Any) -> DecoderStep:
        inner, prefix = state
        prefix = torch.cat([prefix, token[:, None]], 1)
        kept.append(prefix)
        found = model.step(token, inner)
        return found._replace(state=(found.state, prefix))

    with torch.no_grad():
        state = model.start(source), source[:, :0]
    found = beam_search(
        step,
        state,
        translation.LONGEST,
        width,
        length_penalty,
        bos=BOS,
        eos=EOS,
        pad=PAD,
    )
    return found, kept


@torch.no_grad()
def log_probs(
    task: TranslationTask,
    model: EncoderDecoder,
    number: int,
    sentences: list[tuple[str, ...]],
    *,
    ended: bool = True,
) -> list[float]:
    """The log-probabilities of sentences, or of prefixes, as translations of a number."""
    source = pad([task.source.encode(numbers.english_words(number))] * len(sentences))
    end = [EOS] if ended else []
    target = pad([[BOS, *task.target.encode(one), *end] for one in sentences])
    return model.log_prob(source, target, pad=PAD).tolist()


def errors(task: TranslationTask, model: EncoderDecoder) -> list[list[int]]:
    """How many test numbers are exact, search errors and model errors at each width."""
    chosen = [pair.number for pair in task.test_pairs]
    targets = [pair.target for pair in task.test_pairs]
    reference = torch.tensor(
        [
            log_probs(task, model, number, [target])[0]
            for number, target in zip(chosen, targets, strict=True)
        ]
    )
    counts = []
    for width in WIDTHS:
        found, _ = search(task, model, chosen, width)
        words = [tuple(task.target.decode(row)) for row in found.tokens[:, 0]]
        exact = torch.tensor([a == b for a, b in zip(words, targets, strict=True)])
        missed = ~exact & (reference > found.log_probs[:, 0])
        counts.append([int(x.sum()) for x in (exact, missed, ~exact & ~missed)])
    return counts


def still(task: TranslationTask, model: EncoderDecoder) -> dict[str, Any]:
    """The kept prefixes of the number in the picture, greedy decoding's, and what is found."""
    found, kept = search(task, model, [NUMBER], WIDTH)
    steps = [[tuple(task.target.decode(row[1:])) for row in rows] for rows in kept[1:]]
    sentences = [tuple(task.target.decode(row)) for row in found.tokens[0]]
    greedy, _ = search(task, model, [NUMBER], 1)
    return {
        "kept": [
            list(
                zip(
                    words,
                    log_probs(task, model, NUMBER, words, ended=False),
                    strict=True,
                )
            )
            for words in steps
        ],
        "found": list(zip(sentences, found.log_probs[0].tolist(), strict=True)),
        "greedy": [
            task.target.decode(greedy.tokens[0, 0]),
            greedy.log_probs[0, 0].item(),
        ],
    }


def rounded(content: dict[str, Any]) -> dict[str, Any]:
    """The content as it is written: numbers have two decimals, and 0 has no sign."""
    return json.loads(json.dumps(content), parse_float=lambda x: round(float(x), 2) + 0)


def recorded() -> dict[str, Any]:
    """What the command has written."""
    return json.loads(STILL.read_text("utf-8"))


def main() -> None:
    """Search, and write what the picture and the text need."""
    task, without = french_numbers(), model()
    content = still(task, without) | {"errors": errors(task, without)}
    text = json.dumps(rounded(content), ensure_ascii=False)
    STILL.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
