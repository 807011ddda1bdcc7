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
import json
import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from accelerate import PartialState
from accelerate.utils import set_seed
from torch import nn

from companion.checkpoint import replacing
from companion.data import multi30k
from companion.data.batching import Batches, in_order
from companion.data.vocabulary import SPECIAL
from companion.experiments.arguments import natural, penalty, positive, rate, share
from companion.experiments.corpus import SOURCE, TARGET, TRAINING, VALIDATION, Corpus, load_corpus
from companion.experiments.evaluation import evaluate
from companion.experiments.log import TensorBoard
from companion.experiments.record import VERSION, require_same_arguments, surroundings, write_json
from companion.experiments.translators import add_models
from companion.losses import LabelSmoothing, Record, held_out
from companion.schedule import warmup_cosine
from companion.training import Trainer

NAME = "companion.experiments.multi30k"
WITHOUT_TRAINING = ("beam", "length_penalty")  # another search needs no other folder


def make_trainer(corpus: Corpus, arguments: argparse.Namespace) -> Trainer:
    """A new model, trained by Adam, whose rate rises for the first steps and falls to 0 at the last."""
    torch.manual_seed(arguments.seed)
    model = arguments.build(len(corpus.source), len(corpus.target), arguments)
    optimizer = torch.optim.Adam(model.parameters(), lr=arguments.rate, betas=(0.9, 0.98))
    schedule = warmup_cosine(optimizer, min(arguments.warmup, arguments.steps), arguments.steps)
    trainer = Trainer(model, optimizer, LabelSmoothing(arguments.smoothing), schedule)
    set_seed(arguments.seed, device_specific=True)  # from here on every process draws its own dropout
    return trainer


def train(trainer: Trainer, corpus: Corpus, arguments: argparse.Namespace) -> list[Record]:
    """Train from the last checkpoint, if there is one, and return the history."""
    checkpoint = arguments.output / "checkpoint.pt"
    if checkpoint.exists():
        trainer.load(checkpoint)
    batches = Batches(corpus.pairs[TRAINING], arguments.batch_size, arguments.seed)
    validation = [batch for _, batch in in_order(corpus.pairs[VALIDATION], arguments.batch_size)]
    with closing(TensorBoard(arguments.output)) as log:
        return trainer.fit(
            batches,
            arguments.steps,
            lambda model: held_out(model, validation),
            arguments.every,
            checkpoint,
            log,
        )


def run(arguments: argparse.Namespace, options: Sequence[str]) -> dict[str, Any]:
    """The whole experiment, from the data to the files of results, which the main process writes.

    Raises:
        ValueError: the arguments are none of a model or not the folder's; a checkpoint or data is damaged.
        OSError: the data is not there and cannot be fetched.
        FloatingPointError: a loss or gradient is not finite, for instance because the rate is too high.
    """
    folder = arguments.output = arguments.output or Path("runs", arguments.model)
    described = {name: value for name, value in vars(arguments).items() if name not in ("output", "build")}
    corpus = load_corpus(arguments.sentences)
    trainer = make_trainer(corpus, arguments)
    processes, main_process = trainer.accelerator.num_processes, trainer.accelerator.is_main_process
    trained = {name: value for name, value in described.items() if name not in WITHOUT_TRAINING}
    require_same_arguments(folder, trained)
    if main_process:
        write_json(folder / "arguments.json", trained)
    history = train(trainer, corpus, arguments)
    search = arguments.beam, arguments.length_penalty
    figures, translations = evaluate(trainer.model, corpus, arguments.batch_size, *search)
    files = [f"{split}.{language}.gz" for split in corpus.pairs for language in (SOURCE, TARGET)]
    result = {
        "version": VERSION,
        "experiment": "multi30k",
        "model": arguments.model,
        "test": figures,
        "history": history,
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "vocabularies": {SOURCE: len(corpus.source), TARGET: len(corpus.target)},
        "arguments": described,
        "command": command(processes, options),
        "data": {name: multi30k.SHA256[name] for name in files},
    } | surroundings(processes)
    if main_process:
        write_results(folder, result, trainer.model, corpus, translations)
    return result


def command(processes: int, options: Sequence[str]) -> str:
    """What to type for such a run."""
    launcher = ["accelerate", "launch", "--multi_gpu", "--num_processes", str(processes)]
    return shlex.join([*(launcher if processes > 1 else ["python"]), "-m", NAME, *options])


def write_results(
    folder: Path, result: dict[str, Any], model: nn.Module, corpus: Corpus, translations: list[str]
) -> None:
    """Each file whole or not at all, ``result.json`` the last, so that where it is the others are."""
    with replacing(folder / "weights.safetensors") as file:
        unshared = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        file.write(safetensors.torch.save(unshared))
    words = {SOURCE: corpus.source.tokens[len(SPECIAL) :], TARGET: corpus.target.tokens[len(SPECIAL) :]}
    write_json(folder / "vocabularies.json", words)  # Vocabulary(words) is the vocabulary again
    with replacing(folder / "translations.txt") as file:
        file.write("".join(f"{translation}\n" for translation in translations).encode())
    write_json(folder / "result.json", result)


def main() -> None:
    """Read the arguments, run, and print the figures of the test split, or in a line what is wrong."""
    command_line = parser()
    try:
        result = run(command_line.parse_args(), sys.argv[1:])
    except (ValueError, OSError, FloatingPointError) as error:
        command_line.error(str(error))
    PartialState().print(json.dumps(result["test"], indent=2))


def parser() -> argparse.ArgumentParser:
    """The arguments of the command line: a model, and options; their defaults are those of the tutorials."""
    shared = argparse.ArgumentParser(add_help=False)
    add = shared.add_argument
    add("--output", type=Path, help="the folder for checkpoints and results; runs/MODEL if none is named")
    add("--steps", type=positive, default=2270, help="training steps in all; 227 of 128 pairs are an epoch")
    add("--batch-size", type=positive, default=128, help="sentences in a batch")
    add("--every", type=positive, default=227, help="steps between two looks at the validation split")
    add("--embedding", type=positive, default=256, help="features of a word")
    add("--hidden", type=positive, default=512, help="features of a recurrent state")
    add("--dropout", type=share, default=0.5, help="share of the embedded words' features set to zero")
    add("--rate", type=rate, default=1e-3, help="the highest learning rate")
    add("--warmup", type=positive, default=50, help="steps in which the rate rises")
    add("--smoothing", type=share, default=0.0, help="share of each true word spread over the vocabulary")
    add("--seed", type=natural, default=0, help="of the parameters, the dropout and the order of the data")
    add(
        "--beam",
        type=positive,
        default=5,
        help="width of the beam search, which is tried beside greedy search",
    )
    add("--length-penalty", type=penalty, default=1.0, help="GNMT's, in the beam search")
    add("--sentences", type=positive, help="take only so many sentence pairs of each split, for a trial")
    parser = argparse.ArgumentParser(
        prog=f"python -m {NAME}",
        description="Train a model on Multi30k, German to English; the same command again resumes.",
    )
    add_models(parser, shared)
    return parser


if __name__ == "__main__":
    main()
