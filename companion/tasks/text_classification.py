"""A small classification task, as the chapters use it: vocabulary, labels, batches, a recipe, and a score."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from accelerate.utils import send_to_device
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from companion.data.examples import Labelled, Shuffled, batches_in_order
from companion.data.vocabulary import Vocabulary, pad, pad_documents
from companion.training import recipe
from companion.training.losses import Record, evaluating, label_loss, to_float32

_AT_ONCE = 256


class Example(NamedTuple):
    """A text, the two texts of a pair, or the sentences of a document, each a row of words; and its class."""

    texts: tuple[Sequence[str], ...]
    label: str


def predict_logits(model: Any, batches: Iterable[Labelled]) -> Float[Tensor, "n c"]:
    """The logits of each class, for every example of the batches.

    Raises:
        ValueError: there is no batch.
    """
    device, found = next(model.parameters()).device, []
    with evaluating(model):
        for batch in batches:
            found.append(to_float32(model(*send_to_device(batch.inputs, device))).cpu())
    if not found:
        raise ValueError("there is no batch to predict the classes of")
    return torch.cat(found)


def predict(model: Any, batches: Iterable[Labelled]) -> Float[Tensor, "n c"]:
    """The probability of each class, for every example of the batches.

    Raises:
        ValueError: there is no batch.
    """
    return predict_logits(model, batches).softmax(-1)


def evaluate(model: Any, batches: Sequence[Labelled]) -> Record:
    """The mean loss of the examples, and the share whose most probable class is the right one.

    Raises:
        ValueError: there is no batch.
    """
    logits, labels = (
        predict_logits(model, batches),
        torch.cat([batch.labels for batch in batches]).cpu(),
    )
    right = (logits.argmax(-1) == labels).float().mean()
    return {
        "held_out_loss": cross_entropy(logits, labels).item(),
        "accuracy": right.item(),
    }


def accuracy(model: Any, batches: Sequence[Labelled]) -> float:
    """The share of examples whose most probable class is the right one.

    Raises:
        ValueError: there is no batch.
    """
    return evaluate(model, batches)["accuracy"]


class Classification:
    """Texts of known class to train on, and others to test with. It knows no model.

    A model is called with as many tensors of tokens as an example has texts, and answers with logits. Words
    that are rarer than ``minimum_frequency`` in the training texts are ``<unk>``.
    """

    def __init__(
        self,
        train: Sequence[Example],
        test: Sequence[Example],
        minimum_frequency: int = 1,
    ):
        texts = (text for example in train for text in example.texts)
        self.words = Vocabulary.of(texts, minimum_frequency)  #: the vocabulary
        #: the classes, in the order of their numbers
        self.labels = tuple(sorted({example.label for example in train}))
        self.training_examples, self.test_examples = train, test

    def inputs(self, examples: Sequence[Example]) -> tuple[Int[Tensor, "b _"], ...]:
        """What the model is called with: the tokens of the first texts, and of the second if there are."""
        sides = zip(*(example.texts for example in examples), strict=True)
        return tuple(pad([self.words.encode(text) for text in side]) for side in sides)

    def collate(self, examples: Sequence[Example]) -> Labelled:
        """A batch of these examples.

        Raises:
            ValueError: an example has a class that no training example has.
        """
        strangers = {example.label for example in examples} - set(self.labels)
        if strangers:
            raise ValueError(
                f"the classes {sorted(strangers)} are not among {self.labels}"
            )
        numbers = [self.labels.index(example.label) for example in examples]
        return Labelled(self.inputs(examples), torch.tensor(numbers))

    def test(self) -> list[Labelled]:
        """The held-out examples in batches, in their order."""
        return list(batches_in_order(self.test_examples, self.collate, _AT_ONCE))

    def train(
        self, model: Any, steps: int, learning_rate: float = 1e-2, seed: int = 0
    ) -> list[Record]:
        """Follow the book's recipe, with batches of 32 in the order that the seed gives.

        The history has the held-out accuracy every 50 steps.

        Raises:
            ValueError, FloatingPointError: as :func:`companion.training.recipe.train`.
        """
        batches = Shuffled(
            self.training_examples, self.collate, batch_size=32, seed=seed
        )
        test = self.test()
        return recipe.train(
            model,
            label_loss,
            batches,
            steps,
            learning_rate,
            lambda model: {"accuracy": accuracy(model, test)},
        )

    def accuracy(self, model: Any) -> float:
        """The share of held-out examples that the model classifies rightly."""
        return accuracy(model, self.test())


class DocumentClassification(Classification):
    """The same for models that read a document in sentences, which are the texts of an example."""

    def inputs(self, examples: Sequence[Example]) -> tuple[Int[Tensor, "b s n"]]:
        """What the model is called with: documents of sentences of tokens."""
        return (
            pad_documents(
                [[self.words.encode(text) for text in e.texts] for e in examples]
            ),
        )
