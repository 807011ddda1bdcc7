"""Every study of the package: its file has the runs that its settings name, all of one form."""

from importlib import import_module

import pytest

from attention_course.studies.recording import names, recorded

STUDIES = names()


@pytest.mark.parametrize("name", STUDIES)
def test_the_recorded_runs_are_those_of_the_settings(name):
    study = import_module(f"attention_course.studies.{name}")
    settings, runs = study.settings(), recorded(name)
    for setting, run in zip(settings, runs, strict=True):
        assert setting.items() <= run.items()
    assert len({frozenset(setting.items()) for setting in settings}) == len(settings)


@pytest.mark.parametrize("name", STUDIES)
def test_every_run_measures_the_same(name):
    runs = recorded(name)
    assert all(run.keys() == runs[0].keys() for run in runs)


@pytest.mark.parametrize(
    ("name", "setting", "choices"),
    [
        ("alignment", {"encoder": "misspelt"}, "'bidirectional', 'words alone'"),
        ("alignment", {"french": "misspelt"}, "'usual', 'no plural'"),
        ("bahdanau", {"model": "misspelt"}, "'without attention', 'Bahdanau'"),
        ("bottleneck", {"reads": "misspelt"}, "'one vector', 'attention'"),
        ("captioners", {"kind": "misspelt"}, "'soft', 'straight-through'"),
        (
            "cloze",
            {"reader": "misspelt"},
            "'attention sum', 'attention mean', 'attention over attention'",
        ),
        ("convs2s", {"without": "misspelt"}, "'nothing', 'the √½'"),
        ("convs2s", {"attending": "1 9"}, "1, 2, 3, 4, 5, 6, 7, 8, not 9"),
        ("copying", {"pattern": "misspelt"}, "'dense', 'local'"),
        ("every_layer", {"attending": "2"}, "'1 2 3 4', '1'"),
        ("descriptions", {"reader": "misspelt"}, "'attention sum', 'attention mean'"),
        ("document", {"model": "HN-misspelt"}, "'HN-ATT', 'HN-MAX'"),
        ("document", {"sentences": "misspelt"}, "'short', 'long'"),
        ("extrapolation", {"kind": "misspelt"}, "'no positions', 'sinusoids'"),
        ("hops", {"attending": "9"}, "1, 2, not 9"),
        ("longer_texts", {"kind": "misspelt"}, "'no positions', 'sinusoids'"),
        ("large_pictures", {"method": "misspelt"}, "'soft', 'Gumbel'"),
        ("luong", {"task": "misspelt"}, "'numbers', 'copying'"),
        ("luong", {"attention": "localp"}, "'general', 'general, fed'"),
        ("luong", {"deviation": 0.7}, "0.2, 0.07"),
        ("offsets", {"task": "misspelt"}, "'copying', 'window'"),
        ("offsets", {"model": "misspelt"}, "'dot product', 'dot product, bias'"),
        ("positions", {"model": "misspelt"}, "'no positions', 'sinusoids'"),
        ("recall", {"attention": "misspelt"}, "'softmax', 'linear'"),
        ("sinks", {"start": "misspelt"}, "'nothing', '<bos>'"),
        ("synthesizer", {"task": "misspelt"}, "'larger', 'shared'"),
        ("synthesizer", {"model": "misspelt"}, "'none', 'dot product'"),
        ("warmup", {"variant": "misspelt"}, "'post-norm, no warm-up'"),
    ],
    ids=str,
)
def test_a_setting_that_is_misspelt_is_refused_with_the_choices(name, setting, choices):
    study = import_module(f"attention_course.studies.{name}")
    with pytest.raises(ValueError, match=f"must be one of .*{choices}"):
        study.measure(**study.settings()[0] | setting)
