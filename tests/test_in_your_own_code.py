"""The cells of the page *In your own code*, each run as it stands."""

import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from companion.attention import LocalAttention, masks
from companion.interop import TorchMultiheadAttention
from tests.conftest import ROOT

PAGE = (ROOT / "book" / "in_your_own_code.md").read_text("utf-8")
CELLS = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def cell(words):
    """The one cell that has these words."""
    (found,) = [text for text in CELLS if words in text]
    return found


def run(words):
    namespace = {"__name__": "cell"}
    exec(compile(cell(words), "in_your_own_code.md", "exec"), namespace)
    return SimpleNamespace(**namespace)


RUN_HERE = [
    "class CausalSelfAttention",
    "SlidingWindowAttention(16)",
    "src_key_padding_mask=",
    "ours.to_torch()",
    '"key_padding_mask"',
]
RUN_BELOW = ["register(", "torch.onnx.export", "fully_shard("]


def test_every_cell_is_run():
    assert sorted(CELLS) == sorted(cell(words) for words in RUN_HERE + RUN_BELOW)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("words", RUN_HERE)
def test_the_cells_run(words):
    run(words)


def lines(words):
    return [line for line in cell(words).splitlines() if line.strip()]


class Block(nn.Module):
    """A block of a GPT: it makes its attention of a configuration and calls it with vectors."""

    def __init__(self, attention, config):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(config.n_embd), attention(config)
        self.ln_2, self.mlp = nn.LayerNorm(config.n_embd), nn.Linear(config.n_embd, 8)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return self.mlp(self.ln_2(x))


class Dense(nn.Module):
    """What such a block has, with one matrix for queries, keys and values, and a mask of ours."""

    def __init__(self, config):
        super().__init__()
        self.heads = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, config.bias)

    def forward(self, x):
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in self.c_attn(x).chunk(3, -1)
        )
        mask = masks.dense(masks.sliding_window(65), x.shape[1])
        context = nn.functional.scaled_dot_product_attention(q, k, v, mask)
        return self.c_proj(context.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("bias", [True, False])
def test_nine_lines_replace_the_attention_of_a_gpt(bias):
    config = SimpleNamespace(n_embd=16, n_head=4, bias=bias, dropout=0.2)
    kind = run("class CausalSelfAttention").CausalSelfAttention
    assert len(lines("class CausalSelfAttention")) <= 9
    torch.manual_seed(0)
    ours, theirs = Block(kind, config), Block(Dense, config)
    theirs.load_state_dict(ours.state_dict(), strict=False)  # all but the attention
    mine, its = ours.attn, theirs.attn
    with torch.no_grad():
        for name in ("weight", "bias") if bias else ("weight",):
            packed = [getattr(x, name) for x in (mine.W_Q, mine.W_K, mine.W_V)]
            getattr(its.c_attn, name).copy_(torch.cat(packed))
            getattr(its.c_proj, name).copy_(getattr(mine.W_O, name))
    x = torch.randn(2, 100, 16)
    torch.testing.assert_close(ours.eval()(x), theirs(x))
    assert not torch.allclose(ours.train()(x), ours(x))  # it drops
    assert [n for n, _ in mine.named_parameters() if "bias" in n and not bias] == []


def test_the_encoder_of_the_page_attends_locally_and_not_to_padding():
    page = run("src_key_padding_mask=")
    assert page.y.shape == (2, 100, 64)
    assert page.y.isfinite().all()
    for layer in page.encoder.layers:
        assert type(layer.self_attn) is TorchMultiheadAttention
        assert type(layer.self_attn.inner.attention) is LocalAttention


def test_masks_of_other_conventions_are_pytorchs():
    page = run('"key_padding_mask"')
    other, x = page.attention.to_torch(), page.x
    calls = {
        "key_padding_mask": {"key_padding_mask": page.padding},
        "attn_mask": {"attn_mask": page.later},
        "additive": {"attn_mask": page.added},
        "both": {"key_padding_mask": page.padding, "attn_mask": page.later},
        "lengths": {"key_padding_mask": page.padding},
    }
    assert calls.keys() == page.y.keys()
    for name, call in calls.items():
        torch.testing.assert_close(page.y[name], other(x, x, x, **call)[0])


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_nine_lines_register_an_attention_with_transformers():
    pytest.importorskip("transformers")
    assert len(lines("register(")) <= 9
    page = run("register(")
    assert page.logits.shape == (2, 200, 32_000)
    assert page.config._attn_implementation == "local64"


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore")
def test_onnx_at_another_length(tmp_path, monkeypatch):
    for package in ("onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    run("torch.onnx.export")


@pytest.mark.compiled
def test_two_processes_train_a_sharded_model(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(cell("fully_shard("), "utf-8")
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    result = subprocess.run(
        [sys.executable, *launch, str(script)], capture_output=True, text=True, cwd=ROOT
    )
    assert result.returncode == 0, result.stderr
