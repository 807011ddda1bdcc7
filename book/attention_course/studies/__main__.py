"""Make a study: ``python -m attention_course.studies copying copying.json``."""

from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

import torch

from attention_course.studies.recording import names, record


def main() -> None:
    """Make the runs that a file lacks, on one thread."""
    parser = ArgumentParser(
        prog="python -m attention_course.studies", description=__doc__
    )
    parser.add_argument("study", choices=names(), help="which study")
    parser.add_argument("file", type=Path, help="its file, written or continued")
    chosen = parser.parse_args()
    study = import_module(f"attention_course.studies.{chosen.study}")
    torch.set_num_threads(1)
    try:
        record(chosen.file, study.TITLE, study.settings(), study.measure)
    except (ValueError, OSError, FloatingPointError) as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
