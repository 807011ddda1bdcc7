"""The contract of every mechanism: score the keys, normalise the scores, average the values."""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import dropout

from companion._checks import (
    check_causal,
    check_continues,
    check_fraction,
    check_heads_divide,
    check_inputs,
    check_keywords,
    check_scores,
)
from companion.attention.cache import KVCache
from companion.attention.types import Mask, Positions


def masked_softmax(
    scores: Float[Tensor, "*b k"], mask: Mask = None
) -> Float[Tensor, "*b k"]:
    """Softmax over the last axis, restricted to the positions that may be attended to.

    ::

        weights_j = mask_j exp(scores_j) / Σ_l mask_l exp(scores_l)

    A row in which every position is masked has zero weights, and its gradient is zero.

    Args:
        scores: any real numbers.
        mask: boolean, ``True`` = may attend. It has as many axes as the scores, each of
            the same size or 1, or it is one ``(q, k)`` or ``(k,)`` for the whole batch.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: there is no key, or the mask does not fit the scores. A mask with two
            axes is also refused if its rows could be those of the batch, because b = q.

    Example:
        >>> masked_softmax(torch.zeros(3), torch.tensor([True, True, False]))
        tensor([0.5000, 0.5000, 0.0000])
    """
    check_scores(scores, mask)
    if mask is None:
        return scores.softmax(-1)
    # The softmax of a row of −∞ would be NaN, so a fully masked row gets scores of 0.
    empty = ~mask.any(-1, keepdim=True)
    masked = scores.new_full((), -torch.inf).masked_fill(empty, 0)
    return scores.where(mask, masked).softmax(-1).masked_fill(empty, 0)


class Attention(nn.Module, ABC):
    """The base class of all mechanisms that score keys. A subclass defines :meth:`score`.

    ::

        context = weights · value,   weights = masked_softmax(score(query, key), mask)

    A subclass whose scores become weights in another way defines :meth:`compute_weights`
    too, and one that has a faster way to the same context :meth:`compute_context`.
    :meth:`weights`, :meth:`attend` and :meth:`forward` check the inputs and record what
    they compute, so they stay as they are. The leading axes ``*b`` are the batch;
    attention heads are one more such axis.

    Example:
        >>> class Sharp(Attention):
        ...     def score(self, query, key):
        ...         return 10 * query @ key.mT
        >>> attention, source = Sharp(), torch.eye(3)[None]
        >>> key, value = attention.project(source)
        >>> attention.weights(source, key).argmax(-1)
        tensor([[0, 1, 2]])
    """

    causal = False  #: whether, even without a mask, no query attends to a later key
    uses_query_position = False  #: whether a weight depends on the query's position
    uses_key_position = False  #: whether a score depends on the key's position
    has_own_weights = False  #: whether weights are not the masked softmax of the scores
    gates = 0  #: how many features of a key, its last, are no features but gates
    state_type: type = KVCache  #: what it keeps while decoding
    dropout = 0.0  #: the probability that a weight is 0 in training, see set_dropout
    fuses_dropout = False  #: whether compute_context applies the dropout by itself
    settings: tuple[str, ...] = ()  #: the attributes that ``print`` shows
    _recorded: tuple[list[Tensor], ...] = ()  # by record_weights, while it is open

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value of a source, computed once for all queries. Default: the source.

        FSDP2's ``fully_shard`` gathers the weights of a module for its ``forward`` alone,
        which is enough for a layer or a model around the attention. Where the attention
        itself is sharded, register the other methods that are called, such as
        ``project``, by ``register_fsdp_forward_method``.
        """
        return source, source

    @abstractmethod
    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """The score of each key for each query: any real number.

        Where ``uses_query_position`` is true, ``query_position`` is the third argument.
        Scores of 16 bits would overflow or be rounded too coarsely for the softmax:
        :func:`precise_matmul` returns at least 32.
        """

    def score_at(
        self, query: Tensor, key: Tensor, query_position: Positions
    ) -> Float[Tensor, "*b q k"]:
        """:meth:`score`, which gets the position only if the mechanism depends on it."""
        if self.uses_query_position:
            score: Any = self.score
            return score(query, key, query_position)
        return self.score(query, key)

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Mask = None,
        query_position: Positions = None,
    ) -> Float[Tensor, "*b q k"]:
        """The attention weights: a row sums to 1 (to less in LocalP), or to 0 if it may attend to no key."""
        check_inputs(query, key, key, mask)
        return self._record(self._dropped(query, key, mask, query_position))

    def attend(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Mask = None,
        query_position: Positions = None,
    ) -> tuple[Float[Tensor, "*b q v"], Float[Tensor, "*b q k"]]:
        """Context and weights, for a decoder that reports what it attended to."""
        check_inputs(query, key, value, mask)
        if self.dropout and self.training:
            weights = self._dropped(query, key, mask, query_position)
            return weights @ value, self._record(weights)
        context, weights = self.compute_both(query, key, value, mask, query_position)
        return context, self._record(weights)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Mask = None,
        query_position: Positions = None,
        **others: Any,
    ) -> Float[Tensor, "*b q v"]:
        """The context of each query: the average of the values under :meth:`weights`.

        A masked key, its score and a masked value must still be finite numbers, because
        NaN times a weight of 0 is NaN.

        Args:
            query: what is compared with the keys.
            key, value: what :meth:`project` returned.
            mask: boolean, ``True`` = may attend: ``(*b, q, k)``, where an axis may have
                size 1, or ``(q, k)``. Write a source mask ``(b, k)`` as ``mask[:, None]``,
                and a ``(q, k)`` one for a batch as ``mask[None]``: with b = q, it is
                refused as ambiguous.
            query_position: the position of each query among those of the keys: integers
                ``(q,)``, or ``(*b, q)``, where an axis may have size 1. By default the
                queries are the last positions, as in decoding with a KV cache. Mechanisms
                whose weights do not depend on it ignore it.
            others: none; PyTorch's names of masks get a sentence that says ours.

        Raises:
            ValueError: the source is empty, or mask or positions do not fit.
            TypeError: the mask is not boolean, or the positions are not integers.
        """
        check_keywords(self, others)
        check_inputs(query, key, value, mask)
        drops = self.dropout and self.training and not self.fuses_dropout
        if self._recorded or drops:
            return self.attend(query, key, value, mask, query_position)[0]
        return self.compute_context(query, key, value, mask, query_position)

    def compute_weights(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The weights of inputs that fit; by default the softmax of the scores."""
        scores = self.score_at(query, key, position)
        return masked_softmax(scores, mask).to(query.dtype)

    def compute_both(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> tuple[Tensor, Tensor]:
        """The context and the weights of inputs that fit, the weights by their definition."""
        weights = self.compute_weights(query, key, mask, position)
        return weights @ value, weights

    def compute_context(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The context of inputs that fit, in the fastest way."""
        return self.compute_both(query, key, value, mask, position)[0]

    def set_dropout(self, probability: float) -> None:
        """Drop weights in training, as ``nn.MultiheadAttention`` does.

        Each weight becomes 0 with this probability, and the others are divided by its
        complement. All n² weights are then computed in training, except by
        :class:`~companion.attention.scores.ScaledDot` and
        :class:`~companion.attention.causal.CausalAttention`, whose kernels drop them.
        """
        check_fraction(dropout=probability)
        self.dropout = probability
        self.has_own_weights = type(self).has_own_weights or probability > 0

    def _dropped(
        self, query: Tensor, key: Tensor, mask: Mask, position: Positions
    ) -> Tensor:
        """The weights, of which some are dropped in training."""
        weights = self.compute_weights(query, key, mask, position)
        p = self.dropout
        return dropout(weights, p, self.training) if p else weights

    def _record(self, weights: Tensor) -> Tensor:
        for found in self._recorded:
            found.append(weights.detach())
        return weights

    def start(
        self, key: Float[Tensor, "b *g n e"], value: Float[Tensor, "b *g n v"]
    ) -> Any:
        """The state of causal decoding before the first position.

        Of key and value, only their shapes and dtypes are used. A state is a tuple of
        tensors, the batch first, whose attribute ``seen`` says how many positions there
        were.
        """
        check_causal(self, "step-by-step decoding")
        return KVCache(key[..., :0, :], value[..., :0, :])

    def extend(
        self,
        query: Float[Tensor, "b *h m d"],
        key: Float[Tensor, "b *g m e"],
        value: Float[Tensor, "b *g m v"],
        state: Any,
    ) -> tuple[Float[Tensor, "b *h m v"], Any]:
        """The contexts of the next m positions, and the state after them.

        By default the state is a KV cache; a mechanism that needs less of the past keeps
        less. With h heads of queries, each of g heads of keys and values serves h/g of
        them, in order.

        Args:
            query, key, value: of the next positions.
            state: what ``start`` or the last call returned.

        Raises:
            TypeError: the state is that of another kind of attention.
            ValueError: it has another batch, or another number of heads; or it was kept
                for a smaller window.
        """
        check_continues(self, state, query, key, value)
        cache = self.forget(state).extended(key, value)
        return self.last_contexts(query, cache.key, cache.value), self.forget(cache)

    def last_contexts(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The contexts of the last positions, whose heads may share keys and values."""
        return self(query, repeat_heads(query, key), repeat_heads(query, value))

    def forget(self, cache: Any) -> Any:
        """The part of a cache that later positions may attend to: by default all of it."""
        return cache

    def extra_repr(self) -> str:
        """The settings, for ``print``."""
        return show_settings(self, *self.settings)


def repeat_heads(
    query: Float[Tensor, "*b q d"], heads: Float[Tensor, "*c k e"]
) -> Float[Tensor, "*b k e"]:
    """Keys or values ``(*b, g, k, e)``, each once for every query head that it serves, in order.

    ::

        head i of the queries uses head ⌊i g / h⌋ of the g key–value heads

    Example:
        >>> repeat_heads(torch.zeros(4, 1, 2), torch.arange(2.0).view(2, 1, 1)).flatten()
        tensor([0., 0., 1., 1.])
    """
    if query.ndim < 3 or query.shape[-3] == heads.shape[-3]:
        return heads
    check_heads_divide(query.shape[-3], heads.shape[-3])
    return heads.repeat_interleave(query.shape[-3] // heads.shape[-3], -3)


def show_settings(module: nn.Module, *names: str) -> str:
    """Attributes of a module as ``name=value, …``."""
    return ", ".join(f"{name}={getattr(module, name)!r}" for name in names)


def uniform_parameter(*sizes: int) -> nn.Parameter:
    """A parameter initialised as in ``nn.Linear``, by :func:`reset_uniform`."""
    return nn.Parameter(reset_uniform(torch.empty(sizes)))


@torch.no_grad()
def reset_uniform(parameter: Tensor) -> Tensor:
    """Initialise a tensor in place as in ``nn.Linear``: uniform in ±1/√n, n its last size."""
    bound = parameter.shape[-1] ** -0.5
    return parameter.uniform_(-bound, bound)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """A block in which autocast is off; the meta device has no autocast."""
    if device.type == "meta" or not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def at_least_float32(x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """Numbers of 16 bits in float32, all others as they are."""
    return x.float() if x.dtype.itemsize < 4 else x


def precise_matmul(
    left: Float[Tensor, "..."], right: Float[Tensor, "..."]
) -> Float[Tensor, "..."]:
    """``left @ right``, in float32 at least, also under autocast.

    Example:
        >>> x = torch.full((2,), 300.0, dtype=torch.float16)
        >>> x @ x, precise_matmul(x, x)
        (tensor(inf, dtype=torch.float16), tensor(180000.))
    """
    with without_autocast(left.device):
        return at_least_float32(left) @ at_least_float32(right)
