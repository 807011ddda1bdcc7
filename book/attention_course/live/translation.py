"""Command: train the two models of the live translation, and write their weights as a script for the page.

    python -m attention_course.live.translation

It takes a few minutes. The models are that of chapter 2 and the same
model without attention. Their weights are written to ``book/_static/live/weights.js``, and the
picture for readers without scripts to ``still.svg``.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attention_course.data import numbers
from attention_course.diagrams import translation
from attention_course.live import weights
from attention_course.tasks.number_translation import (
    bahdanau_translator,
    french_numbers,
)
from attention_course.tasks.translation import Translation, TranslationTask
from companion.models.bahdanau import BahdanauEncoder, FixedVectorEncoder
from companion.models.seq2seq import EncoderDecoder

FOLDER = Path(__file__).resolve().parents[2] / "_static" / "live"
SPEED_OF_LIGHT = Path(translation.__file__).with_name("speed_of_light.json")
ENCODERS = {"withAttention": BahdanauEncoder, "withoutAttention": FixedVectorEncoder}
STEPS = 400  # of training, for each of the two models
RATE = 0.02  # of learning, at which both have their lowest validation loss
LONGEST = 30  # a model that has not stopped by then is stopped
STILL = 299_792_458  # the number in the still picture: the speed of light in metres per second

COMMENT = "Weights of the two models, written by attention_course.live.translation; tensors.js reads them."


def build(name: str, source: int, target: int) -> EncoderDecoder:
    """An untrained model, for vocabularies of these sizes: chapter 2's, or its baseline."""
    torch.manual_seed(0)
    return bahdanau_translator(source, target, ENCODERS[name])


def train(task: TranslationTask) -> dict[str, EncoderDecoder]:
    """Both models after the same number of steps."""
    models = {
        name: build(name, len(task.source), len(task.target)) for name in ENCODERS
    }
    for model in models.values():
        task.train(model, STEPS, RATE)
    return models


def script(task: TranslationTask, models: dict[str, EncoderDecoder]) -> str:
    """The script that declares both models, their vocabularies and their exact match."""
    written = {
        name: {key: weights.encode(value) for key, value in model.state_dict().items()}
        for name, model in models.items()
    }
    vocabularies = (task.source.tokens, task.target.tokens)
    rounded = {name: restore(name, written[name], *vocabularies) for name in models}
    content = {
        "longest": LONGEST,
        "source": task.source.tokens,
        "target": task.target.tokens,
        "testNumbers": len(task.test_pairs),
        "exactMatch": {
            name: exact_match(task, model) for name, model in rounded.items()
        },
        "models": written,
    }
    return weights.script(COMMENT, "LIVE_MODEL", content)


def exact_match(task: TranslationTask, model: EncoderDecoder) -> float:
    """The fraction of the test numbers that a model translates exactly."""
    (fraction,) = task.exact_match(model, [(1, numbers.LONGEST_FRENCH)])
    return round(fraction, 4)


def restore(
    name: str,
    parameters: dict[str, Any],
    source: Sequence[str],
    target: Sequence[str],
) -> EncoderDecoder:
    """A model with the weights of the script, for these vocabularies."""
    model = build(name, len(source), len(target))
    model.load_state_dict(
        {key: weights.decode(value) for key, value in parameters.items()}
    )
    return model.eval()


def models_of(content: dict[str, Any]) -> dict[str, EncoderDecoder]:
    """Both models that the script declares."""
    return {
        name: restore(name, parameters, content["source"], content["target"])
        for name, parameters in content["models"].items()
    }


def translate(
    task: TranslationTask, model: EncoderDecoder, chosen: list[int]
) -> list[Translation]:
    """The translations of numbers, of at most as many words as on the page."""
    words = [numbers.english_words(number) for number in chosen]
    return task.translate(model, words, LONGEST)


def still(task: TranslationTask, models: dict[str, EncoderDecoder]) -> str:
    """What the still picture shows: both translations of a number, and the weights."""
    attended, fixed = (translate(task, models[name], [STILL])[0] for name in ENCODERS)
    assert attended.weights is not None
    rows = attended.weights[: len(attended.target)].double()
    shown = {
        "title": f"{STILL:,}",
        "source": attended.source,
        "target": numbers.french_words(STILL),
        "attended": attended.target,
        "weights": [[round(weight, 2) for weight in row] for row in rows.tolist()],
        "fixed": fixed.target,
    }
    return json.dumps(shown, ensure_ascii=False) + "\n"


def main() -> None:
    """Train, and write what the page and its still picture need."""
    torch.set_num_threads(1)  # or the weights depend on the machine
    task = french_numbers()
    text = script(task, train(task))
    (FOLDER / "weights.js").write_text(text, "utf-8")
    SPEED_OF_LIGHT.write_text(still(task, models_of(weights.read(text))), "utf-8")
    (FOLDER / "still.svg").write_text(translation.speed_of_light().svg(), "utf-8")


if __name__ == "__main__":
    main()
