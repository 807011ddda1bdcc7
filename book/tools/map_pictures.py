"""The small pictures on the map of the welcome page: weights of the package's own mechanisms.

    python book/tools/map_pictures.py

draws them anew into ``book/_static/map``. A row is a query, a column a key; the darker, the greater.
"""

from pathlib import Path

import numpy as np
import torch
from matplotlib import colormaps
from PIL import Image

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
N, SIZE = 8, 16  # words, and features of a word
CELL = 6  # pixels
ORDER = [0, 2, 1, 3, 4, 7, 5, 6]  # which word a translation says next
SHADES = 16


def pictures():
    """The weights of each picture, by its name: eight rows and eight columns of numbers from 0 to 1."""
    torch.manual_seed(0)
    words = torch.randn(N, SIZE)
    asked = (words + 0.5 * torch.randn(N, SIZE))[ORDER]
    with torch.no_grad():
        found = one_text(words) | of_another(words, asked)
        found["state"] = trained(Additive(SIZE, SIZE, SIZE), asked, words)
        found["after"] = trained(Bilinear(SIZE, SIZE), asked, words)
        shared = MultiHeadAttention(SIZE, 4, key_value_heads=2)
        four = shared.weights(4 * words[:4], shared.project(4 * words[:4])[0])
        found["grouped"] = four.view(2, 2, 4, 4).transpose(1, 2).reshape(N, N)
    return found


def one_text(words):
    """Looks within one text, by itself or by a vector that asks the same of every text."""
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


def of_another(words, asked):
    """Looks at a text by another one: a translation that is being written, or a question."""
    scores = Dot().score(asked[:3], words)
    alpha, beta = masked_softmax(scores).mT, masked_softmax(scores.mT)
    named_twice = words[[0, 1, 2, 3, 2, 0, 3, 1]] + 0.2 * asked
    hops, query = [], 0.3 * asked[:2]
    for _ in range(3):
        hops.append(ScaledDot().weights(query, words))
        query = query + hops[-1] @ words
    padding = torch.arange(N) < N - 2
    return {
        "question": Dot().weights(0.5 * asked[:4], words).repeat_interleave(2, 0),
        "cosine": Cosine().weights(asked, words),
        "dot": Dot().weights(asked, words),
        "scaled": ScaledDot().weights(asked, words),
        "softmax": ScaledDot().weights(asked, words, padding.expand(1, N)),
        "window": LocalM(ScaledDot(), 2).weights(0.5 * words, words),
        "gaussian": Centred(ScaledDot(), 2, SIZE).weights(0.5 * asked, words),
        "gumbel": GumbelSoftmax(ScaledDot(), 0.5).weights(0.5 * asked, words),
        "drawn": HardAttention(ScaledDot())(asked, words).weights,
        "both": torch.cat([alpha, torch.zeros(N, 2), beta], 1),
        "pointer": ScaledDot().weights(words[:4], named_twice).repeat_interleave(2, 0),
        "hops": torch.cat(
            [hops[0], torch.zeros(1, N), hops[1], torch.zeros(1, N), hops[2]]
        ),
    }


class Centred(LocalP):
    """Local attention as if it had learnt to predict the word that each query asks for."""

    def centre(self, query, lengths, query_position=None):
        """The positions in the order of the translation, a little to the right."""
        return torch.tensor(ORDER) + 0.2


@torch.enable_grad()
def trained(attention: Attention, query, source):
    """The weights of an attention that has learnt to bring each query the word that it asks for."""
    optimizer = torch.optim.Adam(attention.parameters(), 0.02)
    for _ in range(150):
        loss = (
            (attention(query, *attention.project(source)) - source[ORDER]).pow(2).mean()
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return attention.weights(query, attention.project(source)[0]).detach()


def draw(weights):
    """A picture of weights in shades of blue; roots, so that small weights are seen in a small picture."""
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
        draw(weights).save(FOLDER / f"{name}.png", optimize=True, bits=4)
