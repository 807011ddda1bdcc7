"""What every mechanism and every model keeps under ``torch.compile`` and ``torch.export``.

One graph serves all sizes. What PyTorch cannot trace is refused, never computed wrongly.
"""

import json
import subprocess
import sys

import pytest
from torch import nn

from tests.conftest import ROOT
from tests.contracts.compiled import has
from tests.contracts.subjects import DATA_DEPENDENT, SUBJECTS

RECURRENT = {name for name, x in SUBJECTS.items() if has(x.build(), nn.RNNBase)}

TRACEABLE = sorted(set(SUBJECTS) - RECURRENT - DATA_DEPENDENT)


@pytest.fixture(scope="module")
def errors():
    """What went wrong with each trial of each subject, in one process for all."""
    command = [sys.executable, "-m", "tests.contracts.compiled"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("name", TRACEABLE)
def test_one_compiled_graph_serves_all_sizes(name, errors):
    assert errors["compile"][name] == ""


@pytest.mark.parametrize("name", TRACEABLE)
def test_one_exported_program_serves_all_sizes(name, errors):
    assert errors["export"][name] == ""


@pytest.mark.parametrize("name", sorted(RECURRENT - DATA_DEPENDENT))
def test_pytorch_refuses_to_trace_recurrent_networks_and_packed_sequences(name, errors):
    assert "Dynamo does not support RNN, GRU, or LSTM" in errors["compile"][name]
    assert "got FakeTensor" in errors["export"][name]


@pytest.mark.parametrize("name", sorted(DATA_DEPENDENT))
def test_pytorch_refuses_to_trace_shapes_that_depend_on_data(name, errors):
    assert "ata-dependent" in errors["compile"][name]
    assert errors["export"][name]
