"""The recorded runs can be read, and what is not recorded is refused."""

import pytest

from attention_course.experiments import recorded
from attention_course.experiments.record import read_result

RUNS = sorted(recorded.FOLDER.glob("*/*.json"))
TRANSLATORS = [path.stem for path in RUNS if path.parent.name == "multi30k"]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_every_recorded_run_is_read(path):
    found = recorded.result(path.parent.name, path.stem)
    assert found == read_result(path)
    assert found["experiment"] == path.parent.name


@pytest.mark.parametrize("name", TRANSLATORS)
def test_the_sentences_are_tokens_and_weights(name):
    stored = recorded.result("multi30k", name)["sentences"]
    found = recorded.sentences("multi30k", name)
    assert len(found) == 8
    for one, raw in zip(found, stored, strict=True):
        assert [" ".join(tokens) for tokens in one[:4]] == [
            raw[name] for name in ("source", "reference", "greedy", "beam")
        ]
        if one.weights is None:
            assert name in ("gru", "lstm")
            continue
        assert one.weights.shape[2:] == (len(one.greedy) + 1, len(one.source))
        total, rounding = one.weights.sum(-1), len(one.source) * 0.5 / 255
        assert total.max() <= 1 + rounding
        if name != "luong-local-p":  # whose Gaussian makes weights smaller
            assert total.min() >= 1 - rounding


def test_all_models_translate_the_same_sentences():
    texts = [
        [one[:2] for one in recorded.sentences("multi30k", name)]
        for name in TRANSLATORS
    ]
    assert all(one == texts[0] for one in texts)


@pytest.mark.parametrize(
    ("experiment", "name"), [("multi30k", "nobody"), ("wmt", "gru"), ("..", "recorded")]
)
def test_a_run_that_is_not_recorded_is_refused_with_those_that_are(experiment, name):
    with pytest.raises(ValueError, match=r"only .*multi30k/luong-general,"):
        recorded.result(experiment, name)


def test_a_run_without_sentences_is_refused():
    with pytest.raises(ValueError, match="imdb/bag has no sentences"):
        recorded.sentences("imdb", "bag")
