"""The options that all experiments have, and how their errors are printed."""

import json
import sys
from argparse import (
    ArgumentDefaultsHelpFormatter,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
)
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from companion._checks import needs_extra

with needs_extra("experiments"):
    from accelerate import PartialState


def positive(text: str) -> int:
    """A whole number of 1 or more."""
    if (number := int(text)) < 1:
        raise ArgumentTypeError(f"{text} is below 1")
    return number


def fraction(text: str) -> float:
    """A number p with 0 ≤ p < 1."""
    if not 0 <= (number := float(text)) < 1:
        raise ArgumentTypeError(f"{text} is not at least 0 and below 1")
    return number


def training_options(
    steps: int, batch_size: int, every: int, epoch: str
) -> ArgumentParser:
    """The options of any training, with their defaults and how many steps make an epoch."""
    shared = ArgumentParser(add_help=False)
    add = shared.add_argument
    add(
        "--output",
        type=Path,
        help="the folder for checkpoints and results; runs/MODEL if none is named",
    )
    add("--steps", type=positive, default=steps, help=f"training steps in all; {epoch}")
    add("--batch-size", type=positive, default=batch_size, help="examples in a batch")
    add(
        "--every",
        type=positive,
        default=every,
        help="steps between two evaluations",
    )
    add(
        "--average",
        type=positive,
        default=1,
        help="tests the mean of so many last evaluations if the validation set prefers it"
        " to the best one",
    )
    add("--rate", type=float, default=1e-3, help="the highest learning rate")
    add(
        "--seed",
        type=int,
        default=0,
        help="of the initialisation, the dropout and the order of the data",
    )
    return shared


def add_models(
    parser: ArgumentParser,
    shared: ArgumentParser,
    builders: Mapping[str, Callable[..., nn.Module]],
) -> dict[str, ArgumentParser]:
    """Give the parser a sub-command for each model, and return their parsers.

    Its arguments contain the function that builds the model as ``build``.
    """
    models = parser.add_subparsers(
        dest="model", metavar="MODEL", required=True, help="what to train"
    )
    added = {}
    for name, build in builders.items():
        added[name] = models.add_parser(
            name,
            parents=[shared],
            help=build.__doc__,
            description=build.__doc__,
            formatter_class=ArgumentDefaultsHelpFormatter,
        )
        added[name].set_defaults(build=build)
    return added


def start(
    parser: ArgumentParser, run: Callable[[Namespace, Sequence[str]], dict[str, Any]]
) -> None:
    """Read the arguments, run, and print the figures of the test set, or an error."""
    try:
        result = run(parser.parse_args(), sys.argv[1:])
    except (ValueError, OSError, FloatingPointError) as error:
        parser.error(str(error))
    PartialState().print(json.dumps(result["test"], indent=2))
