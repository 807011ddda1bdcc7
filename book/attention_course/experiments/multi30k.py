"""German-to-English translation on Multi30k, as in the best-known tutorials.

For example::

    python -m attention_course.experiments.multi30k bahdanau

The folder ``runs/bahdanau`` then contains ``arguments.json``, the last checkpoint,
curves for TensorBoard, and in the end ``vocabularies.json``, ``weights.safetensors``,
the translations of the test set in ``translations.txt``, and ``result.json``. The same
command again resumes from the last checkpoint, and ends with exactly the same numbers.
So does a training with n processes on the GPUs of a machine, or on its CPU if there is
none (``--cpu`` would start only one process)::

    accelerate launch --multi_gpu --num_processes n -m attention_course.experiments.multi30k bahdanau
"""

import argparse
from collections.abc import Sequence
from typing import Any

import torch

from attention_course.data import multi30k
from attention_course.data.batching import Batches, in_order
from attention_course.experiments.command_line import (
    fraction,
    positive,
    start,
    training_options,
)
from attention_course.experiments.corpus import (
    SOURCE,
    TARGET,
    TRAINING,
    VALIDATION,
    Corpus,
    load_corpus,
)
from attention_course.experiments.evaluation import evaluate
from attention_course.experiments.run import Run
from attention_course.experiments.translators import add_translators
from attention_course.training.losses import LabelSmoothing, loss_and_perplexity
from attention_course.training.schedules import warmup_cosine
from attention_course.training.trainer import Trainer

_WITHOUT_TRAINING = ("beam", "length_penalty")  # another search needs no new training


def make_trainer(corpus: Corpus, arguments: argparse.Namespace) -> Trainer:
    """A new model with Adam, a linear warm-up and a cosine decay to 0."""
    torch.manual_seed(arguments.seed)
    model = arguments.build(len(corpus.source), len(corpus.target), arguments)
    optimizer = torch.optim.Adam(
        model.parameters(), lr=arguments.rate, betas=(0.9, 0.98)
    )
    schedule = warmup_cosine(
        optimizer, min(arguments.warmup, arguments.steps), arguments.steps
    )
    return Trainer(model, optimizer, LabelSmoothing(arguments.smoothing), schedule)


def run(arguments: argparse.Namespace, options: Sequence[str]) -> dict[str, Any]:
    """The whole experiment, from the data to the files of results.

    It returns the result, as :func:`~attention_course.experiments.record.read_result`
    reads it. ``options`` are the words of the command line, for the record.
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
    run.train(batches, lambda model: loss_and_perplexity(model, validation))
    search = arguments.beam, arguments.length_penalty
    figures, translations, sentences = evaluate(
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
        sentences,
    )


def parser() -> argparse.ArgumentParser:
    """The command line: a model and its options, with the defaults of the tutorials."""
    shared = training_options(2270, 128, 227, "227 of 128 pairs are an epoch")
    add = shared.add_argument
    add("--embedding", type=positive, default=256, help="dimensions of a word vector")
    add("--hidden", type=positive, default=512, help="dimensions of a state or layer")
    add("--dropout", type=fraction, default=0.5, help="probability of dropout")
    add("--warmup", type=positive, default=50, help="steps in which the rate rises")
    add(
        "--smoothing",
        type=fraction,
        default=0.0,
        help="weight of the uniform distribution in label smoothing",
    )
    add(
        "--beam",
        type=positive,
        default=5,
        help="width of the beam search; greedy search is evaluated, too",
    )
    add(
        "--length-penalty",
        type=float,
        default=1.0,
        help="that of GNMT in the beam search",
    )
    add(
        "--sentences",
        type=positive,
        help="take only so many sentence pairs of each split, for a trial",
    )
    parser = argparse.ArgumentParser(
        prog="python -m attention_course.experiments.multi30k",
        description="Train a translation model; repeat the command to resume.",
    )
    add_translators(parser, shared)
    return parser


def main() -> None:
    """Run from the command line."""
    start(parser(), run)


if __name__ == "__main__":
    main()
