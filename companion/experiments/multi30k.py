"""German to English on Multi30k, in the setting of the best-known tutorials, to the result as one JSON file.

For instance::

    python -m companion.experiments.multi30k bahdanau

The folder ``runs/bahdanau`` gets ``arguments.json``, checkpoints, curves for TensorBoard, and in the end
``vocabularies.json``, ``weights.safetensors``, the test split's ``translations.txt``, and ``result.json``.
The same command again goes on from the last checkpoint, to the very same numbers. So does, with n processes
on a machine's GPUs, or on its CPU where there is none (``--cpu`` would start only one)::

    accelerate launch --multi_gpu --num_processes n -m companion.experiments.multi30k bahdanau
"""

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from accelerate.utils import set_seed

from companion.data import multi30k
from companion.data.batching import Batches, in_order
from companion.experiments.arguments import penalty, positive, share
from companion.experiments.command_line import start, training_options
from companion.experiments.corpus import (
    SOURCE,
    TARGET,
    TRAINING,
    VALIDATION,
    Corpus,
    load_corpus,
)
from companion.experiments.evaluation import evaluate
from companion.experiments.run import Run
from companion.experiments.translators import add_translators
from companion.training.losses import LabelSmoothing, held_out
from companion.training.schedules import warmup_cosine
from companion.training.trainer import Trainer

_WITHOUT_TRAINING = ("beam", "length_penalty")  # another search needs no other folder


def make_trainer(corpus: Corpus, arguments: argparse.Namespace) -> Trainer:
    """A new model, trained by Adam, whose rate rises for the first steps and falls to 0 at the last."""
    torch.manual_seed(arguments.seed)
    model = arguments.build(len(corpus.source), len(corpus.target), arguments)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=arguments.rate, betas=(0.9, 0.98)
    )
    schedule = warmup_cosine(
        optimizer, min(arguments.warmup, arguments.steps), arguments.steps
    )
    trainer = Trainer(model, optimizer, LabelSmoothing(arguments.smoothing), schedule)
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
    corpus = load_corpus(arguments.sentences)
    run = Run(
        "multi30k",
        make_trainer(corpus, arguments),
        arguments,
        options,
        _WITHOUT_TRAINING,
    )
    batches = Batches(corpus.pairs[TRAINING], arguments.batch_size, arguments.seed)
    validation = [
        batch for _, batch in in_order(corpus.pairs[VALIDATION], arguments.batch_size)
    ]
    run.train(batches, lambda model: held_out(model, validation))
    search = arguments.beam, arguments.length_penalty
    figures, translations = evaluate(
        run.trainer.model, corpus, arguments.batch_size, *search
    )
    files = [
        f"{split}.{language}.gz"
        for split in corpus.pairs
        for language in (SOURCE, TARGET)
    ]
    return run.finish(
        figures,
        {SOURCE: corpus.source, TARGET: corpus.target},
        {name: multi30k.SHA256[name] for name in files},
        {"translations.txt": translations},
    )


def parser() -> argparse.ArgumentParser:
    """The arguments of the command line: a model, and options; their defaults are those of the tutorials."""
    shared = training_options(2270, 128, 227, "227 of 128 pairs are an epoch")
    add = shared.add_argument
    add("--embedding", type=positive, default=256, help="features of a word")
    add("--hidden", type=positive, default=512, help="features of a state or layer")
    add("--dropout", type=share, default=0.5, help="share of the features set to zero")
    add("--warmup", type=positive, default=50, help="steps in which the rate rises")
    add(
        "--smoothing",
        type=share,
        default=0.0,
        help="share of each true word spread over the vocabulary",
    )
    add(
        "--beam",
        type=positive,
        default=5,
        help="width of the beam search, which is tried beside greedy search",
    )
    add(
        "--length-penalty", type=penalty, default=1.0, help="GNMT's, in the beam search"
    )
    add(
        "--sentences",
        type=positive,
        help="take only so many sentence pairs of each split, for a trial",
    )
    parser = argparse.ArgumentParser(
        prog="python -m companion.experiments.multi30k",
        description="Train a model on Multi30k, German to English; the same command again resumes.",
    )
    add_translators(parser, shared)
    return parser


def main() -> None:
    """Run from the command line."""
    start(parser(), run)


if __name__ == "__main__":
    main()
