"""Command: train the classifiers whose words a reader can shuffle, and write their weights for the page.

    python -m attention_course.live.shuffle

It takes a few seconds. The models are those of section 6 of chapter 8: encoders that differ only in the
scores of their self-attention. The weights are written to ``book/_static/shuffle/weights.js``, with the
fraction of test sources that each gets right, and the fraction whose answer is the same in every order.
"""

from itertools import permutations
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attention_course.data.comparisons import TRANSLATIONS
from attention_course.live import weights
from attention_course.studies import synthesizer as study
from attention_course.tasks.text_classification import Classification, Example
from companion.models.text_classifier import Classifier

SCRIPT = Path(__file__).resolve().parents[2] / "_static" / "shuffle" / "weights.js"
STEPS, RATE = 250, 0.005  # of training, as in the chapter
#: Of the multiples of a scale: with 15 values the accuracy is that of the chapter.
LARGEST = 7
COMMENT = "The weights of three classifiers, written by attention_course.live.shuffle; tensors.js reads them."
#: The kinds of self-attention, in the order of the page: the projections that their scores do not read.
KINDS: dict[str, tuple[str, ...]] = {
    "dot product": (),
    "dense": ("W_K",),
    "random": ("W_Q", "W_K"),
}


def encode(kind: str, model: Classifier) -> dict[str, Any]:
    """The parameters that matter, as characters."""
    return {
        name: weights.encode(parameter, LARGEST)
        for name, parameter in model.named_parameters()
        if not any(f".{unread}." in name for unread in KINDS[kind])
    }


def restore(task: Classification, kind: str, written: dict[str, Any]) -> Classifier:
    """The model with the weights of the script."""
    model = study.classifier(task, study.attention_of(kind))
    parameters = {name: weights.decode(x, LARGEST) for name, x in written.items()}
    model.load_state_dict(parameters, strict=False)  # without the projections
    return model.eval()


@torch.no_grad()
def in_all_orders(
    task: Classification, model: Classifier, examples: list[Example]
) -> Tensor:
    """The most probable class in each order of the words, ``(examples, 24)``, the given order first."""
    (tokens,) = task.inputs(examples)
    orders = torch.tensor([*permutations(range(tokens.shape[1]))])
    return torch.stack([model(tokens[:, order]).argmax(-1) for order in orders], 1)


def measure(
    task: Classification, model: Classifier, test: list[Example]
) -> dict[str, float]:
    """The accuracy, and the fraction of sources with the same answer in every order."""
    found, truth = in_all_orders(task, model, test), task.collate(test).labels
    of_each = {
        "accuracy": found[:, 0] == truth,
        "same": (found == found[:, :1]).all(1),
    }
    return {name: round(x.double().mean().item(), 4) for name, x in of_each.items()}


def train(task: Classification, kind: str) -> Classifier:
    """A classifier of the chapter."""
    torch.manual_seed(0)
    model = study.classifier(task, study.attention_of(kind))
    task.train(model, STEPS, RATE)
    return model


def main() -> None:
    """Train, and write what the page needs."""
    torch.set_num_threads(1)  # or the weights depend on the machine
    task, test = study.shared()
    written = {kind: encode(kind, train(task, kind)) for kind in KINDS}
    content = {
        "largest": LARGEST,
        "words": task.words.tokens,
        "labels": task.labels,
        "translations": TRANSLATIONS,
        "heads": study.HEADS,
        "sources": len(test),
        "measured": {
            kind: measure(task, restore(task, kind, x), test)
            for kind, x in written.items()
        },
        "models": written,
    }
    SCRIPT.write_text(weights.script(COMMENT, "SHUFFLE_MODEL", content), "utf-8")


if __name__ == "__main__":
    main()
