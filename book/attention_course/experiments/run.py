"""One run of an experiment: its folder, a training that can resume, and its result."""

import shlex
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from torch import nn

from attention_course.data.vocabulary import SPECIAL, Vocabulary
from attention_course.experiments.clock import Clock
from attention_course.experiments.log import TensorBoard
from attention_course.experiments.record import (
    VERSION,
    require_same_arguments,
    surroundings,
    write_json,
)
from attention_course.experiments.snapshots import Snapshots, pack
from attention_course.training.checkpoint import remove_partial, replacing
from attention_course.training.losses import Record
from attention_course.training.trainer import Steps, Trainer
from companion._checks import needs_extra

with needs_extra("experiments"):
    from accelerate.utils import set_seed


class Run:
    """A run of ``python -m attention_course.experiments.EXPERIMENT`` in a folder of its own.

    The folder and the checkpoints belong to the arguments of the run. Only the main
    process writes. What earlier processes left, if they were killed while they wrote,
    is removed.

    Args:
        experiment: the name of the module.
        trainer: of the model; gets the arguments as further settings.
        arguments: as read by :mod:`attention_course.experiments.command_line`.
        options: the words that they were read from.
        without_training: the arguments that have no effect on the training, and may
            differ from one run in the folder to the next.
    """

    def __init__(
        self,
        experiment: str,
        trainer: Trainer,
        arguments: Namespace,
        options: Sequence[str],
        without_training: Sequence[str] = (),
    ):
        self.experiment, self.trainer, self.options = experiment, trainer, options
        #: where all files are written
        self.folder = arguments.output or Path("runs", arguments.model)
        self.arguments = {
            name: value
            for name, value in vars(arguments).items()
            if name not in ("output", "build")
        }
        trained = {
            name: value
            for name, value in self.arguments.items()
            if name not in without_training
        }
        require_same_arguments(self.folder, trained)
        trainer.settings |= {
            f"argument {name}": str(value) for name, value in trained.items()
        }
        if trainer.accelerator.is_main_process:
            remove_partial(self.folder)
            write_json(self.folder / "arguments.json", trained)
        # from here on each process samples its own dropout
        set_seed(arguments.seed, device_specific=True)

    def train(self, batches: Steps, evaluate: Callable[[nn.Module], Record]) -> None:
        """Train, from the last checkpoint if there is one.

        The model then has the weights that
        :class:`~attention_course.experiments.snapshots.Snapshots` selects.

        Raises:
            ValueError: a checkpoint is damaged, or of another training.
            FileNotFoundError: the weights of an earlier epoch are missing.
            FloatingPointError: a loss or gradient is not finite, for example because
                the learning rate is too high.
        """
        checkpoint = self.folder / "checkpoint.pt"
        if checkpoint.exists():
            self.trainer.load(checkpoint)
        steps, every = self.arguments["steps"], self.arguments["every"]
        clock = Clock(self.folder / "seconds.json")
        snapshots = Snapshots(
            self.trainer, self.folder / "epochs", self.arguments["average"]
        )
        with closing(TensorBoard(self.folder)) as board:

            def log(record: Record) -> None:
                snapshots.keep()
                board(record)
                clock.lap(self.trainer.step)

            self.trainer.fit(batches, steps, evaluate, every, checkpoint, log)
        self.selected, self.seconds = snapshots.select(evaluate), clock.total()

    def finish(
        self,
        test: dict[str, Any],
        vocabularies: Mapping[str, Vocabulary],
        data: dict[str, str],
        texts: Mapping[str, Sequence[str]] | None = None,
        sentences: Sequence[dict[str, Any]] = (),
    ) -> dict[str, Any]:
        """Write the result, the weights and the vocabularies, and return the result.

        Each file is written atomically, ``result.json`` last: if it exists, so do the
        others.

        Args:
            test: the figures of the test set.
            vocabularies: by the names they have in the result.
            data: the checksums of the files of data, by their names.
            texts: the lines of further text files, by their names.
            sentences: examples, as :mod:`attention_course.experiments.sentences` describes
                them.
        """
        result = self._describe(test, vocabularies, data) | {
            "sentences": list(sentences)
        }
        if self.trainer.accelerator.is_main_process:
            with replacing(self.folder / "weights.safetensors") as file:
                file.write(pack(self.trainer.model))
            words = {
                name: vocabulary.tokens[len(SPECIAL) :]
                for name, vocabulary in vocabularies.items()
            }
            # Vocabulary(words) restores a vocabulary
            write_json(self.folder / "vocabularies.json", words)
            for name, lines in (texts or {}).items():
                with replacing(self.folder / name) as file:
                    file.write("".join(f"{line}\n" for line in lines).encode())
            write_json(self.folder / "result.json", result)
        return result

    def _describe(
        self,
        test: dict[str, Any],
        vocabularies: Mapping[str, Vocabulary],
        data: dict[str, str],
    ) -> dict[str, Any]:
        processes = self.trainer.accelerator.num_processes
        return {
            "version": VERSION,
            "experiment": self.experiment,
            "model": self.arguments["model"],
            "test": test,
            "history": self.trainer.history,
            "selected": self.selected,
            "seconds": self.seconds,
            "parameters": sum(
                parameter.numel() for parameter in self.trainer.model.parameters()
            ),
            "vocabularies": {
                name: len(vocabulary) for name, vocabulary in vocabularies.items()
            },
            "arguments": self.arguments,
            "command": self._command(processes),
            "data": data,
        } | surroundings(processes)

    def _command(self, processes: int) -> str:
        """The command line of such a run."""
        launcher = [
            "accelerate",
            "launch",
            "--multi_gpu",
            "--num_processes",
            str(processes),
        ]
        module = f"attention_course.experiments.{self.experiment}"
        return shlex.join(
            [*(launcher if processes > 1 else ["python"]), "-m", module, *self.options]
        )
