"""The one idea of the book: score the keys, normalise under a mask, average the values."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._checks import check_inputs, check_mask


def masked_softmax(
    scores: Float[Tensor, "*b k"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*b k"]:
    """Softmax over the last axis, among the positions that may be attended to.

    ::

        weights_j = mask_j exp(scores_j) / Σ_l mask_l exp(scores_l)

    A row in which every position is masked gets zero weights and sends back zero gradient.

    Args:
        scores: any real numbers.
        mask: boolean, ``True`` = may attend. It has as many axes as the scores, each of
            their size or 1; or it is one ``(q, k)`` or ``(k,)`` for the whole batch.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: there is no key, or the mask does not fit the scores. A mask
            ``(b, k)`` that would fit ``(q, k)`` only because b = q is refused as well.

    Example:
        >>> masked_softmax(torch.zeros(3), torch.tensor([True, True, False]))
        tensor([0.5000, 0.5000, 0.0000])
    """
    if scores.shape[-1] == 0:
        raise ValueError(
            f"nothing to attend to: scores of shape {tuple(scores.shape)} have no key"
        )
    if mask is None:
        return scores.softmax(-1)
    check_mask(mask, scores.shape)
    # A row of −∞ alone would give NaN, so a fully masked row gets finite scores.
    empty = ~mask.any(-1, keepdim=True)
    masked = scores.new_full((), -torch.inf).masked_fill(empty, 0)
    return scores.where(mask, masked).softmax(-1).masked_fill(empty, 0)


class Attention(nn.Module, ABC):
    """The contract of every mechanism that scores keys; a subclass writes :meth:`score`.

    ::

        context = weights · value,   weights = masked_softmax(score(query, key), mask)

    :meth:`weights` is the definition. A subclass may compute :meth:`forward` in another
    way that gives the same. Leading axes ``*b`` are batch; heads are one more of them.

    ``query_position`` says where each query stands among the positions of the keys, as
    integers ``(q,)`` or ``(b, q)``. By default the queries are the last positions, as in
    cached decoding. Most mechanisms do not depend on it; those that do say so in
    ``uses_query_position``.

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
    has_own_mask = False  #: whether it masks keys by a rule that its scores do not show

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value of a source, computed once for all queries. Here: the source."""
        return source, source

    @abstractmethod
    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """How well each key matches each query: any real number.

        Where ``uses_query_position`` is true, ``query_position`` follows the key.
        """

    def score_at(
        self, query: Tensor, key: Tensor, query_position: Tensor | None
    ) -> Float[Tensor, "*b q k"]:
        """:meth:`score`, with the position for the mechanisms that depend on it."""
        if self.uses_query_position:
            positioned: Any = self.score
            return positioned(query, key, query_position)
        return self.score(query, key)

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The attention weights: a row sums to 1, or to 0 where all keys are masked.

        Raises:
            TypeError, ValueError: as :func:`masked_softmax`, or sizes do not fit.
        """
        check_inputs(query, key)
        return masked_softmax(self.score_at(query, key, query_position), mask)

    def attend(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> tuple[Float[Tensor, "*b q v"], Float[Tensor, "*b q k"]]:
        """Context and weights, for a decoder that reports what it attended to.

        Raises:
            TypeError, ValueError: as :meth:`forward`.
        """
        check_inputs(query, key, value)
        weights = self.weights(query, key, mask, query_position)
        return weights @ value, weights

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
        query_position: Int[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context of each query: the average of the values under :meth:`weights`.

        Args:
            query, key, value: key and value are what :meth:`project` returned.
            mask: boolean, ``True`` = may attend, ``(*b, q, k)`` with sizes of 1 where it
                is the same, or ``(q, k)``. A source mask ``(b, k)`` is ``mask[:, None]``.
            query_position: where the queries stand among the keys' positions.

        A masked value must still be a number: NaN times a weight of zero is NaN.

        Raises:
            ValueError: sizes do not fit, the source is empty, or the mask does not fit.
            TypeError: the mask is not boolean, or the positions are not integers.
        """
        return self.attend(query, key, value, mask, query_position)[0]

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy, without what a recording has put in its methods' way."""
        return {
            name: value
            for name, value in vars(self).items()
            if not getattr(value, "records_weights", False)
        }


def uniform_parameter(*sizes: int) -> nn.Parameter:
    """A parameter initialised as ``nn.Linear`` does: uniform in ±1/√n, n its last size."""
    return nn.Parameter(reset_uniform(torch.empty(sizes)))


@torch.no_grad()
def reset_uniform(parameter: Tensor) -> Tensor:
    """Initialise a tensor again, in place, as :func:`uniform_parameter` does."""
    bound = parameter.shape[-1] ** -0.5
    return parameter.uniform_(-bound, bound)
