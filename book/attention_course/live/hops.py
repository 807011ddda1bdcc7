"""Command: train the ConvS2S that answers questions in two steps, and write its weights for the page.

    python -m attention_course.live.hops

It takes ten seconds. The model is that of the chapter and of the study ``hops``, trained for longer. The
weights are written to ``book/_static/hops/weights.js``, and how many questions it answers there and to
``hops.json`` beside this file.
"""

import json
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attention_course.live import weights
from attention_course.studies import hops as study
from companion.layers.gated_convolution import WeightNormLinear
from companion.models.seq2seq import EncoderDecoder

SCRIPT = Path(__file__).resolve().parents[2] / "_static" / "hops" / "weights.js"
RECORD = Path(__file__).with_name("hops.json")
STEPS = 1000  # of training
COMMENT = "The weights of a small ConvS2S, written by attention_course.live.hops; tensors.js reads them."
#: With which the page begins, and what it asks for.
FACTS = (
    *(("box", "house"), ("key", "drawer"), ("ring", "box")),
    *(("bag", "car"), ("drawer", "attic"), ("pen", "bag")),
)
ASKED, ANSWER = "pen", "car"


def questions(
    *stories: tuple[Sequence[Sequence[str]], str, str],
) -> study.Questions:
    """Questions in tokens, each from its facts, what is asked for and the answer."""
    tokens = {thing: study.FIRST + i for i, thing in enumerate(study.THINGS)}
    return study.Questions(
        torch.tensor(
            [[tokens[x] for pair in facts for x in pair] for facts, *_ in stories]
        ),
        torch.tensor([[tokens[asked]] for _, asked, _ in stories]),
        torch.tensor([tokens[answer] for *_, answer in stories]),
    )


def opening() -> study.Questions:
    """The question with which the page begins."""
    return questions((FACTS, ASKED, ANSWER))


def lengthened(batch: study.Questions) -> study.Questions:
    """The same questions after one change, by which the chain that is asked for has three facts.

    Its second fact leads on to another chain. The answer is what two facts lead to.
    """
    stories = []
    for pairs, asked in zip(
        batch.facts.unflatten(1, (-1, 2)).tolist(), batch.asked, strict=True
    ):
        facts = dict(pairs)
        middle = facts[int(asked)]
        joins = next(a for a, b in pairs if b not in facts and a != middle)
        facts[middle] = joins
        stories.append(
            ([x for pair in facts.items() for x in pair], [int(asked)], joins)
        )
    return study.Questions(*map(torch.tensor, zip(*stories, strict=True)))


def without_first_context(model: EncoderDecoder) -> EncoderDecoder:
    """A copy whose second layer does not receive what the first has found."""
    cut = deepcopy(model)
    layer: Any = cut.get_submodule("decoder.layers.0.W_c")
    with torch.no_grad():
        layer.g.zero_()
    return cut


def matrices(model: EncoderDecoder) -> dict[str, Tensor]:
    """What the page computes with: normalised matrices, biases, and the embeddings that it needs."""
    rows = {
        "encoder.position.embedding": 2 * len(FACTS),
        "decoder.position.embedding": 1,
    }
    found = dict[str, Tensor]()
    for name, module in model.named_modules():
        if isinstance(module, WeightNormLinear):
            found |= {f"{name}.weight": module.weight, f"{name}.bias": module.bias}
        elif isinstance(module, nn.Embedding):
            found[f"{name}.weight"] = module.weight[: rows.get(name)]
    return found


@torch.no_grad()
def restore(written: dict[str, Any]) -> EncoderDecoder:
    """The model with the weights of the script."""
    model = study.answering_model()
    parameters = dict(model.named_parameters())
    for name, encoded in written.items():
        decoded = weights.decode(encoded)
        if name in parameters:
            parameters[name][: len(decoded)] = decoded
        else:
            layer = name.removesuffix(".weight")
            parameters[f"{layer}.v"].copy_(decoded)
            parameters[f"{layer}.g"].copy_(decoded.norm(dim=1, keepdim=True))
    return model.eval()


def record(model: EncoderDecoder) -> dict[str, Any]:
    """The fractions of right answers: to the test questions, without the first context, to longer chains."""
    test = study.questions(1000, hops=2, seed=2)
    right = {
        "right": study.accuracy(model, test),
        "rightWithoutFirstContext": study.accuracy(without_first_context(model), test),
        "secondOfThree": study.accuracy(model, lengthened(test)),
    }
    return {name: round(x, 3) for name, x in right.items()} | {
        "questions": len(test.answer)
    }


def recorded() -> dict[str, Any]:
    """What the command has written."""
    return json.loads(RECORD.read_text("utf-8"))


def main() -> None:
    """Train, and write what the page and the chapter need."""
    torch.set_num_threads(1)  # or the weights depend on the machine
    model = study.answering_model()
    study.train_to_answer(model, steps=STEPS)
    written = {name: weights.encode(x) for name, x in matrices(model).items()}
    content = {
        "steps": STEPS,
        "things": study.THINGS,
        "first": study.FIRST,
        "facts": FACTS,
        "asked": ASKED,
        "record": record(restore(written)),
        "model": written,
    }
    SCRIPT.write_text(weights.script(COMMENT, "HOPS_MODEL", content), "utf-8")
    RECORD.write_text(json.dumps(content["record"]) + "\n", "utf-8")


if __name__ == "__main__":
    main()
