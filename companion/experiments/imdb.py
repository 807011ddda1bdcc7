"""Is a review positive? The Large Movie Review Dataset, in the setting of an article, to one JSON file.

For instance::

    python -m companion.experiments.imdb attention

The setting is that of Su 2018: the last 100 words of each review, self-attention, ten epochs, and after each
of them the accuracy on the test split, by which nothing is chosen. Beside self-attention there are the models
of hierarchical attention. The folder ``runs/attention`` gets what :mod:`companion.experiments.multi30k`
leaves in its own, translations aside; resuming and several processes work in the same way.
"""

import argparse
import math
from collections.abc import Sequence
from typing import Any

import torch
from accelerate.utils import set_seed

from companion.data import imdb
from companion.data.examples import Shuffled, batches_in_order
from companion.experiments.arguments import positive, share
from companion.experiments.command_line import add_models, start, training_options
from companion.experiments.reviewers import BUILDERS, IN_SENTENCES
from companion.experiments.reviews import (
    TEST,
    TRAINING,
    Reviews,
    collate_sentences,
    collate_words,
    load_reviews,
)
from companion.experiments.run import Run
from companion.tasks.text_classification import evaluate
from companion.training.losses import label_loss
from companion.training.trainer import Trainer

_AT_ONCE = 256  # reviews to test


def make_trainer(reviews: Reviews, arguments: argparse.Namespace) -> Trainer:
    """A new model, trained by Adam as Keras has it: at a constant rate, with the gradient as it is."""
    torch.manual_seed(arguments.seed)
    model = arguments.build(len(reviews.words), arguments)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.rate)
    trainer = Trainer(model, optimizer, label_loss, clip=math.inf)
    set_seed(
        arguments.seed, device_specific=True
    )  # from here on every process draws its own dropout
    return trainer


def run(arguments: argparse.Namespace, options: Sequence[str]) -> dict[str, Any]:
    """The whole experiment, from the data to the files of results, which the main process writes.

    Raises:
        ValueError: the arguments are none of a model or not the folder's; a checkpoint or data is damaged.
        OSError: the data is not there and cannot be fetched.
        FloatingPointError: a loss or gradient is not finite, for instance because the rate is too high.
    """
    archive = (
        imdb.archive().name
    )  # now, for the data may be gone when training has ended
    reviews = load_reviews(arguments.reviews, arguments.words, arguments.length)
    run = Run("imdb", make_trainer(reviews, arguments), arguments, options)
    collate = collate_sentences if arguments.model in IN_SENTENCES else collate_words
    batches = Shuffled(
        reviews.examples[TRAINING], collate, arguments.batch_size, arguments.seed
    )
    by_length = sorted(reviews.examples[TEST], key=lambda example: len(example.words))
    test = list(batches_in_order(by_length, collate, _AT_ONCE))
    last = run.train(batches, lambda model: evaluate(model, test))[-1]
    figures = {name: last[name] for name in ("held_out_loss", "accuracy")}
    return run.finish(
        figures, {"words": reviews.words}, {archive: imdb.SHA256[archive]}
    )


def parser() -> argparse.ArgumentParser:
    """The arguments of the command line: a model, and options; their defaults are those of the article."""
    shared = training_options(7820, 32, 782, "782 of 32 reviews are an epoch")
    add = shared.add_argument
    add(
        "--words",
        type=positive,
        default=20_000,
        help="entries of the vocabulary, four of them special",
    )
    add(
        "--length",
        type=positive,
        default=100,
        help="words of a review that are read, its last ones",
    )
    add(
        "--size",
        type=positive,
        default=128,
        help="features of a word, and of all heads together",
    )
    add("--heads", type=positive, default=8, help="heads of the attention")
    add(
        "--dropout",
        type=share,
        default=0.5,
        help="share of the mean's features set to zero",
    )
    add(
        "--reviews",
        type=positive,
        help="take only so many reviews of each split, for a trial",
    )
    parser = argparse.ArgumentParser(
        prog="python -m companion.experiments.imdb",
        description="Train a classifier of film reviews; the same command again resumes.",
    )
    add_models(parser, shared, BUILDERS)
    return parser


def main() -> None:
    """Run from the command line."""
    start(parser(), run)


if __name__ == "__main__":
    main()
