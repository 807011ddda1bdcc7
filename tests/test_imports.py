"""Imports go down only. A new file is placed in one of the layers, or beside them, before its first test."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import companion

ROOT = Path(companion.__file__).parent

LAYERS = [
    {
        "attention",
        "state",
        "patterns",
        "position",
        "residual",
        "embedding",
        "recurrent",
        "data",
    },
    {
        "scores",
        "bahdanau",
        "luong",
        "hard",
        "synthesizer",
        "multihead",
        "sparse",
        "flex",
        "pooling",
    }
    | {
        "attention_over_attention",
        "queries",
        "location",
        "gumbel",
        "local",
        "aligned",
        "convolution",
    }
    | {"tiles", "partial", "blocks"},
    {"hierarchical", "seq2seq", "transformer", "convs2s", "captioner", "classifier"}
    | {"language"},
]
# What else a file of a layer may import, from its own layer.
SIDEWAYS = {
    "embedding": {"attention", "data.vocabulary"},
    "recurrent": {"attention", "data.vocabulary", "state"},
    "queries": {"bahdanau"},
    "location": {"bahdanau"},
    "gumbel": {"hard"},
    "local": {"synthesizer"},
    "luong": {"local"},
    "multihead": {"scores"},
    "position": {"attention"},
    "patterns": {"attention"},
    "attention_over_attention": {"pooling"},
    "partial": {"tiles"},
    "sparse": {"scores", "partial", "tiles"},
    "flex": {"scores", "sparse", "blocks"},
    "transformer": {"seq2seq"},
    "convs2s": {"seq2seq"},
    "language": {"transformer"},
    "hierarchical": {"classifier"},
}
# The files on which no model is built: all that each may import.
BESIDE = {
    "hypotheses": {"state", "data.vocabulary"},
    "beam": {"state", "data.vocabulary", "hypotheses"},
    "decoding": {"state", "data.vocabulary", "hypotheses", "beam"},
    "checkpoint": set(),
    "schedule": set(),
    "losses": {"data"},
    "training": {"checkpoint", "losses"},
    "recipe": {"losses", "schedule", "training"},
    "recognition": {"data", "losses", "recipe"},
    "caption_loss": {"data", "hard", "losses"},
    "captioning": {"caption_loss", "data", "decoding", "hard", "losses", "recipe"},
    "translation": {"data", "decoding", "losses", "recipe"},
    "baseline": {"data", "luong", "scores", "seq2seq", "translation"},
    "classification": {"data", "losses", "recipe"},
    "copying": {"data", "losses", "recipe"},
    "cloze": {"attention_over_attention", "data", "losses", "recipe"},
    "cost": set(),
    "alignment": set(),
    "plotting": {"alignment"},
    "shading": {"alignment"},
    "explorer": {"alignment"},
    "source": set(),
    "exercises": LAYERS[0] | LAYERS[1],
}
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(
        ".__init__"
    ): path
    for path in sorted(ROOT.rglob("*.py"))
}
HEAVY = (
    "accelerate",
    "babel",
    "matplotlib",
    "num2words",
    "pooch",
    "sacrebleu",
    "sklearn",
    "spacy",
)


def imported(text):
    """What a source imports of the package, at its top or anywhere else, without ``companion.``."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, (
                f"line {node.lineno}: a relative import; write it in full"
            )
            inside = node.module == "companion"
            found |= (
                {f"companion.{alias.name}" for alias in node.names}
                if inside
                else {node.module}
            )
    return {
        name.removeprefix("companion.")
        for name in found
        if name.split(".")[0] == "companion"
    }


def allowed(module):
    """What a module may import: the layers below its own, and its own folder."""
    top = module.split(".")[0]
    if top == "experiments":
        return {*set().union(*LAYERS), *BESIDE, top}
    if top in BESIDE:
        return {*BESIDE[top], top}
    level = [top in layer for layer in LAYERS].index(True)
    return {*set().union(*LAYERS[:level]), *SIDEWAYS.get(top, ()), *({top} & {"data"})}


def violations(module, text):
    return {
        name
        for name in imported(text)
        if not any(name == may or name.startswith(f"{may}.") for may in allowed(module))
    }


def test_the_package_itself_imports_none_of_its_files():
    assert imported(MODULES["__init__"].read_text()) == set()


@pytest.mark.parametrize("module", sorted(set(MODULES) - {"__init__"}))
def test_imports_go_down_only(module):
    placed = {*set().union(*LAYERS), *BESIDE, "experiments"}
    assert module.split(".")[0] in placed, (
        f"say in tests/test_imports.py where {module} belongs"
    )
    assert violations(module, MODULES[module].read_text()) == set()


def test_only_the_searches_can_be_imported_from_two_places():
    handed_on = {
        (module, node.name)
        for module, path in MODULES.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.alias) and node.asname == node.name
    }
    assert handed_on == {("decoding", "beam_search"), ("decoding", "Hypotheses")}


@pytest.mark.parametrize("module", MODULES)
def test_annotations_are_evaluated(module):
    tree = ast.parse(MODULES[module].read_text())
    futures = [
        x
        for x in ast.walk(tree)
        if isinstance(x, ast.ImportFrom) and x.module == "__future__"
    ]
    assert futures == []


@pytest.mark.parametrize(
    ("module", "text", "expected"),
    [
        (
            "attention",
            "import torch\nfrom companion.decoding.state import Step",
            {"state"},
        ),
        ("bahdanau", "from companion.attention.base import Attention", set()),
        ("bahdanau", "def f():\n    from companion import seq2seq", {"seq2seq"}),
        ("luong", "import companion.models.bahdanau", {"bahdanau"}),
        ("queries", "from companion.models.bahdanau import Decoder", set()),
        (
            "seq2seq",
            "from companion.models.transformer import Transformer",
            {"transformer"},
        ),
        ("decoding", "from companion.data.batching import Batch", {"data.batching"}),
        ("decoding", "from companion.statement import x", {"statement"}),
        ("training", "from companion import bahdanau, checkpoint", {"bahdanau"}),
        ("data.numbers", "from companion.data.vocabulary import PAD", set()),
        (
            "data.numbers",
            "from companion.attention.base import Attention",
            {"attention"},
        ),
        ("experiments.multi30k", "from companion import seq2seq, training", set()),
    ],
)
def test_the_rule_itself(module, text, expected):
    assert violations(module, text) == expected


@pytest.mark.parametrize(
    "modules",
    [
        "companion",
        "companion.models.bahdanau, companion.models.bahdanau, companion.models.seq2seq, companion.decoding.sampling, companion.attention.masks",
        "companion.models.show_attend_tell, companion.data.scenes",
    ],
)
def test_models_do_not_wait_for_what_they_do_not_need(modules):
    program = f"import sys, {modules}; print([x for x in {HEAVY} if x in sys.modules])"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "[]"
