import math
from contextlib import closing

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_course.experiments.log import TensorBoard

pytestmark = pytest.mark.slow


def points(folder, name):
    """The curve as TensorBoard shows it: steps and figures."""
    return [
        (event.step, event.value)
        for event in EventAccumulator(str(folder)).Reload().Scalars(name)
    ]


def test_each_figure_is_a_curve_and_is_there_at_once(tmp_path):
    with closing(TensorBoard(tmp_path)) as log:
        log({"step": 20, "loss": 2.5, "perplexity": 8})
        assert points(tmp_path, "loss") == [(20, 2.5)]
        log({"step": 40, "loss": 1.5, "perplexity": math.inf})
    assert points(tmp_path, "loss") == [(20, 2.5), (40, 1.5)]
    assert points(tmp_path, "perplexity") == [(20, 8), (40, math.inf)]
    assert set(EventAccumulator(str(tmp_path)).Reload().Tags()["scalars"]) == {
        "loss",
        "perplexity",
    }


@pytest.mark.parametrize("again", [40, 60, 80])
def test_what_an_interrupted_run_left_is_replaced(tmp_path, again):
    with closing(TensorBoard(tmp_path)) as log:
        for step in (20, 40, 60):
            log({"step": step, "loss": 1.0})
    with closing(TensorBoard(tmp_path)) as log:
        for step in range(again, 101, 20):
            log({"step": step, "loss": 2.0})
    assert points(tmp_path, "loss") == [
        (step, 2.0 if step >= again else 1.0) for step in (20, 40, 60, 80, 100)
    ]


def test_without_a_record_there_is_no_file(tmp_path):
    TensorBoard(tmp_path).close()
    assert not list(tmp_path.iterdir())
