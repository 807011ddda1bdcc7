"""Command: make the small pictures on the map of the welcome page from the package's own attention weights.

    python book/tools/map_pictures.py

The files are in ``book/_static/map``. Each row is a query and each column a key; a darker cell is a
larger weight.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib import colormaps
from PIL import Image
from torch import Tensor

from companion.attention import (
    Additive,
    Attention,
    Bilinear,
    CausalLinearAttention,
    Cosine,
    Dot,
    GumbelSoftmax,
    HardAttention,
    HiddenDot,
    LinearBias,
    LocalM,
    LocalP,
    MultiHeadAttention,
    RandomSynthesizer,
    ScaledDot,
    SinkAttention,
    SparseAttention,
    last_pooling,
    masked_softmax,
    mean_pooling,
)
from companion.attention.masks import causal, dense

FOLDER = Path(__file__).resolve().parents[1] / "_static" / "map"
N, SIZE = 8, 16  # words, and dimensions of a word vector
CELL = 6  # pixels
ORDER = [0, 2, 1, 3, 4, 7, 5, 6]  # the order of the words in the translation
SHADES = 16


def pictures() -> dict[str, Tensor]:
    """The weights of each picture by its name, an 8 × 8 matrix of numbers from 0 to 1."""
    torch.manual_seed(0)
    words = torch.randn(N, SIZE)
    queries = (words + 0.5 * torch.randn(N, SIZE))[ORDER]
    with torch.no_grad():
        found = within_a_text(words) | to_another_text(words, queries)
        found["state"] = trained(Additive(SIZE, SIZE, SIZE), queries, words)
        found["after"] = trained(Bilinear(SIZE, SIZE), queries, words)
        shared = MultiHeadAttention(SIZE, 4, key_value_heads=2)
        four = shared.weights(4 * words[:4], shared.project(4 * words[:4])[0])
        found["grouped"] = four.view(2, 2, 4, 4).transpose(1, 2).reshape(N, N)
    return found


def within_a_text(words: Tensor) -> dict[str, Tensor]:
    """The weights of self-attention, and of poolings whose query does not depend on the text."""
    everything = torch.ones(1, N, dtype=torch.bool)
    kinds = words[[0, 1, 0, 2, 1, 0, 2, 1]] + 0.6 * words
    key, _ = HiddenDot(SIZE).project(2 * words)
    of_words = Dot().weights(torch.randn(1, SIZE), key)
    of_sentences = (
        Dot().weights(torch.randn(1, SIZE), key[::2]).repeat_interleave(2).expand(3, N)
    )
    pairs = of_words.view(4, 1, 2) / of_words.view(4, 1, 2).sum(-1, keepdim=True)
    heads = MultiHeadAttention(SIZE, 4)
    four = heads.weights(4 * words[:4], heads.project(4 * words[:4])[0])
    return {
        "nowhere": last_pooling(torch.eye(N)[None], everything).expand(N, N),
        "mean": mean_pooling(torch.eye(N)[None], everything).expand(N, N),
        "learnt": of_words.expand(N, N),
        "itself": ScaledDot().weights(kinds, kinds),
        "causal": ScaledDot().weights(kinds, kinds, dense(causal(), N)),
        "sparse": SparseAttention(radius=1, rate=3).weights(kinds, kinds),
        "sinks": SinkAttention(window=3, sinks=1).weights(kinds, kinds),
        "distance": LinearBias(0.5, causal=True).weights(*torch.zeros(2, N, SIZE)),
        "linear": CausalLinearAttention().weights(kinds, kinds),
        "heads": four.view(2, 2, 4, 4).transpose(1, 2).reshape(N, N),
        "twice": torch.cat([torch.block_diag(*pairs), torch.zeros(1, N), of_sentences]),
        "table": RandomSynthesizer(N).weights(words, words),
    }


def to_another_text(words: Tensor, queries: Tensor) -> dict[str, Tensor]:
    """The weights where the queries are those of another text: a translation so far, or a question."""
    scores = Dot().score(queries[:3], words)
    alpha, beta = masked_softmax(scores).mT, masked_softmax(scores.mT)
    named_twice = words[[0, 1, 2, 3, 2, 0, 3, 1]] + 0.2 * queries
    hops, query = [], 0.3 * queries[:2]
    for _ in range(3):
        hops.append(ScaledDot().weights(query, words))
        query = query + hops[-1] @ words
    padding = torch.arange(N) < N - 2
    return {
        "question": Dot().weights(0.5 * queries[:4], words).repeat_interleave(2, 0),
        "cosine": Cosine().weights(queries, words),
        "dot": Dot().weights(queries, words),
        "scaled": ScaledDot().weights(queries, words),
        "softmax": ScaledDot().weights(queries, words, padding.expand(1, N)),
        "window": LocalM(ScaledDot(), 2).weights(0.5 * words, words),
        "gaussian": Centred(ScaledDot(), 2, SIZE).weights(0.5 * queries, words),
        "gumbel": GumbelSoftmax(ScaledDot(), 0.5).weights(0.5 * queries, words),
        "drawn": HardAttention(ScaledDot())(queries, words).weights,
        "both": torch.cat([alpha, torch.zeros(N, 2), beta], 1),
        "pointer": ScaledDot().weights(words[:4], named_twice).repeat_interleave(2, 0),
        "hops": torch.cat(
            [hops[0], torch.zeros(1, N), hops[1], torch.zeros(1, N), hops[2]]
        ),
    }


class Centred(LocalP):
    """Local attention as if it had learned to predict the position of the word that matches each query."""

    def centre(
        self, query: Tensor, lengths: Any, query_position: Tensor | None = None
    ) -> Tensor:
        """The positions in the order of the translation, shifted by 0.2."""
        return torch.tensor(ORDER) + 0.2


@torch.enable_grad()
def trained(attention: Attention, query: Tensor, source: Tensor) -> Tensor:
    """The weights of an attention that was trained to return the word that matches each query."""
    optimizer = torch.optim.Adam(attention.parameters(), 0.02)
    for _ in range(150):
        loss = (
            (attention(query, *attention.project(source)) - source[ORDER]).pow(2).mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return attention.weights(query, attention.project(source)[0]).detach()


def heat_map(weights: Tensor) -> Image.Image:
    """A heat map in shades of blue, of square roots: they make small weights visible in a small picture."""
    shades = (weights.sqrt() * (SHADES - 1)).round().to(torch.uint8).numpy()
    picture = Image.fromarray(np.kron(shades, np.ones((CELL, CELL), np.uint8)), "P")
    picture.putpalette(
        (colormaps["Blues"](np.linspace(0, 1, SHADES))[:, :3] * 255)
        .astype(np.uint8)
        .tobytes()
    )
    return picture


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, weights in pictures().items():
        heat_map(weights).save(FOLDER / f"{name}.png", optimize=True, bits=4)
