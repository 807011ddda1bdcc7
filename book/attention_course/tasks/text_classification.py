"""Text classification as a task: vocabulary, batches, a training recipe, accuracy."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from attention_course.data.examples import Labelled, Shuffled, batches_in_order
from attention_course.data.vocabulary import Vocabulary, pad, pad_documents
from attention_course.training import recipe
from attention_course.training.losses import Record, evaluating, label_loss, to_device
from companion.losses.tokens import to_float32

_AT_ONCE = 256  # examples that are classified together


class Example(NamedTuple):
    """A text, a pair of texts or the sentences of a document, as words; its class."""

    texts: tuple[Sequence[str], ...]
    label: str


def predict_logits(model: Any, batches: Iterable[Labelled]) -> Float[Tensor, "n c"]:
    """The logits of the classes for every example of the batches.

    Args:
        model: returns logits, as :class:`~companion.models.text_classifier.Classifier`
            does.
    """
    device, logits = next(model.parameters()).device, []
    with evaluating(model):
        for batch in batches:
            inputs = to_device(batch.inputs, device)
            logits.append(to_float32(model(*inputs)).cpu())
    return torch.cat(logits)


def predict(model: Any, batches: Iterable[Labelled]) -> Float[Tensor, "n c"]:
    """The probabilities of the classes for every example of the batches.

    Args:
        model: returns logits, as :class:`~companion.models.text_classifier.Classifier`
            does.
    """
    return predict_logits(model, batches).softmax(-1)


def evaluate(model: Any, batches: Sequence[Labelled]) -> Record:
    """The mean cross-entropy of the examples, and their accuracy.

    Args:
        model: returns logits, as :class:`~companion.models.text_classifier.Classifier`
            does.
    """
    logits = predict_logits(model, batches)
    labels = torch.cat([batch.labels for batch in batches]).cpu()
    correct = logits.argmax(-1) == labels
    return {
        "held_out_loss": cross_entropy(logits, labels).item(),
        "accuracy": correct.float().mean().item(),
    }


def accuracy(model: Any, batches: Sequence[Labelled]) -> float:
    """The fraction of examples whose most probable class is the correct one.

    Args:
        model: returns logits, as :class:`~companion.models.text_classifier.Classifier`
            does.
    """
    return evaluate(model, batches)["accuracy"]


class Classification:
    """Texts of known class to train and test on, and the accuracy of models on them.

    It depends on no model. A model is called with as many tensors of tokens as an
    example has texts, and returns logits, as
    :class:`~companion.models.text_classifier.Classifier` does.

    Args:
        test: the examples to measure the accuracy on.
        minimum_frequency: words that are rarer in the training texts are ``<unk>``.

    Example:
        >>> task = Classification([Example((["good", "film"],), "yes")], [])
        >>> task.labels, task.words.tokens[4:]
        (('yes',), ('film', 'good'))
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
        """The model's inputs: tokens of the first texts, and of the second if any."""
        sides = zip(*(example.texts for example in examples), strict=True)
        return tuple(pad([self.words.encode(text) for text in side]) for side in sides)

    def collate(self, examples: Sequence[Example]) -> Labelled:
        """A batch of these examples."""
        unknown = {example.label for example in examples} - set(self.labels)
        if unknown:
            raise ValueError(
                f"the classes {sorted(unknown)} are not among {self.labels}"
            )
        numbers = [self.labels.index(example.label) for example in examples]
        return Labelled(self.inputs(examples), torch.tensor(numbers))

    def test(self) -> list[Labelled]:
        """The test examples in batches, in their order."""
        return list(batches_in_order(self.test_examples, self.collate, _AT_ONCE))

    def train(
        self, model: Any, steps: int, learning_rate: float = 1e-2, seed: int = 0
    ) -> list[Record]:
        """Train by the book's recipe, with batches of 32 in the seed's order.

        Returns:
            A record every 50 steps, with the accuracy on the test set.
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
        """The fraction of test examples that the model classifies correctly."""
        return accuracy(model, self.test())


class DocumentClassification(Classification):
    """The same for models of documents, whose sentences are the texts of an example.

    Args:
        train, test, minimum_frequency: as :class:`Classification`.
    """

    def inputs(self, examples: Sequence[Example]) -> tuple[Int[Tensor, "b s n"]]:
        """The model's input: documents of sentences of tokens."""
        encode = self.words.encode
        documents = [[encode(text) for text in example.texts] for example in examples]
        return (pad_documents(documents),)
