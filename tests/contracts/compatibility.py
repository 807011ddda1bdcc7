"""What works with every mechanism and every model, and what is refused, for the page *Compatibility*.

Each column is a function that tries one subject, and :data:`REFUSALS` has the cells in which an
error is right. Tests compare every cell with them.

Also a program, ``python -m tests.contracts.compatibility graphs``: it prints the errors of some columns
as JSON. Graphs are traced without the type checks of the tests, which PyTorch cannot trace.
"""

import copy
import inspect
import json
import pickle
import sys
import tempfile
from collections import Counter
from typing import NamedTuple

import torch
from torch import distributed, multiprocessing, nn
from torch._subclasses import FakeTensorMode
from torch.ao.quantization import quantize_dynamic
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.export import Dim
from torch.func import functional_call, grad, vmap
from torch.nn.parallel import DistributedDataParallel

from companion.attention import DeltaAttention
from companion.decoding import tensors
from tests.contracts.subjects import DATA_DEPENDENT, SUBJECTS

SIZES = (4, 5, 7)  # batch, queries or targets, keys or sources
# More different sizes than PyTorch compiles one function for, if it compiles for each.
MANY_SIZES = [(2 + i % 2, 2 + i % 3, 4 + i % 4) for i in range(10)]


def close(found, expected, **options):
    torch.testing.assert_close(tensors(found), tensors(expected), **options)


def loss_of(output):
    return sum(x.double().square().sum() for x in tensors(output))


def has(module, kind):
    return any(isinstance(part, kind) for part in module.modules())


# Graphs


def compile_(subject):
    """``torch.compile(module, fullgraph=True)``: one graph for batches and sequences of all lengths."""
    torch.compiler.reset()
    module = subject.build()
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    for sizes in MANY_SIZES:
        inputs = subject.inputs(*sizes)
        close(compiled(*inputs), module(*inputs))


def export(subject):
    """``torch.export.export``: one program for all of them."""
    module, inputs = subject.build().eval(), subject.inputs(2, 3, 3)
    program = exported(module, subject.inputs(3, 4, 5))
    close(program.module()(*inputs), module(*inputs))


def onnx(subject):
    """``torch.onnx.export`` in float32, and ONNX Runtime on a batch of other lengths."""
    module, inputs = in_float32(subject, 2, 3, 3)
    program = exported(module.eval(), in_float32(subject, 3, 4, 5)[1])
    found = torch.onnx.export(program, dynamo=True, verbose=False)(*inputs)
    close(found, module(*inputs), atol=1e-4, rtol=1e-4)


def exported(module, inputs):
    """A program with every batch and length dynamic."""
    sizes = [
        dict.fromkeys(range(x.dim() - x.is_floating_point()), Dim.DYNAMIC)
        for x in inputs
    ]
    sizes = as_arguments(module, sizes)
    return torch.export.export(module, inputs, dynamic_shapes=sizes)


def as_arguments(module, values):
    """The values by the names of the arguments that they are for; ``*inputs`` takes them all."""
    parameters = inspect.signature(module.forward).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return [tuple(values)]
    return values


# Several processes


def ddp(subject):
    """``DistributedDataParallel`` in two processes: the gradients of the whole batch, step after step."""
    train_in_parallel(subject, DistributedDataParallel)


def fsdp2(subject):
    """``fully_shard`` in two processes, of each layer of PyTorch's and of the whole: the same gradients."""
    train_in_parallel(subject, shard)


def train_in_parallel(subject, wrap):
    """Two steps on this process's half of the batch; gradients are averaged over the processes."""
    module, inputs = subject.build(), subject.inputs(*SIZES)
    rows = [x.chunk(2)[distributed.get_rank()] for x in inputs]
    expected = module(*rows)
    gradients = {}
    if list(module.parameters()):
        loss_of(module(*inputs)).backward()
        gradients = {
            x: p.grad / 2 for x, p in module.named_parameters() if p.grad is not None
        }
    wrapped = wrap(module)
    for _ in range(2):
        module.zero_grad()
        found = wrapped(*rows)
        close(found, expected)
        if gradients:
            loss_of(found).backward()
    parameters = dict(module.named_parameters())
    close_dicts = {x: whole(parameters[x].grad) for x in gradients}
    torch.testing.assert_close(close_dicts, gradients)


def whole(x):
    return x.full_tensor() if isinstance(x, DTensor) else x


def shard(module):
    """Shard each of PyTorch's own layers by itself, unless it shares a parameter, and then the rest."""
    owners = Counter(p for x in module.modules() for p in x.parameters(recurse=False))
    for layer in list(module.modules()):
        own = [*layer.parameters(recurse=False)]
        if (
            own
            and layer.__module__.startswith("torch.nn.modules")
            and all(owners[p] == 1 for p in own)
        ):
            fully_shard(layer)
    return fully_shard(module)


# Less precise numbers


def autocast(subject):
    """``torch.autocast`` to bfloat16, on a CPU: a result near that in float32, and finite gradients.

    PyTorch has ``nn.LSTM`` in bfloat16 for processors with AVX-512 alone.
    """
    module, inputs = in_float32(subject, *SIZES)
    with torch.autocast("cpu", torch.bfloat16):
        found = module(*inputs)
    near(found, module(*inputs))
    if list(module.parameters()):
        loss_of(found).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())


def int8(subject):
    """``quantize_dynamic(module, {nn.Linear})``: linear layers in 8 bits, a result near that in float32."""
    module, inputs = in_float32(subject, *SIZES)
    near(quantize_dynamic(module, {nn.Linear})(*inputs), module(*inputs))


def in_float32(subject, *sizes):
    inputs = subject.inputs(*sizes)
    single = (x.float() if x.is_floating_point() else x for x in inputs)
    return subject.build().float(), tuple(single)


def near(found, expected):
    """Compare up to a tenth of the largest number."""
    for x, y in zip(tensors(found), tensors(expected), strict=True):
        scale = 0.1 * float(y.detach().abs().max()) if y.is_floating_point() else 0
        torch.testing.assert_close(x, y, atol=scale, rtol=0, check_dtype=False)


# Transforms and tensors without numbers


def vmap_(subject):
    """``torch.func.vmap`` over ``grad``: the gradients for each example are those of the example alone."""
    module, inputs = subject.build(), subject.inputs(*SIZES)
    parameters = {name: x.detach() for name, x in module.named_parameters()}

    def loss(parameters, scale, *row):  # its derivative by the scale is the loss
        rows = tuple(x[None] for x in row)
        return scale * loss_of(functional_call(module, parameters, rows))

    given = (parameters, torch.ones((), dtype=torch.float64))
    gradients = grad(loss, (0, 1))
    found, losses = vmap(gradients, (None, None, *(0 for _ in inputs)))(*given, *inputs)
    for row, loss_of_row in enumerate(losses):
        expected = gradients(*given, *(x[row] for x in inputs))
        torch.testing.assert_close(
            ({x: found[x][row] for x in found}, loss_of_row), expected
        )


def meta(subject):
    """A model made and called on the ``meta`` device: the shapes, without memory or numbers."""
    with torch.device("meta"):
        module = subject.build()
    inputs = subject.inputs(*SIZES)
    found = module(*(x.to("meta") for x in inputs))
    assert all(x.is_meta for x in tensors(found))
    assert shapes(found) == shapes(subject.build()(*inputs))


def fake(subject):
    """``FakeTensorMode``: the same, and the model computes numbers again afterwards."""
    module, inputs = subject.build(), subject.inputs(*SIZES)
    expected = module(*inputs)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        found = module(*map(mode.from_tensor, inputs))
    assert shapes(found) == shapes(expected)
    close(module(*inputs), expected, atol=0, rtol=0)


def shapes(output):
    return [(x.shape, x.dtype) for x in tensors(output)]


# Copies


def deepcopy(subject):
    """``copy.deepcopy``: computes the same, bit by bit, and shares no parameter."""
    module, inputs = subject.build(), subject.inputs(*SIZES)
    expected = module(*inputs)
    duplicate = copy.deepcopy(module)
    disturb(module)
    close(duplicate(*inputs), expected, atol=0, rtol=0)


@torch.no_grad()
def disturb(module):
    """Change every parameter, so that a module that shared one with another would change it too."""
    for parameter in module.parameters():
        parameter.add_(1)


def pickled(subject):
    """``pickle``: computes the same, bit by bit."""
    module, inputs = subject.build(), subject.inputs(*SIZES)
    found = pickle.loads(pickle.dumps(module))(*inputs)
    close(found, module(*inputs), atol=0, rtol=0)


#: Tried in the process of the tests; the others by a program.
HERE = {
    "autocast": autocast,
    "int8": int8,
    "vmap": vmap_,
    "meta": meta,
    "fake": fake,
    "deepcopy": deepcopy,
    "pickle": pickled,
}
PROGRAMS = {
    "graphs": {"compile, dynamic": compile_, "export": export},
    "onnx": {"ONNX": onnx},
    "processes": {"DDP": ddp, "FSDP2": fsdp2},
}
COLUMNS = PROGRAMS["graphs"] | PROGRAMS["onnx"] | PROGRAMS["processes"] | HERE


class Refusal(NamedTuple):
    """Cells that are refused: words of the error, and why, or what to do instead."""

    columns: tuple[str, ...]
    subjects: frozenset[str]
    error: str
    reason: str


def subjects(is_one):
    return frozenset(name for name, x in SUBJECTS.items() if is_one(x.build()))


RECURRENT = subjects(lambda module: has(module, nn.RNNBase)) - DATA_DEPENDENT
UNTRAINED = subjects(lambda module: not list(module.parameters()))
REFUSALS = [
    Refusal(
        ("compile, dynamic",),
        RECURRENT,
        "Dynamo does not support RNN, GRU, or LSTM",
        "Without `fullgraph=True`, all but `nn.GRU` and `nn.LSTM` is compiled.",
    ),
    Refusal(
        ("export", "ONNX", "vmap"),
        RECURRENT,
        "PyTorch can neither export packed sequences nor transform them by torch.func",
        "`nn.GRU` and `nn.LSTM` read sentences of different lengths as packed sequences."
        " For the gradients of one example, call the model with that example alone.",
    ),
    Refusal(
        ("ONNX",),
        subjects(lambda module: has(module, DeltaAttention)),
        "No ONNX function found for <OpOverload(op='aten.linalg_solve_triangular'",
        "ONNX has no operation that solves a triangular system. `torch.export` works.",
    ),
    Refusal(
        ("compile, dynamic", "export", "ONNX"),
        DATA_DEPENDENT,
        "Could not guard on data-dependent expression",
        "Only sentences that have words are encoded, so the number of rows depends on the"
        " text. Without `fullgraph=True`, the rest is compiled.",
    ),
    Refusal(
        ("vmap",),
        DATA_DEPENDENT,
        "We do not support batching operators that can support dynamic shape",
        "The number of rows depends on the text.",
    ),
    Refusal(
        ("meta",),
        DATA_DEPENDENT,
        "a correct data-independent implementation does not exist",
        "The number of rows depends on the text.",
    ),
    Refusal(
        ("fake",),
        DATA_DEPENDENT,
        "aten.nonzero.default",
        "PyTorch names the operation whose shape depends on the text.",
    ),
    Refusal(
        ("DDP",),
        UNTRAINED,
        "not needed when a module doesn't have any parameter",
        "There is nothing to train: wrap the model that contains it.",
    ),
    Refusal(
        ("DDP",),
        frozenset({"location", "smooth location"}),
        "your module has parameters that were not used in producing loss",
        "A first step has no earlier weights whose locations it could use. In its decoder"
        " it works; by itself, it needs `find_unused_parameters=True`.",
    ),
    Refusal(
        ("DDP",),
        frozenset({"hard captioner model"}),
        "your module has parameters that were not used in producing loss",
        "A sampled position passes no gradient on to the scores: their loss is"
        " `reinforce_loss`, of what `HardCaptioner.trace` returns.",
    ),
]


def refusal(column, name):
    """The refusal of a cell, or ``None`` if it works."""
    found = (x for x in REFUSALS if column in x.columns and name in x.subjects)
    return next(found, None)


def outcomes(columns, names):
    return {
        column: {name: outcome(COLUMNS[column], SUBJECTS[name]) for name in names}
        for column in columns
    }


def outcome(trial, subject):
    """The error of a trial, or an empty string."""
    torch.manual_seed(0)
    try:
        trial(subject)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def in_each_process(rank, store, columns, names):
    """One of two processes; the first prints the errors of both."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=2
    )
    both = [{}, {}]
    distributed.all_gather_object(both, outcomes(columns, names))
    if rank == 0:
        cells = {x: {n: both[0][x][n] or both[1][x][n] for n in names} for x in columns}
        print(json.dumps(cells))
    distributed.destroy_process_group()


if __name__ == "__main__":
    program, names = sys.argv[1], sys.argv[2:] or list(SUBJECTS)
    columns = list(PROGRAMS[program])
    if program == "processes":
        with tempfile.TemporaryDirectory() as folder:
            arguments = (f"{folder}/store", columns, names)
            multiprocessing.spawn(in_each_process, arguments, nprocs=2)
    else:
        print(json.dumps(outcomes(columns, names)))
