"""Command: train the two models of the live translation, and write their weights as a script for the page.

It takes a few minutes. The models are that of chapter 2 and the same
model without attention. Their weights are written to ``book/_static/live/weights.js``, and the
picture for readers without scripts to ``still.svg``.

Each row of a matrix is rounded to 45 equidistant values, −22 to 22 times the scale of the
row, and written as one character a weight. With 45 values the exact match is the same as in
floating point, and gzip needs little more than four bits for each.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attention_course.data import numbers
from attention_course.diagrams import translation
from attention_course.tasks.number_translation import (
    bahdanau_translator,
    french_numbers,
)
from attention_course.tasks.translation import Translation, TranslationTask
from companion.models.bahdanau import BahdanauEncoder, FixedVectorEncoder
from companion.models.seq2seq import EncoderDecoder

FOLDER = Path(__file__).resolve().parents[1] / "_static" / "live"
SPEED_OF_LIGHT = Path(translation.__file__).with_name("speed_of_light.json")
ENCODERS = {"withAttention": BahdanauEncoder, "withoutAttention": FixedVectorEncoder}
STEPS = 400  # of training, for each of the two models
RATE = 0.02  # of learning, at which both have their lowest validation loss
LONGEST = 30  # a model that has not stopped by then is stopped
STILL = 299_792_458  # the number in the still picture: the speed of light in metres per second

# All printable characters except the space and those with a meaning in a script or a page.
ALPHABET = "".join(chr(code) for code in range(33, 127) if chr(code) not in "\"'\\`<")
LARGEST = 22  # the largest multiple of a scale
OCTAVE = 8  # scales are powers of 2^(1/8)
SMALLEST = -80  # the exponent of the smallest scale
COMMENT = """\
// The weights of the two models, written by attention_course/live_model.py. model.js reads them: a character
// of `weights` is a multiple of its row's scale, and a character of `scales` the scale.
"""
DECLARATION = "const LIVE_MODEL = "


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


def encode(weights: Tensor) -> dict[str, Any]:
    """A parameter as characters: the scale of each row, and each weight in its scale.

    Raises:
        ValueError: a row needs a scale that has no character.
    """
    rows = weights.detach().double().reshape(-1, weights.shape[-1])
    scales, characters = "", ""
    for row in rows:
        largest = max(row.abs().max().item() / LARGEST, scale_of(ALPHABET[0]))
        exponent = math.ceil(math.log2(largest) * OCTAVE - 1e-9)
        if exponent - SMALLEST >= len(ALPHABET):
            raise ValueError(
                f"no scale is large enough for a weight of {row.abs().max()}"
            )
        scales += ALPHABET[exponent - SMALLEST]
        multiples = (row / scale_of(scales[-1])).round().long().tolist()
        characters += "".join(ALPHABET[LARGEST + multiple] for multiple in multiples)
    return {"shape": list(weights.shape), "scales": scales, "weights": characters}


def decode(parameter: dict[str, Any]) -> Tensor:
    """The parameter that :func:`encode` has written."""
    multiples = [
        ALPHABET.index(character) - LARGEST for character in parameter["weights"]
    ]
    scales = [scale_of(character) for character in parameter["scales"]]
    rows = torch.tensor(multiples, dtype=torch.double).view(len(scales), -1)
    rows = rows * torch.tensor(scales, dtype=torch.double)[:, None]
    return rows.float().view(parameter["shape"])


def scale_of(character: str) -> float:
    """The scale that a character stands for."""
    return float(2.0 ** ((ALPHABET.index(character) + SMALLEST) / OCTAVE))


def script(task: TranslationTask, models: dict[str, EncoderDecoder]) -> str:
    """The script that declares both models, their vocabularies and their exact match."""
    written = {
        name: {key: encode(value) for key, value in model.state_dict().items()}
        for name, model in models.items()
    }
    vocabularies = (task.source.tokens, task.target.tokens)
    rounded = {name: restore(name, written[name], *vocabularies) for name in models}
    content = {
        "alphabet": ALPHABET,
        "largest": LARGEST,
        "octave": OCTAVE,
        "smallest": SMALLEST,
        "longest": LONGEST,
        "source": task.source.tokens,
        "target": task.target.tokens,
        "testNumbers": len(task.test_pairs),
        "exactMatch": {
            name: exact_match(task, model) for name, model in rounded.items()
        },
        "models": written,
    }
    return f"{COMMENT}{DECLARATION}{json.dumps(content, indent=0)};\n"


def exact_match(task: TranslationTask, model: EncoderDecoder) -> float:
    """The fraction of the test numbers that a model translates exactly."""
    (fraction,) = task.exact_match(model, [(1, numbers.LONGEST_FRENCH)])
    return round(fraction, 4)


def read(text: str) -> dict[str, Any]:
    """The content of the script."""
    return json.loads(
        text.removeprefix(COMMENT).removeprefix(DECLARATION).rstrip(";\n")
    )


def restore(
    name: str,
    parameters: dict[str, Any],
    source: Sequence[str],
    target: Sequence[str],
) -> EncoderDecoder:
    """A model with the weights of the script, for these vocabularies."""
    model = build(name, len(source), len(target))
    model.load_state_dict({key: decode(value) for key, value in parameters.items()})
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
    weights = attended.weights[: len(attended.target)].double()
    shown = {
        "title": f"{STILL:,}",
        "source": attended.source,
        "target": numbers.french_words(STILL),
        "attended": attended.target,
        "weights": [[round(weight, 2) for weight in row] for row in weights.tolist()],
        "fixed": fixed.target,
    }
    return json.dumps(shown, ensure_ascii=False) + "\n"


def main() -> None:
    """Train, and write what the page and its still picture need."""
    task = french_numbers()
    text = script(task, train(task))
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / "weights.js").write_text(text, "utf-8")
    SPEED_OF_LIGHT.write_text(still(task, models_of(read(text))), "utf-8")
    (FOLDER / "still.svg").write_text(translation.speed_of_light().svg(), "utf-8")


if __name__ == "__main__":
    main()
