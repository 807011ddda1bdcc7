"""The exercises of chapter 3, What attention is."""

from collections.abc import Callable

import torch
from torch import Tensor

from attention_course.exercises.exercise import Answer, Exercise, normal
from companion.attention.base import masked_softmax
from companion.attention.pooling import mean_pooling


def _states_and_mask() -> dict[str, Tensor]:
    """Texts of 5, 2 and 0 words, with random states at padding; the second has a gap."""
    mask = torch.tensor([[True] * 5, [True, False, True, False, False], [False] * 5])
    return {"states": normal(3, 5, 7, seed=34), "mask": mask}


def _first_words(states: Tensor, mask: Tensor) -> Tensor:
    return mean_pooling(states, torch.arange(5) < mask.sum(1, keepdim=True))


def _zeroed(states: Tensor, mask: Tensor) -> Tensor:
    return states.masked_fill(~mask[..., None], 0)


def _divided(states: Tensor, mask: Tensor, count: Tensor) -> Tensor:
    return _zeroed(states, mask).sum(1) / count


MEAN_POOL = Exercise(
    inputs=_states_and_mask(),
    solution=mean_pooling,
    mistakes={
        "The mask is ignored: padding is averaged too.": lambda s, m: s.mean(1),
        "Padding is zero, but still counted: divide by the number of words, not by n.": lambda s, m: (
            _zeroed(s, m).mean(1)
        ),
        "The sum includes the padding, although the count does not.": lambda s, m: (
            s.sum(1) / m.sum(1, keepdim=True).clamp(min=1)
        ),
        "This is the sum: divide by the number of words.": lambda s, m: _zeroed(
            s, m
        ).sum(1),
        "The mask is the wrong way round: True means that there is a word.": lambda s, m: (
            mean_pooling(s, ~m)
        ),
        "The empty text gives 0 / 0, which is NaN; it must get zeros.": lambda s, m: (
            _divided(s, m, m.sum(1, keepdim=True))
        ),
        "The number of words is 1 too large, to avoid 0 / 0 for the empty text: use clamp(min=1).": (
            lambda s, m: _divided(s, m, m.sum(1, keepdim=True) + 1)
        ),
        "All texts are divided by the number of words in the whole batch.": lambda s, m: (
            _divided(s, m, m.sum())
        ),
        "The mean runs over the features; it must run over the words.": lambda s, m: (
            _zeroed(s, m).mean(2)
        ),
        "One mean is taken over the words of all texts together.": lambda s, m: (
            s[m].mean(0).expand(3, 7)
        ),
        "This is max pooling; take the mean.": lambda s, m: (
            s.masked_fill(~m[..., None], -torch.inf)
            .amax(1)
            .masked_fill(~m.any(1, keepdim=True), 0)
        ),
        "This is the state of the last word; take the mean of all.": lambda s, m: (
            torch.stack([s[0, 4], s[1, 2], 0 * s[2, 0]])
        ),
        "The first positions are averaged, as many as the mask has words; but the mask may have gaps.": (
            _first_words
        ),
    },
    hints={
        "must match": "The mask is (b, n), and the states are (b, n, d): write mask[..., None]."
    },
)


def _differences(left: Tensor, right: Tensor) -> Tensor:
    return left[:, :, None] - right[:, None]


def _distances(left: Tensor, right: Tensor) -> Tensor:
    return torch.linalg.vector_norm(_differences(left, right), dim=-1)


def _with_an_equal_word() -> dict[str, Tensor]:
    """One word is on both sides, in whole numbers: every formula gives it the distance 0."""
    left, right = normal(2, 3, 7, seed=35), normal(2, 5, 7, seed=36)
    left[0, 1] = right[0, 3] = left[0, 1].round()
    return {"left": left, "right": right}


MATCH_SCORES = Exercise(
    inputs=_with_an_equal_word(),
    solution=lambda left, right: 1 / (1 + _distances(left, right)),
    mistakes={
        "The root is missing: this is the square of the distance.": lambda x, y: (
            1 / (1 + _distances(x, y).square())
        ),
        "This is the distance; the score is 1 / (1 + distance).": lambda x, y: (
            _distances(x, y)
        ),
        "The 1 in the denominator is missing: equal words would get an infinite score.": lambda x, y: (
            1 / _distances(x, y)
        ),
        "The absolute differences are summed; the distance is Euclidean.": lambda x, y: (
            1 / (1 + _differences(x, y).abs().sum(-1))
        ),
        "The squares are averaged; sum them.": lambda x, y: (
            1 / (1 + _differences(x, y).square().mean(-1).sqrt())
        ),
        "The largest difference is taken; the distance is Euclidean.": lambda x, y: (
            1 / (1 + _differences(x, y).abs().amax(-1))
        ),
        "This is exp(−distance); the score is 1 / (1 + distance).": lambda x, y: (
            _distances(x, y).neg().exp()
        ),
        "This is −distance; the score is 1 / (1 + distance).": lambda x, y: (
            -_distances(x, y)
        ),
        "There is a dot product instead of the distance.": lambda x, y: (
            1 / (1 + x @ y.mT)
        ),
        "This is the cosine; the score is 1 / (1 + distance).": lambda x, y: (
            torch.cosine_similarity(x[:, :, None], y[:, None], dim=-1)
        ),
        "The sum over the features is missing: each pair of words gets one score.": lambda x, y: (
            1 / (1 + _differences(x, y).abs())
        ),
        "There is a softmax; the scores of ABCNN are not normalised.": lambda x, y: (
            1 / (1 + _distances(x, y))
        ).softmax(-1),
        "The rows are made to sum to 1; the scores of ABCNN are not normalised.": lambda x, y: (
            torch.nn.functional.normalize(1 / (1 + _distances(x, y)), p=1, dim=-1)
        ),
    },
    hints={
        "must match": "Each word is compared with each word, so both sides need a new axis: "
        "left (b, m, 1, d), right (b, 1, n, d)."
    },
)


def _multi_head_inputs() -> dict[str, Tensor]:
    """Two texts and eleven heads; one query of the second may attend to nothing."""
    mask = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(37)) < 0.6
    mask[..., 1], mask[..., 4] = True, False
    mask[1, 2] = False
    return {
        "x": normal(2, 3, 7, seed=38),
        "z": normal(2, 5, 7, seed=39),
        "W_Q": normal(11, 7, 13, seed=40) / 7**0.5,
        "W_K": normal(11, 7, 13, seed=41) / 7**0.5,
        "W_V": normal(11, 7, 17, seed=42) / 7**0.5,
        "W_O": normal(11, 17, 7, seed=43) / 17**0.5,
        "mask": mask,
    }


def _output(heads: Tensor, W_O: Tensor) -> Tensor:
    return (heads @ W_O).sum(1)


def _from_z(x: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x, z, z


def _multi_head(
    normalise: Callable[[Tensor, Tensor], Tensor] = masked_softmax,
    join: Callable[[Tensor, Tensor], Tensor] = _output,
    sources: Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]] = _from_z,
) -> Answer:
    """Multi-head attention, as it is or with one step in place of the right one.

    Args:
        normalise: the weights from the scores and the mask.
        join: the output from the heads and ``W_O``.
        sources: what queries, keys and values are projected from, of ``x`` and ``z``.
    """

    def answer(
        x: Tensor,
        z: Tensor,
        W_Q: Tensor,
        W_K: Tensor,
        W_V: Tensor,
        W_O: Tensor,
        mask: Tensor,
    ) -> Tensor:
        asking, asked, averaged = (source[:, None] for source in sources(x, z))
        scores = (asking @ W_Q) @ (asked @ W_K).mT / W_Q.shape[-1] ** 0.5
        return join(normalise(scores, mask[:, None]) @ (averaged @ W_V), W_O)

    return answer


_right = _multi_head()


def _multi_head_divided_by(scale: float) -> Answer:
    return _multi_head(lambda e, m: masked_softmax(13**0.5 / scale * e, m))


def _filled(value: float) -> Answer:
    return _multi_head(lambda e, m: e.masked_fill(~m, value).softmax(-1))


def _alike() -> dict[str, Tensor]:
    """As many queries as keys, and keys as wide as values: confusions fit."""
    return {
        **_multi_head_inputs(),
        "x": normal(2, 5, 7, seed=44),
        "W_Q": normal(11, 7, 17, seed=45) / 7**0.5,
        "W_K": normal(11, 7, 17, seed=46) / 7**0.5,
        "mask": torch.ones(2, 5, 5, dtype=torch.bool).tril(1),
    }


MULTI_HEAD = Exercise(
    inputs=_multi_head_inputs(),
    solution=_right,
    mistakes={
        "The scores are not divided by √d_k.": _multi_head_divided_by(1),
        "The scores are divided by √d; each head has only d_k components, so it is √d_k.": (
            _multi_head_divided_by(7**0.5)
        ),
        "The scores are divided by d_k; it is √d_k.": _multi_head_divided_by(13),
        "The scores are divided by the root of h · d_k, all heads together; it is √d_k.": (
            _multi_head_divided_by(143**0.5)
        ),
        "The mask is ignored: masked keys receive weight, too.": _multi_head(
            lambda e, m: e.softmax(-1)
        ),
        "The mask is inverted: True means that the key may be attended to.": (
            _multi_head(lambda e, m: masked_softmax(e, ~m))
        ),
        "The mask is applied after the softmax, so the weights no longer sum to 1: mask the scores first.": (
            _multi_head(lambda e, m: e.softmax(-1) * m)
        ),
        "Masked scores are set to 0, which is a score like others; set them to −∞.": (
            _filled(0)
        ),
        "A query without a visible key gets NaN, because its weights are 0/0. Put zeros there.": (
            _filled(-torch.inf)
        ),
        "A query without a visible key gets the mean of all values: a softmax of equal scores is uniform.": (
            _filled(-1e9)
        ),
        "A query without a visible key gets the weights without a mask; its output is 0.": (
            _multi_head(lambda e, m: masked_softmax(e, m | ~m.any(-1, keepdim=True)))
        ),
        "The softmax runs over the heads; it runs over the keys, the last axis.": (
            _multi_head(
                lambda e, m: masked_softmax(e.movedim(1, -1), m.movedim(1, -1)).movedim(
                    -1, 1
                )
            )
        ),
        "The softmax runs over the queries; the weights of one query, over the keys, must sum to 1.": (
            _multi_head(lambda e, m: masked_softmax(e.mT, m.mT).mT)
        ),
        "The heads are averaged; with its block of W_O, each is added in full.": _multi_head(
            join=lambda heads, W_O: (heads @ W_O).mean(1)
        ),
        "This is the output of the first head only; add those of all heads.": _multi_head(
            join=lambda heads, W_O: (heads @ W_O)[:, 0]
        ),
        "The outputs of the heads are not yet added: the result has an axis for the heads.": (
            _multi_head(join=lambda heads, W_O: heads @ W_O)
        ),
        "W_O is missing: these are the heads, concatenated.": _multi_head(
            join=lambda heads, W_O: heads.transpose(1, 2).flatten(2)
        ),
        "W_O is missing: these are the heads, not concatenated.": _multi_head(
            join=lambda heads, W_O: heads
        ),
        "The heads are concatenated by a plain reshape, which mixes positions: exchange the axes of head"
        " and position first.": _multi_head(
            join=lambda heads, W_O: heads.reshape(2, 3, 187) @ W_O.flatten(0, 1)
        ),
        "The components are concatenated in another order than the rows of W_O: first all of head 0, then"
        " all of head 1.": _multi_head(
            join=lambda heads, W_O: (
                heads.permute(0, 2, 3, 1).flatten(2) @ W_O.flatten(0, 1)
            )
        ),
    },
    alike=_alike(),
    confusions={
        "The queries come from z; queries come from x, keys and values from z.": (
            _multi_head(sources=lambda x, z: (z, z, z))
        ),
        "The keys come from x; queries come from x, keys and values from z.": (
            _multi_head(sources=lambda x, z: (x, x, z))
        ),
        "The values come from x; queries come from x, keys and values from z.": (
            _multi_head(sources=lambda x, z: (x, z, x))
        ),
        "Keys and values come from x, and z is not used at all.": (
            _multi_head(sources=lambda x, z: (x, x, x))
        ),
        "x and z are swapped: queries come from x, keys and values from z.": (
            _multi_head(sources=lambda x, z: (z, x, x))
        ),
        "The average is that of the keys: the values are projected by W_V.": (
            lambda x, z, W_Q, W_K, W_V, W_O, mask: _right(
                x, z, W_Q, W_K, W_K, W_O, mask
            )
        ),
        "The mask is transposed: its rows are the queries.": (
            lambda x, z, W_Q, W_K, W_V, W_O, mask: _right(
                x, z, W_Q, W_K, W_V, W_O, mask.mT
            )
        ),
    },
    hints={
        "must match|expand|broadcast|mat1|Expected size": "The scores of all heads are (b, h, q, k)."
        " The inputs need an axis for the heads, x[:, None] @ W_Q, and so does the mask, mask[:, None]."
    },
)
EXERCISES = {
    "3.1": MEAN_POOL,
    "3.2": MULTI_HEAD,
    "3.3": MATCH_SCORES,
}
