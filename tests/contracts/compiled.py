"""Compile and export every subject, and print what went wrong with each as JSON.

A program of its own, without type checks: PyTorch cannot trace what checks the shapes in the tests.
"""

import inspect
import json
import sys

import torch
from torch.export import Dim, export

from companion.decoding import tensors
from tests.contracts.subjects import SUBJECTS

# More different sizes than PyTorch compiles one function for, if it compiles for each.
SIZES = [(2 + i % 2, 2 + i % 3, 4 + i % 4) for i in range(10)]


def close(found, expected):
    torch.testing.assert_close(tensors(found), tensors(expected))


def has(module, kind):
    return any(isinstance(part, kind) for part in module.modules())


def compile_for_all_sizes(subject):
    """Compile once for all sizes."""
    torch.compiler.reset()
    module = subject.build()
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    for sizes in SIZES:
        inputs = subject.inputs(*sizes)
        close(compiled(*inputs), module(*inputs))


def export_for_all_sizes(subject):
    """Export with every batch and length dynamic; the program must serve other sizes."""
    module, inputs = subject.build().eval(), subject.inputs(3, 4, 5)
    shapes = [
        dict.fromkeys(range(x.dim() - x.is_floating_point()), Dim.DYNAMIC)
        for x in inputs
    ]
    program = export(module, inputs, dynamic_shapes=as_arguments(module, shapes))
    others = subject.inputs(2, 3, 3)
    close(program.module()(*others), module(*others))


def as_arguments(module, values):
    """The values by the names of the arguments that they are for; ``*inputs`` takes them all."""
    parameters = inspect.signature(module.forward).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return [tuple(values)]
    return values


TRIALS = {"compile": compile_for_all_sizes, "export": export_for_all_sizes}


def outcome(trial, subject):
    """The error of a trial, or an empty string."""
    torch.manual_seed(0)
    try:
        trial(subject)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


if __name__ == "__main__":
    names = sys.argv[1:] or SUBJECTS
    found = {
        trial: {name: outcome(run, SUBJECTS[name]) for name in names}
        for trial, run in TRIALS.items()
    }
    print(json.dumps(found))
