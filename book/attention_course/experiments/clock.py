"""The time that a training takes, also if it is interrupted and resumed."""

import time
from pathlib import Path

from attention_course.experiments.record import write_json
from attention_course.training.checkpoint import read_json


class Clock:
    """Count the seconds between the records of a training, from now on.

    Each part is kept in a file by its last step. What a resumed training repeats
    replaces what it took before.
    """

    def __init__(self, path: Path):
        self.path, self._start = path, _now()

    def lap(self, step: int) -> None:
        """Write what has passed since the last lap."""
        before, self._start = self._start, _now()
        wall, cpu = (now - then for now, then in zip(self._start, before, strict=True))
        write_json(self.path, self._laps() | {str(step): {"wall": wall, "cpu": cpu}})

    def total(self) -> dict[str, float]:
        """Seconds on the clock, and of computing by this process, on all of its threads."""
        laps = self._laps().values()
        return {
            kind: round(sum(lap[kind] for lap in laps), 1) for kind in ("wall", "cpu")
        }

    def _laps(self) -> dict[str, dict[str, float]]:
        return read_json(self.path) if self.path.exists() else {}


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()
