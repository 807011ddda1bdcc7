"""Command: train the Transformer whose heads a reader can switch off, and write its weights for the page.

    python -m attention_course.live.heads

It takes a minute. The model is that of the chapter and of the study ``heads``. The weights
are written to ``book/_static/heads/weights.js``, with the exact match of the whole model and
of the model without each head, and what the still picture shows to ``heads.json`` beside this file.
"""

import json
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from attention_course.data import numbers
from attention_course.data.vocabulary import BOS, pad
from attention_course.live import weights
from attention_course.studies import heads as study
from attention_course.tasks.number_translation import short_numbers
from attention_course.tasks.translation import Translation, TranslationTask
from companion.attention.multihead import MultiHeadAttention
from companion.attention.recording import record_weights
from companion.models.transformer import Transformer

SCRIPT = Path(__file__).resolve().parents[2] / "_static" / "heads" / "weights.js"
STILL = Path(__file__).with_name("heads.json")
NUMBER = 97_000_080  # the number in the still picture
STEPS, RATE = 450, 0.005  # of training, as in the chapter
LONGEST = 30  # a model that has not stopped by then is stopped
COMMENT = "The weights of a small Transformer, written by attention_course.live.heads; tensors.js reads them."
#: The heads' layers, in the order of the page: where the model has them.
KINDS = {
    "encoder": "encoder.layers.{}.attention",
    "decoder": "decoder.layers.{}.attention",
    "cross": "decoder.layers.{}.source_attention",
}

#: A head: its kind, layer and number.
Head = tuple[str, int, int]


def every_head(model: Transformer) -> list[Head]:
    """All heads, kind by kind."""
    return [
        (kind, layer, head)
        for kind in KINDS
        for layer in range(len(model.encoder.layers))
        for head in range(attention_of(model, kind, layer).heads)
    ]


def attention_of(model: Transformer, kind: str, layer: int) -> MultiHeadAttention:
    """The attention of a kind in a layer."""
    found: Any = model.get_submodule(KINDS[kind].format(layer))
    return found


def translate(
    task: TranslationTask,
    model: Transformer,
    chosen: Iterable[int],
    off: Iterable[Head] = (),
) -> list[Translation]:
    """The translations of numbers while some heads are off."""
    words = [numbers.english_words(number) for number in chosen]
    with ExitStack() as stack:
        for kind, layer, head in off:
            stack.enter_context(study.without(attention_of(model, kind, layer), head))
        return task.translate(model, words, LONGEST)


def exact_match(
    task: TranslationTask, model: Transformer, off: Iterable[Head] = ()
) -> float:
    """The fraction of the test numbers that are translated exactly while some heads are off."""
    found = translate(task, model, [pair.number for pair in task.test_pairs], off)
    right = [
        one.target == pair.target
        for one, pair in zip(found, task.test_pairs, strict=True)
    ]
    return round(sum(right) / len(right), 4)


def script(task: TranslationTask, model: Transformer) -> str:
    """The script that declares the model, its vocabularies, and what is left without each head."""
    written = {name: weights.encode(x) for name, x in model.named_parameters()}
    rounded = restore(task, written)
    content = {
        "longest": LONGEST,
        "heads": attention_of(model, "cross", 0).heads,
        "source": task.source.tokens,
        "target": task.target.tokens,
        "testNumbers": len(task.test_pairs),
        "exactMatch": exact_match(task, rounded),
        "without": [
            [*head, exact_match(task, rounded, [head])] for head in every_head(model)
        ],
        "model": written,
    }
    return weights.script(COMMENT, "HEADS_MODEL", content)


def restore(task: TranslationTask, written: dict[str, Any]) -> Transformer:
    """The model with the weights of the script."""
    model = study.build(task, 0)
    parameters = {name: weights.decode(x) for name, x in written.items()}
    model.load_state_dict(parameters, strict=False)  # the output shares its matrix
    return model.eval()


@torch.no_grad()
def maps(
    task: TranslationTask, model: Transformer, translation: Translation
) -> dict[str, torch.Tensor]:
    """The weights of all heads, ``(layers, heads, queries, keys)``, for each kind."""
    source = pad([task.source.encode(translation.source)])
    written = pad([[BOS, *task.target.encode(translation.target)]])
    with record_weights(model) as recorded:
        model(source, written)
    layers = range(len(model.encoder.layers))
    return {
        kind: torch.stack(
            [recorded[f"{name.format(i)}.attention"][0][0] for i in layers]
        )
        for kind, name in KINDS.items()
    }


def still(task: TranslationTask, content: dict[str, Any]) -> str:
    """What the still picture shows: a number, the weights of cross-attention, and what each head is worth."""
    model = restore(task, content["model"])
    (found,) = translate(task, model, [NUMBER])
    cross = maps(task, model, found)["cross"].double()
    shown = {
        "source": found.source,
        "target": found.target,
        "weights": [
            [[[round(x, 2) for x in row] for row in head] for head in layer]
            for layer in cross.tolist()
        ],
        "exactMatch": content["exactMatch"],
        "without": content["without"],
    }
    return json.dumps(shown, ensure_ascii=False) + "\n"


def recorded() -> dict[str, Any]:
    """What :func:`still` has written."""
    return json.loads(STILL.read_text("utf-8"))


def main() -> None:
    """Train, and write what the page and its still picture need."""
    torch.set_num_threads(1)  # or the weights depend on the machine
    task = short_numbers()
    model = study.build(task, 0)
    task.train(model, STEPS, RATE)
    text = script(task, model)
    SCRIPT.write_text(text, "utf-8")
    STILL.write_text(still(task, weights.read(text)), "utf-8")


if __name__ == "__main__":
    main()
