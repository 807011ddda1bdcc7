"""What every mechanism and every model keeps under ``torch.compile`` and ``torch.export``.

One graph serves all sizes. What PyTorch cannot trace is refused, never computed wrongly.
"""

import functools
import json
import subprocess
import sys

import pytest
from torch import nn

from tests.conftest import ROOT, slow_but
from tests.contracts.compiled import has
from tests.contracts.subjects import DATA_DEPENDENT, SUBJECTS

pytestmark = pytest.mark.compiled

RECURRENT = {name for name, x in SUBJECTS.items() if has(x.build(), nn.RNNBase)}

TRACEABLE = set(SUBJECTS) - RECURRENT - DATA_DEPENDENT


# One of each kind, in `make test`.
SAMPLE = {
    "additive",
    "causal linear",
    "hierarchical",
    "language model",
    "local",
    "multi-head",
    "transformer model",
    "words",
    "bahdanau model",
}


@functools.cache
def errors(in_sample):
    """What went wrong with each trial, in one process for all subjects of the sample or the rest."""
    names = [name for name in SUBJECTS if (name in SAMPLE) is in_sample]
    command = [sys.executable, "-m", "tests.contracts.compiled", *names]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def error(trial, name):
    return errors(name in SAMPLE)[trial][name]


def each(names):
    return pytest.mark.parametrize("name", slow_but(SAMPLE, sorted(names)))


@each(TRACEABLE)
def test_one_compiled_graph_serves_all_sizes(name):
    assert error("compile", name) == ""


@each(TRACEABLE)
def test_one_exported_program_serves_all_sizes(name):
    assert error("export", name) == ""


@each(RECURRENT - DATA_DEPENDENT)
def test_pytorch_refuses_to_trace_recurrent_networks_and_packed_sequences(name):
    assert "Dynamo does not support RNN, GRU, or LSTM" in error("compile", name)
    assert "got FakeTensor" in error("export", name)


@each(DATA_DEPENDENT)
def test_pytorch_refuses_to_trace_shapes_that_depend_on_data(name):
    assert "ata-dependent" in error("compile", name)
    assert error("export", name)
