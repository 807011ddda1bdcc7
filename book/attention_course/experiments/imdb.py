"""Sentiment classification on the Large Movie Review Dataset (IMDB).

For example::

    python -m attention_course.experiments.imdb attention

The setting is that of Su 2018: the last 100 words of each review, self-attention, ten
epochs. A tenth of the training reviews is held out; the epoch with the lowest loss on
them is tested. The models of hierarchical attention are there, too. The folder ``runs/attention``
contains the same files as that of :mod:`attention_course.experiments.multi30k`, except
translations; resumption and several processes work in the same way.
"""

import argparse
import math
from collections.abc import Sequence
from typing import Any

import torch

from attention_course.data import imdb
from attention_course.data.examples import Shuffled, batches_in_order
from attention_course.experiments.command_line import (
    add_models,
    fraction,
    positive,
    start,
    training_options,
)
from attention_course.experiments.reviewers import BUILDERS, IN_SENTENCES
from attention_course.experiments.reviews import (
    TEST,
    TRAINING,
    VALIDATION,
    Reviews,
    by_length,
    collate_sentences,
    collate_words,
    load_reviews,
)
from attention_course.experiments.run import Run
from attention_course.tasks.text_classification import evaluate
from attention_course.training.losses import label_loss
from attention_course.training.trainer import Trainer

_AT_ONCE = 256  # reviews of the test set in a batch


def make_trainer(reviews: Reviews, arguments: argparse.Namespace) -> Trainer:
    """A new model with Adam as in Keras: a constant learning rate, no clipping."""
    torch.manual_seed(arguments.seed)
    model = arguments.build(len(reviews.words), arguments)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.rate)
    return Trainer(model, optimizer, label_loss, clip=math.inf)


def run(arguments: argparse.Namespace, options: Sequence[str]) -> dict[str, Any]:
    """The whole experiment, from the data to the files of results.

    It returns the result, as :func:`~attention_course.experiments.record.read_result`
    reads it. ``options`` are the words of the command line, for the record.
    """
    # read now, because the data may be gone when training has ended
    archive = imdb.archive().name
    reviews = load_reviews(arguments.reviews, arguments.words, arguments.length)
    run = Run("imdb", make_trainer(reviews, arguments), arguments, options)
    collate = collate_sentences if arguments.model in IN_SENTENCES else collate_words
    batches = Shuffled(
        reviews.examples[TRAINING], collate, arguments.batch_size, arguments.seed
    )
    validation, test = (
        list(batches_in_order(by_length(reviews.examples[split]), collate, _AT_ONCE))
        for split in (VALIDATION, TEST)
    )
    run.train(batches, lambda model: evaluate(model, validation))
    return run.finish(
        run.trainer.evaluate(lambda model: evaluate(model, test)),
        {"words": reviews.words},
        {archive: imdb.SHA256[archive]},
    )


def parser() -> argparse.ArgumentParser:
    """The command line: a model and its options, with the defaults of the article."""
    shared = training_options(7040, 32, 704, "704 of 32 reviews are an epoch")
    add = shared.add_argument
    add(
        "--words",
        type=positive,
        default=20_000,
        help="entries of the vocabulary, four of which are special",
    )
    add(
        "--length",
        type=positive,
        default=100,
        help="words of a review that are read: the last ones",
    )
    add(
        "--size",
        type=positive,
        default=128,
        help="dimensions of a word vector, and of all heads together",
    )
    add("--heads", type=positive, default=8, help="heads of the attention")
    add(
        "--dropout",
        type=fraction,
        default=0.5,
        help="probability that a dimension of the mean is set to zero",
    )
    add(
        "--reviews",
        type=positive,
        help="take only so many reviews of each split, for a trial",
    )
    parser = argparse.ArgumentParser(
        prog="python -m attention_course.experiments.imdb",
        description="Train a classifier of film reviews; repeat the command to resume.",
    )
    add_models(parser, shared, BUILDERS)
    return parser


def main() -> None:
    """Run from the command line."""
    start(parser(), run)


if __name__ == "__main__":
    main()
