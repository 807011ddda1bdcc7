"""Rotary position embeddings (Su et al. 2021): scores that depend on the distance i − j."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float, Int
from torch import Tensor

from companion._checks import (
    check_above_zero,
    check_continues,
    check_even,
    check_frequencies,
    check_positive,
    check_same_features,
    query_positions,
)
from companion.attention.base import Attention
from companion.attention.query_key_norm import QueryKeyNorm
from companion.attention.types import Positions
from companion.attention.wrappers import Prepared


def rotary_frequencies(size: int, base: float = 10000.0) -> Float[Tensor, " t"]:
    """The angle by which each pair of dimensions turns from one position to the next.

    ::

        θ_t = base^(−2t/d),   t = 0, …, d/2 − 1

    For texts longer than in training they are made slower: with a larger base; divided by
    s, which is *position interpolation* (Chen et al. 2023); or by :func:`yarn_frequencies`.
    A pair of frequency 0 is not rotated.

    Args:
        size: the number of features of a head, d.
        base: 10,000 in the paper.

    Returns:
        Numbers of float64 on the CPU, whatever the default device is: they are settings.

    Source: Su et al. 2021, equation (15).

    Example:
        >>> rotary_frequencies(4, base=100.0)
        tensor([1.0000, 0.1000], dtype=torch.float64)
    """
    check_even(size=size)
    check_above_zero(base=base)
    even = torch.arange(0, size, 2, dtype=torch.float64, device="cpu")
    return base ** (-even / size)


def yarn_frequencies(
    frequencies: Float[Tensor, " t"],
    scale: float,
    trained: int,
    slow: float = 1.0,
    fast: float = 32.0,
) -> Float[Tensor, " t"]:
    """Frequencies for longer texts than in training: slow pairs are stretched, fast ones stay.

    ::

        θ'_t = (1 − γ(r_t)) θ_t / s + γ(r_t) θ_t,   r_t = trained · θ_t / 2π
        γ(r) = 0 below slow, 1 above fast, and (r − slow) / (fast − slow) between

    r is the number of turns that a pair makes in a text of the training. YaRN also
    divides the scores by :func:`yarn_temperature`:
    ``Rotary(CausalAttention(scale=1 / (t * d**0.5)), frequencies=…)``.

    Args:
        frequencies: those of the training, as of :func:`rotary_frequencies`.
        scale: s, how many times longer the texts become.
        trained: the number of positions of a text in training.
        slow, fast: the numbers of turns up to which a pair is stretched by s, and from
            which it stays; α = 1 and β = 32 in the paper, for models of Llama.

    Source: Peng et al. 2023 (YaRN), section 3.2, *NTK-by-parts*.
    Deviation: much code ramps linearly in the number of the pair, t; the paper, and
    ours, in its turns, r.

    Example:
        >>> before = rotary_frequencies(8)
        >>> yarn_frequencies(before, scale=4, trained=128, fast=16) / before
        tensor([1.0000, 0.3019, 0.2500, 0.2500], dtype=torch.float64)
    """
    check_above_zero(scale=scale, slow=slow, fast=fast - slow)
    check_positive(trained=trained)
    turns = trained * frequencies / (2 * math.pi)
    kept = ((turns - slow) / (fast - slow)).clamp(0, 1)
    return (1 - kept) * frequencies / scale + kept * frequencies


def yarn_temperature(scale: float) -> float:
    """What YaRN divides scores by, so that the softmax over more keys stays as sharp.

    ::

        √(1/t) = 0.1 ln s + 1

    Args:
        scale: s, how many times longer than in training the texts are.

    Source: Peng et al. 2023 (YaRN), section 3.4.

    Example:
        >>> round(yarn_temperature(4), 3)
        0.771
    """
    check_above_zero(scale=scale)
    return (0.1 * math.log(scale) + 1) ** -2


def rotate(
    x: Float[Tensor, "*b n d"],
    position: Int[Tensor, "..."],
    base: float = 10000.0,
    frequencies: Sequence[float] | Float[Tensor, " t"] | None = None,
) -> Float[Tensor, "*b n d"]:
    """Each vector, rotated pair by pair of its dimensions by angles that grow with its position.

    ::

        (x_2t, x_2t+1) ← (x_2t cos mθ_t − x_2t+1 sin mθ_t,
                          x_2t sin mθ_t + x_2t+1 cos mθ_t),   θ_t = base^(−2t/d)

    where m is the position. The norm of a vector does not change, and the dot product of
    two rotated vectors depends on the difference of their positions alone.

    Args:
        x: the vectors, of an even number of features. float64 is kept; all else is
            computed in float32 and returned in its own type.
        position: integers ``(n,)``, or with axes that broadcast to the leading axes of x.
        base: 10,000 in the paper. A larger base makes the slow pairs slower.
        frequencies: the θ_t themselves, instead of those of the base.

    Source: Su et al. 2021, equations (15) and (34).

    Example:
        >>> x = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
        >>> rotate(x, torch.tensor([0, 1]))
        tensor([[1.0000, 0.0000],
                [0.5403, 0.8415]])
    """
    check_even(features=x.shape[-1])
    check_above_zero(base=base)
    return _rotated(x, *_cos_and_sin(x, position, base, frequencies))


def _cos_and_sin(
    x: Float[Tensor, "*b n d"],
    position: Int[Tensor, "..."],
    base: float,
    frequencies: Sequence[float] | Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Cosine and sine of each pair's angle, ``(…, n, d/2)``, in float32 at least."""
    exact = torch.promote_types(x.dtype, torch.float32)
    size = x.shape[-1]
    kind: dict[str, Any] = {"dtype": exact, "device": x.device}
    if frequencies is None:
        theta = base ** (-torch.arange(0, size, 2, **kind) / size)
    else:
        check_frequencies(len(frequencies), size)
        theta = torch.as_tensor(frequencies, **kind)
    angle = position.to(exact)[..., None] * theta
    return angle.cos(), angle.sin()


def _rotated(
    x: Float[Tensor, "*b n d"], cos: Tensor, sin: Tensor
) -> Float[Tensor, "*b n d"]:
    """Each pair of dimensions, rotated by its angle."""
    first, second = x[..., 0::2], x[..., 1::2]
    pairs = torch.stack([first * cos - second * sin, first * sin + second * cos], -1)
    return pairs.flatten(-2).to(x.dtype)


class Rotary(Prepared):
    """Rotary position embeddings: queries and keys are rotated by their positions, values are not.

    ::

        e_ij = score(R_i q_i, R_j k_j),   with dot products  q_iᵀ R_(j−i) k_j

    R_m rotates pairs of dimensions, see :func:`rotate`. Because R_iᵀ R_j = R_(j−i), the
    score of a dot product depends on the distance and not on the two positions.

    In decoding (:meth:`extend`) a key is rotated once, by its position in the text, and
    then kept, so no step rotates earlier keys again.

    Args:
        attention: what is computed with the rotated queries and keys, such as
            ``CausalAttention()``, with a score made of dot products.
        base: 10,000 in the paper.
        frequencies: how far each pair turns from one position to the next, instead of by
            the base, such as :func:`yarn_frequencies`. They are kept as numbers, not as a
            buffer, which ``half()`` would round.

    Raises:
        TypeError: ``attention`` is a
            :class:`~companion.attention.query_key_norm.QueryKeyNorm`, which belongs
            outside.

    Source: Su et al. 2021 (RoFormer), section 3.2, equations (14) to (16), (34).
    Deviation: code for Llama rotates dimension t together with t + d/2 instead of 2t with
    2t + 1. :func:`adjacent_pairs` converts its matrices. In linear attention the paper
    (section 3.3) rotates the features φ(q) and φ(k); here q and k are rotated before φ, so
    the scores of linear attention depend on both positions.

    Example:
        >>> from companion.attention import CausalAttention
        >>> attention, x = Rotary(CausalAttention()), torch.randn(1, 6, 8)
        >>> attention(x, x, x).shape
        torch.Size([1, 6, 8])
    """

    uses_query_position = uses_key_position = True

    def __init__(
        self,
        attention: Attention,
        base: float = 10000.0,
        frequencies: Sequence[float] | Float[Tensor, " t"] | None = None,
    ):
        super().__init__(attention)
        if isinstance(attention, QueryKeyNorm):
            raise TypeError(
                "Rotary cannot contain QueryKeyNorm: after a rotation, its gains make scores "
                "depend on absolute positions. Norm first: QueryKeyNorm(size, Rotary(...))"
            )
        check_above_zero(base=base)
        self.base = base
        self.frequencies = as_numbers(frequencies)
        self.settings = ("base",) if frequencies is None else ("frequencies",)

    def prepare(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*c k e"],
        query_position: Positions,
    ) -> tuple[Float[Tensor, "*b q d"], Float[Tensor, "*c k e"]]:
        """Query and key, each rotated by its position; the first key is at position 0."""
        check_same_features(query, key)
        i = query_positions(query, key.shape[-2], query_position)
        j = torch.arange(key.shape[-2], device=key.device)
        turn = self.base, self.frequencies
        return rotate(query, i, *turn), rotate(key, j, *turn)

    def extend(
        self,
        query: Float[Tensor, "b *h m d"],
        key: Float[Tensor, "b *g m e"],
        value: Float[Tensor, "b *g m v"],
        state: Any,
    ) -> tuple[Float[Tensor, "b *h m v"], Any]:
        """The contexts of the next positions; the state has their keys, rotated."""
        check_continues(self, state, query, key, value)
        check_same_features(query, key)
        check_even(features=query.shape[-1])
        position = next_positions(query, state.seen)
        turn = _cos_and_sin(query, position, self.base, self.frequencies)  # of both
        query, key = _rotated(query, *turn), _rotated(key, *turn)
        return self.attention.extend(query, key, value, state)


class CacheRotary(Rotary):
    """Rotary position embeddings by the position in the cache instead of in the text.

    With a cache of constant size, such as that of
    :class:`~companion.attention.sliding_window.SinkAttention`, no distance is then larger
    than the cache, however long the text: a model never meets a distance that it was not
    trained on. The keys are kept unrotated and rotated at every step. Until the cache
    forgets its first key, all is as with :class:`Rotary`; after that, the positions of a
    long prompt are computed sequentially. Without a cache, ``forward`` rotates by
    the positions in the text.

    Args:
        attention, base, frequencies: as of :class:`Rotary`.

    Source: Xiao et al. 2024 (StreamingLLM), section 3.2.

    Example:
        >>> from companion.attention import SinkAttention
        >>> attention, x = CacheRotary(SinkAttention(window=4, sinks=1)), torch.randn(1, 9, 8)
        >>> context, cache = attention.extend(x, x, x, attention.start(x, x))
        >>> cache.key.shape
        torch.Size([1, 4, 8])
    """

    def __init__(
        self,
        attention: Attention,
        base: float = 10000.0,
        frequencies: Sequence[float] | Float[Tensor, " t"] | None = None,
    ):
        super().__init__(attention, base, frequencies)
        if type(attention).extend is not Attention.extend:
            raise TypeError(
                f"{type(self).__name__} cannot use {type(attention).__name__}, which does "
                f"not decode with a cache of keys: use SinkAttention or another that does"
            )

    def extend(
        self,
        query: Float[Tensor, "b *h m d"],
        key: Float[Tensor, "b *g m e"],
        value: Float[Tensor, "b *g m v"],
        state: Any,
    ) -> tuple[Float[Tensor, "b *h m v"], Any]:
        """The contexts of the next positions, as if they came one by one."""
        check_continues(self, state, query, key, value)
        lengths, contexts = self._lengths(key, value, state), []
        parts = (x.split(lengths, -2) for x in (query, key, value))
        for q, k, v in zip(*parts, strict=True):
            context, state = Attention.extend(self, q, k, v, state)
            contexts.append(context)
        return torch.cat(contexts, -2), state

    def _lengths(self, key: Tensor, value: Tensor, state: Any) -> list[int]:
        """How many positions to compute at once: first those that fit the cache, then single ones."""
        new = key.shape[-2]
        if new < 2:
            return [new]
        cache = state.extended(key, value)
        forgotten = cache.key.shape[-2] - self.forget(cache).key.shape[-2]
        single = max(0, forgotten - 1)  # the last position of a part may make it forget
        return [new - single, *single * [1]]


def as_numbers(
    frequencies: Sequence[float] | Float[Tensor, " t"] | None,
) -> tuple[float, ...] | None:
    """Frequencies as numbers, which no change of a module's precision rounds."""
    return None if frequencies is None else tuple(float(x) for x in frequencies)


def next_positions(x: Tensor, seen: int | Tensor) -> Int[Tensor, "..."]:
    """The positions of vectors ``(b, …, m, d)`` after ``seen`` earlier ones, or ``(b,)`` of them."""
    new = torch.arange(x.shape[-2], device=x.device)
    if not isinstance(seen, Tensor):
        return seen + new
    return seen.view(-1, *(1,) * (x.ndim - 2)) + new


def adjacent_pairs(
    weight: Float[Tensor, "hd ..."], heads: int
) -> Float[Tensor, "hd ..."]:
    """A projection for rotations of dimensions t and t + d/2, converted for those of 2t and 2t + 1.

    The order of the dimensions of queries and keys makes no difference to their dot
    products, if it is the same for both. Values are not rotated, and need no conversion.

    Args:
        weight: the matrix or bias of the queries or keys of all heads, ``(h d, …)``.
        heads: the number of heads in it.

    Example:
        >>> adjacent_pairs(torch.tensor([0, 1, 2, 3, 10, 11, 12, 13.0]), heads=2)
        tensor([ 0.,  2.,  1.,  3., 10., 12., 11., 13.])
    """
    check_positive(heads=heads)
    if weight.shape[0] % (2 * heads):
        raise ValueError(
            f"{weight.shape[0]} rows are not {heads} heads of an even size, which a "
            f"rotation of pairs needs"
        )
    return rearrange(weight, "(h two t) ... -> (h t two) ...", h=heads, two=2)
