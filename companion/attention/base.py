"""The one idea of the book: score the keys, normalise under a mask, average the values."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from companion._checks import check_mask


def masked_softmax(
    scores: Float[Tensor, "*b k"], mask: Bool[Tensor, "..."] | None = None
) -> Float[Tensor, "*b k"]:
    """Softmax over the last axis, among the positions that may be attended to.

    ::

        weights_j = mask_j exp(scores_j) / Σ_l mask_l exp(scores_l)

    ``mask`` is boolean and broadcasts to ``scores``; ``True`` means *may attend*. A row in which nothing
    may be attended to gets zero weights, and sends back zero gradient.

    Raises:
        TypeError: the mask is not boolean.
        ValueError: there is no key to attend to (``k`` is 0), or the mask does not broadcast to the scores.
    """
    if scores.shape[-1] == 0:
        raise ValueError(
            f"nothing to attend to: the scores have shape {tuple(scores.shape)}, with no key"
        )
    if mask is None:
        return scores.softmax(-1)
    check_mask(mask, scores.shape)
    empty = ~mask.any(
        -1, keepdim=True
    )  # a row of −∞ alone would give NaN, so it gets finite scores
    hidden = scores.new_full((), -torch.inf).masked_fill(empty, 0)
    return scores.where(mask, hidden).softmax(-1).masked_fill(empty, 0)


def uniform_parameter(*sizes: int) -> nn.Parameter:
    """A parameter that starts as ``nn.Linear`` starts its own: uniform within ±1/√n, n its last size."""
    bound = sizes[-1] ** -0.5
    return nn.Parameter(torch.empty(sizes).uniform_(-bound, bound))


class Attention(nn.Module, ABC):
    """Every mechanism of the book that scores keys: a subclass says how, in :meth:`score`.

    ::

        context = weights · value,   weights = masked_softmax(score(query, key), mask)

    :meth:`weights` is the definition. A subclass may compute :meth:`forward` in another way, if it is
    equal. Leading axes ``*b`` are batch, so heads are just more batch.
    """

    causal = False  #: whether no query sees, even without a mask, a key after its own position
    placed = False  #: whether a look depends on the query's own place, which one query alone does not tell
    keys_placed = False  #: whether a score depends on where its key stands, not only on what is in it
    hides = False  #: whether it hides keys by a rule of its own, which its scores do not tell

    def project(
        self, source: Float[Tensor, "*b k s"]
    ) -> tuple[Float[Tensor, "*b k d"], Float[Tensor, "*b k v"]]:
        """Key and value of a source, computed once however many queries follow. Here: the source itself."""
        return source, source

    @abstractmethod
    def score(
        self, query: Float[Tensor, "*b q d"], key: Float[Tensor, "*b k e"]
    ) -> Float[Tensor, "*b q k"]:
        """How well each key answers each query, as any real number."""

    def weights(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q k"]:
        """The share of each key in each query's context; a row sums to 1, or to 0 where all is masked.

        Raises:
            TypeError, ValueError: as :func:`masked_softmax`, or sizes do not fit.
        """
        return masked_softmax(self.score(query, key), mask)

    def forward(
        self,
        query: Float[Tensor, "*b q d"],
        key: Float[Tensor, "*b k e"],
        value: Float[Tensor, "*b k v"],
        mask: Bool[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*b q v"]:
        """The context of each query: the average of the values under :meth:`weights`.

        A mask of the source alone, ``(b, k)``, enters as ``mask[:, None]``. What is masked must still be a
        number: a NaN in a value stays one, even times zero.

        Raises:
            ValueError: sizes do not fit, the source is empty, or the mask does not fit ``(*b, q, k)``.
            TypeError: the mask is not boolean.
        """
        if key.shape[-2] != value.shape[-2]:
            raise ValueError(
                f"{key.shape[-2]} keys but {value.shape[-2]} values: each key needs one value"
            )
        return self.weights(query, key, mask) @ value
