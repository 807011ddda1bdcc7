"""The recorded studies of chapter 4: every run has what the chapter reads."""

import pytest

from companion.tasks.studies import recorded

READERS = recorded("large_pictures")
CAPTIONERS = [run for run in recorded("captioners") if run["kind"] != "from scratch"]
SCRATCH = [run for run in recorded("captioners") if run["kind"] == "from scratch"]


def test_no_run_is_recorded_twice():
    assert len({(run["method"], run["encoded"]) for run in READERS}) == len(READERS)
    assert len({run["kind"] for run in CAPTIONERS}) == len(CAPTIONERS)
    settings = {(run["learning_rate"], run["entropy_weight"]) for run in SCRATCH}
    assert len(settings) == len(SCRATCH) == 4


@pytest.mark.parametrize("run", READERS, ids=lambda run: run["method"])
def test_the_figures_of_a_reader_agree_with_one_another(run):
    if run["method"] in ("thumbnail only", "selected by ink"):
        assert len(run["accuracy by seed"]) == 3
    elif run["method"] == "exact likelihood":
        assert len(run["mean at 1, 8 and 64"]) == 3
    else:
        means, (low, high) = run["mean accuracy"], run["range at 8"]
        assert len(means) == 7
        assert 0 < low <= means[3] <= high < 1
        third = 3 * means[3] - low - high  # up to rounding
        assert low - 0.026 < third < high + 0.026
        if seeds := run.get("by seed at 8"):
            assert (min(seeds), max(seeds)) == (low, high)
            assert sum(seeds) / 3 == pytest.approx(means[3], abs=0.0101)


@pytest.mark.parametrize("run", CAPTIONERS, ids=lambda run: run["kind"])
def test_the_figures_of_a_captioner_agree_with_one_another(run):
    mean, low, high = run["exact match"]
    assert 0 <= low <= mean <= high <= 1
    assert run["in the box"] <= run["within 2 px"]
    # its largest weight touches the box at least as often as hard attention's weight
    assert run.get("hits", 1) >= run["in the box"]
    assert ("largest weight by seed" in run) == (run["kind"] in ("soft", "hard"))
