"""The study of chapter 7 on what a pattern tells a model: few keys, or how far away they are.

Two tasks. *copying* is that of the study of patterns, with full attention that has a bias for
each distance, which is learned slowly or quickly, and with few keys at random distances.
*window* is new text alone, in which every model reads the last five characters in each of two
layers, by attention or by a convolution. All runs take a few minutes on one CPU core.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from attention_course.studies.copying import copying_task
from attention_course.studies.recording import check_choice, grid
from attention_course.tasks.copying import Copying
from companion.attention import masks
from companion.attention.base import Attention
from companion.attention.sparse import PatternAttention
from companion.attention.types import Mask, Positions
from companion.layers.residual import PreNorm
from companion.models.language_model import LanguageModel
from companion.models.transformer import CausalTransformerLayer

#: The models of each task.
MODELS = {
    "copying": ("full, bias", "full, quick bias", "few keys"),
    "window": ("dot product", "dot product, bias", "bias alone", "convolution"),
}
TITLE = "Chapter 7: few keys or known distances, and a window of five characters"
_LONGEST = 257  # positions of a passage, the separator and the copy
_DISTANCE = 128  # of a copied character's original from the query
_WINDOW = 5


class DistanceBias(PatternAttention):
    """Attention with a learned bias for each head and distance, 0 at first.

    ::

        e_ij = q_iᵀ k_j / √d + scale · b_{i − j},   or one of the two terms alone

    Args:
        heads: each has biases of its own.
        window: how many positions a query attends to, itself included; by default all
            before it.
        products, biases: which terms the score has.
        scale: of the biases; Adam moves the score so many times faster by them.
    """

    def __init__(
        self,
        heads: int,
        window: int | None = None,
        products: bool = True,
        biases: bool = True,
        scale: float = 1.0,
    ) -> None:
        rule = masks.anywhere() if window is None else masks.local(window - 1)
        super().__init__(rule, causal=True)
        self.window, self.products = window, products
        self.bias_scale = scale * biases
        self.bias = nn.Parameter(torch.zeros(heads, window or _LONGEST))

    def score(
        self,
        query: Float[Tensor, "b h n d"],
        key: Float[Tensor, "b h n d"],
        query_position: Positions = None,
    ) -> Float[Tensor, "b h n n"]:
        """The scores of as many queries as keys."""
        i = torch.arange(key.shape[-2], device=key.device)
        distance = (i[:, None] - i).clamp(0, self.bias.shape[-1] - 1)
        products = super().score(query, key) * self.products
        return products + self.bias[:, distance] * self.bias_scale

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """By the definition or, in a window, from the scores inside it alone."""
        if self.window is None:
            return self.compute_both(query, key, value, mask, position)[0]
        keys, values = (
            pad(x, (0, 0, self.window - 1, 0)).unfold(-2, self.window, 1).flip(-1)
            for x in (key, value)
        )  # (b, h, n, d, w), the query's own position first
        scores = (query[..., None] * keys).sum(-2) / query.shape[-1] ** 0.5
        scores = scores * self.products + self.bias[:, None] * self.bias_scale
        distance = torch.arange(self.window)
        before = torch.arange(query.shape[-2])[:, None] < distance
        weights = scores.masked_fill(before, -torch.inf).softmax(-1)  # (b, h, n, w)
        return (weights.unsqueeze(-2) * values).sum(-1)


class ConvolutionLayer(CausalTransformerLayer):
    """A layer with a causal convolution instead of attention."""

    def __init__(self, d_model: int, width: int, **options: Any) -> None:
        super().__init__(d_model, 1, **options)
        self.attention: Any = nn.Conv1d(d_model, d_model, width)
        self.width = width

    def forward(self, x: Tensor, mask: Any = None) -> Tensor:
        """The new vector of each position, from those of the window that ends there."""
        x = self.attention_residual(x, self._convolve)
        return self.feed_forward_residual(x, self.feed_forward)

    def _convolve(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        convolved: Tensor = self.attention(pad(x.mT, (self.width - 1, 0)))
        return convolved.mT


def few_keys(seed: int) -> masks.RuleFunction:
    """A rule: itself, the position 128 back, and two earlier ones at random, always the same."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(_LONGEST, _LONGEST, generator=generator)
    position = torch.arange(_LONGEST)
    back = position[:, None] - position
    scores = scores.masked_fill((back <= 0) | (back == _DISTANCE), -1)
    chosen = torch.zeros(_LONGEST, _LONGEST, dtype=torch.bool)
    chosen.scatter_(1, scores.topk(2).indices, True)
    chosen = chosen & (back > 0) | (back == 0) | (back == _DISTANCE)
    return lambda i, j: chosen[i, j]


def layers(task: str, model: str, seed: int = 0) -> list[CausalTransformerLayer]:
    """The two layers of a model.

    Args:
        task: a key of :data:`MODELS`.
        model: one of its models.
        seed: of the random keys.

    Raises:
        ValueError: there is no such task or model.
    """
    check_choice("task", task, MODELS)
    check_choice("model", model, MODELS[task])
    options: dict[str, Any] = {"d_ff": 128, "dropout": 0.0, "residual": PreNorm}
    if model == "convolution":
        return [ConvolutionLayer(64, _WINDOW, **options) for _ in range(2)]

    def attention() -> Attention:
        if model == "few keys":
            return PatternAttention(few_keys(seed), causal=True)
        window = _WINDOW if task == "window" else None
        scale = 30.0 if "quick" in model else 1.0
        return DistanceBias(4, window, model != "bias alone", "bias" in model, scale)

    return [
        CausalTransformerLayer(64, 4, attention=attention(), **options)
        for _ in range(2)
    ]


class NewText(Copying):
    """The passages without their copies."""

    def collate(self, passages: Sequence[str]) -> Int[Tensor, "b n"]:
        """Each passage."""
        return torch.tensor([self.characters.encode(passage) for passage in passages])


def measure(
    task: str, model: str, steps: int, learning_rate: float, seed: int
) -> dict[str, Any]:
    """Train one model; its bits per character of new text, and of copied text in that task.

    Returns:
        ``test`` and ``validation``: a figure each in new text, two in copying.
    """
    texts = copying_task(kind=NewText if task == "window" else Copying)
    torch.manual_seed(seed)
    network = LanguageModel(len(texts.characters), layers(task, model, seed))
    texts.train(network, steps, learning_rate, seed)
    kept = 1 if task == "window" else 2
    return {
        name: texts.bits_per_character(network, passages)[:kept]
        for name, passages in (
            ("test", texts.test_passages),
            ("validation", texts.validation_passages),
        )
    }


def settings() -> list[dict[str, Any]]:
    """The settings of all runs: what :func:`measure` is called with."""
    window = {"task": "window", "model": MODELS["window"], "steps": 600}
    slower = {"task": "window", "model": "dot product", "steps": 600}
    copying = {"task": "copying", "model": MODELS["copying"], "steps": 150}
    bias = {"task": "copying", "model": "full, bias", "steps": 150}
    return [
        *grid(**window, learning_rate=0.02, seed=range(3)),
        *grid(**window, learning_rate=[0.005, 0.01, 0.04], seed=0),
        *grid(**slower, learning_rate=0.01, seed=[1, 2]),
        *grid(**copying, learning_rate=0.02, seed=range(3)),
        *grid(**bias, learning_rate=[0.04, 0.1], seed=0),
    ]
