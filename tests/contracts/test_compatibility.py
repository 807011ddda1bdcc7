"""Every cell of the table of compatibility: it works, or it is refused as the table says."""

import functools
import json
import re
import subprocess
import sys
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from companion import attention, models
from tests.conftest import ROOT, slow_but
from tests.contracts.compatibility import COLUMNS, HERE, PROGRAMS, refusal
from tests.contracts.subjects import SUBJECTS
from tests.contracts.test_decoders import (
    has_lstm,
    skip_where_pytorch_has_no_bfloat16_lstm,
)

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


def as_the_table_says(column, name):
    """Nothing, or an expectation of the error."""
    if refused := refusal(column, name):
        return pytest.raises(Exception, match=re.escape(refused.error))
    return nullcontext()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("name", SUBJECTS)
@pytest.mark.parametrize("column", HERE)
def test_in_this_process(column, name):
    if column == "autocast" and has_lstm(SUBJECTS[name].build()):
        skip_where_pytorch_has_no_bfloat16_lstm()
    torch.manual_seed(0)
    with as_the_table_says(column, name):
        COLUMNS[column](SUBJECTS[name])


@pytest.mark.compiled
@pytest.mark.parametrize("name", slow_but(SAMPLE, SUBJECTS))
@pytest.mark.parametrize("column", PROGRAMS["graphs"] | PROGRAMS["processes"])
def test_in_a_program(column, name):
    program = "graphs" if column in PROGRAMS["graphs"] else "processes"
    with as_the_table_says(column, name):
        check(errors(program, name in SAMPLE)[column][name])


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize("name", SUBJECTS)
def test_in_onnx_runtime(name):
    pytest.importorskip("onnxruntime")
    with as_the_table_says("ONNX", name):
        check(errors("onnx", name in SAMPLE)["ONNX"][name])


def check(error):
    if error:
        raise RuntimeError(error)


@functools.cache
def errors(program, in_sample):
    """The errors of a program, for all subjects of the sample or the rest."""
    names = [name for name in SUBJECTS if (name in SAMPLE) is in_sample]
    command = [sys.executable, "-m", "tests.contracts.compatibility", program, *names]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_every_public_mechanism_and_model_has_a_row():
    """But for base classes, what needs a GPU, and a plain convolutional network."""
    others = {"Attention", "Synthesizer", "UnconditionalSynthesizer", "TiledAttention"}
    others |= {"LocalWindow", "Reader", "SequenceDecoder", "ImageEncoder"}
    others |= {"ManyHeads", "FlexAttention", "FlexAtrous", "FlexSparse"}
    built = {type(part) for x in SUBJECTS.values() for part in x.build().modules()}
    missing = {
        name
        for package in (attention, models)
        for name in package.__all__
        if isinstance(kind := getattr(package, name), type)
        and issubclass(kind, nn.Module)
        and kind not in built
    }
    assert missing == others
