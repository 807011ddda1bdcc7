"""Position rules: which positions may attend to which.

A rule takes tensors of query positions ``i`` and key positions ``j``, which broadcast, and
returns ``True`` where position i may attend to position j. One rule defines the mask, the
result that a fast kernel must equal, and the blocks that the kernel may skip. Rules are
values: they can be compared, hashed, pickled and printed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from companion._checks import (
    check_positive,
    check_rule,
    query_positions,
    score_shape,
)
from companion.attention.types import Mask, Positions


class Rule(ABC):
    """Whether position ``i`` may attend to position ``j``, for tensors of positions.

    Any other function of ``(i, j)`` is accepted as a rule too. Only a ``Rule`` can say, by
    ``relative``, that it depends on i − j alone, which tiled kernels need. Its ``sizes``
    are the fields of its class.
    """

    relative = False  #: whether the rule depends on i − j alone

    def __init__(self, *sizes: int) -> None:
        if sizes:
            name = type(self).__name__
            raise TypeError(
                f"{name}() is a rule without sizes: its mask is "
                f"masks.dense(masks.{name}(), {sizes[0]})"
            )

    @abstractmethod
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        """``True`` where position ``i`` may attend to position ``j``."""


class _OfSizes(Rule):
    """A rule whose fields are sizes."""

    def __post_init__(self) -> None:
        check_positive(**vars(self))


#: A :class:`Rule`, or any function with its arguments and result.
RuleFunction = Rule | Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, init=False)
class causal(Rule):  # noqa: N801 - used as a function
    """Each position attends to itself and to the positions before it: ``j ≤ i``.

    Example:
        >>> causal()(torch.tensor(2), torch.arange(4))
        tensor([ True,  True,  True, False])
    """

    relative = True

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return j <= i


@dataclass(frozen=True, init=False)
class anywhere(Rule):  # noqa: N801
    """Each position attends to every position.

    Example:
        >>> anywhere()(torch.tensor(2), torch.arange(4))
        tensor([True, True, True, True])
    """

    relative = True

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return abs(i - j) >= 0


@dataclass(frozen=True)
class local(_OfSizes):  # noqa: N801
    """Each position attends to its neighbours up to ``radius`` away: ``|i − j| ≤ radius``.

    Source: Su 2019.

    Example:
        >>> local(1)
        local(radius=1)
        >>> local(1)(torch.tensor(2), torch.arange(4))
        tensor([False,  True,  True,  True])
    """

    radius: int
    relative = True

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return abs(i - j) <= self.radius


@dataclass(frozen=True)
class sliding_window(_OfSizes):  # noqa: N801
    """Each position attends to the last ``size`` positions: ``0 ≤ i − j < size``.

    Source: Beltagy et al. 2020, section 3.1, to one side.

    Example:
        >>> sliding_window(2)(torch.tensor(2), torch.arange(4))
        tensor([False,  True,  True, False])
    """

    size: int
    relative = True

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return (j <= i) & (i - j < self.size)


@dataclass(frozen=True)
class first_positions(_OfSizes):  # noqa: N801
    """Each position attends to the first ``count`` positions: ``j < count``.

    Source: Xiao et al. 2024, section 3.2: attention sinks.

    Example:
        >>> first_positions(2)(torch.tensor(3), torch.arange(4))
        tensor([ True,  True, False, False])
    """

    count: int

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return j < self.count


@dataclass(frozen=True)
class atrous(_OfSizes):  # noqa: N801
    """Each position attends to every ``rate``-th position: ``(i − j) mod rate = 0``.

    Source: Su 2019.

    Example:
        >>> atrous(2)(torch.tensor(2), torch.arange(4))
        tensor([ True, False,  True, False])
    """

    rate: int
    relative = True

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return (i - j) % self.rate == 0


@dataclass(frozen=True)
class same_block(_OfSizes):  # noqa: N801
    """Each position attends to the positions of its block: ``⌊i / size⌋ = ⌊j / size⌋``."""

    size: int

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return i // self.size == j // self.size


@dataclass(frozen=True)
class block_ends(_OfSizes):  # noqa: N801
    """Each position attends to the last ``count`` positions of each block.

    ::

        j mod size ≥ size − count
    """

    size: int
    count: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.count > self.size:
            raise ValueError(
                f"a block of {self.size} positions has no last {self.count}"
            )

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return j % self.size >= self.size - self.count


@dataclass(frozen=True)
class Combination(Rule):
    """A rule made of a ``first`` and a ``second``; it is relative if both of them are."""

    first: RuleFunction
    second: RuleFunction

    def __post_init__(self) -> None:
        check_rule(self.first)
        check_rule(self.second)

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return all(
            getattr(rule, "relative", False) for rule in (self.first, self.second)
        )


@dataclass(frozen=True)
class union(Combination):  # noqa: N801
    """Position i attends to j where the ``first`` or the ``second`` rule allows it.

    Example:
        >>> union(causal(), local(1))(torch.tensor(1), torch.arange(4))
        tensor([ True,  True,  True, False])
    """

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return self.first(i, j) | self.second(i, j)


@dataclass(frozen=True)
class intersection(Combination):  # noqa: N801
    """Position i attends to j where the ``first`` and the ``second`` rule allow it.

    Example:
        >>> intersection(causal(), local(1))(torch.tensor(2), torch.arange(4))
        tensor([False,  True,  True, False])
    """

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return self.first(i, j) & self.second(i, j)


@dataclass(frozen=True)
class difference(Combination):  # noqa: N801
    """Position i attends to j where the ``first`` rule allows it and the ``second`` does not.

    Example:
        >>> difference(causal(), local(1))(torch.tensor(2), torch.arange(4))
        tensor([ True, False, False, False])
    """

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return self.first(i, j) & ~self.second(i, j)


def strided_local(stride: int) -> Rule:
    """The first half of :func:`strided`: the position itself and the ``stride`` before it.

    Source: Child et al. 2019, section 4.3: A⁽¹⁾.
    Deviation: the authors' code attends to one position fewer, which A⁽²⁾ contains; the
    union is the same.
    """
    check_positive(stride=stride)
    return intersection(causal(), local(stride))


def strided_atrous(stride: int) -> Rule:
    """The second half of :func:`strided`: every ``stride``-th position, counted backwards.

    Source: Child et al. 2019, section 4.3: A⁽²⁾.
    """
    check_positive(stride=stride)
    return intersection(causal(), atrous(stride))


def strided(stride: int) -> Rule:
    """Each position attends to the last ``stride``, and to every ``stride``-th before them.

    ::

        j ≤ i and (i − j ≤ stride or (i − j) mod stride = 0)

    Source: Child et al. 2019, section 4.3: the union of A⁽¹⁾ and A⁽²⁾, which are
    :func:`strided_local` and :func:`strided_atrous`; the stride is l.

    Example:
        >>> dense(strided(2), 6)[-1].int()
        tensor([0, 1, 0, 1, 1, 1], dtype=torch.int32)
    """
    check_positive(stride=stride)
    return intersection(causal(), union(local(stride), atrous(stride)))


def fixed_block(stride: int) -> Rule:
    """The first half of :func:`fixed`: the block of ``stride`` positions, up to i.

    Source: Child et al. 2019, section 4.3: A⁽¹⁾.
    """
    check_positive(stride=stride)
    return intersection(causal(), same_block(stride))


def fixed_summary(stride: int, expressive: int = 1) -> Rule:
    """The second half of :func:`fixed`: the last ``expressive`` of each ``stride`` positions.

    Source: Child et al. 2019, section 4.3: A⁽²⁾.
    """
    check_positive(stride=stride, expressive=expressive)
    return intersection(causal(), block_ends(stride, expressive))


def fixed(stride: int, expressive: int = 1) -> Rule:
    """Each position attends to its own block and to the last positions of earlier blocks.

    ::

        j ≤ i and (⌊j / stride⌋ = ⌊i / stride⌋ or j mod stride ≥ stride − expressive)

    Source: Child et al. 2019, section 4.3: the union of A⁽¹⁾ and A⁽²⁾, which are
    :func:`fixed_block` and :func:`fixed_summary`; the stride is l, and ``expressive`` c.

    Example:
        >>> dense(fixed(3), 6)[-1].int()
        tensor([0, 0, 1, 1, 1, 1], dtype=torch.int32)
    """
    check_positive(stride=stride, expressive=expressive)
    return intersection(
        causal(), union(same_block(stride), block_ends(stride, expressive))
    )


def sink_window(window: int, sinks: int) -> Rule:
    """Each position attends to the last ``window`` positions and to the first ``sinks``.

    ::

        j ≤ i and (i − j < window or j < sinks)

    Source: Xiao et al. 2024, section 3.2.

    Example:
        >>> dense(sink_window(2, 1), 5)[-1].int()
        tensor([1, 0, 0, 1, 1], dtype=torch.int32)
    """
    check_positive(window=window, sinks=sinks)
    return intersection(causal(), union(sliding_window(window), first_positions(sinks)))


def dense(
    rule: RuleFunction,
    queries: int,
    keys: int | None = None,
    device: torch.device | str | None = None,
    first: int = 0,
) -> Bool[Tensor, "q k"]:
    """The rule as a mask: entry ``(i, j)`` is ``rule(first + i, j)``.

    Args:
        rule: which positions may attend to which.
        queries: the number of queries.
        keys: the number of keys; by default that of the queries.
        device: the device of the mask.
        first: the position of the first query.

    Example:
        >>> dense(causal(), 3).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    check_rule(rule)
    keys = queries if keys is None else keys
    if min(queries, keys) < 1:
        raise ValueError(
            f"a mask needs at least one query and one key, not {queries} and {keys}"
        )
    i = torch.arange(first, first + queries, device=device)
    return visible_keys(rule, i, keys)


def visible_keys(
    rule: RuleFunction, query_position: Int[Tensor, "*b q"], keys: int
) -> Bool[Tensor, "*b q k"]:
    """The rule as a mask for queries at a ``query_position`` and the keys 0, 1, …, keys − 1.

    Example:
        >>> visible_keys(causal(), torch.tensor([0, 2]), 4).int()
        tensor([[1, 0, 0, 0],
                [1, 1, 1, 0]], dtype=torch.int32)
    """
    j = torch.arange(keys, device=query_position.device)
    return rule(query_position[..., None], j).expand(*query_position.shape, keys)


def with_mask(
    rule: RuleFunction,
    mask: Mask,
    query_position: Tensor,
    shape: Sequence[int],
) -> Bool[Tensor, "..."]:
    """The rule, for queries at a ``query_position``, and a mask as one, for scores of a shape.

    Example:
        >>> with_mask(causal(), torch.tensor([False, True]), torch.arange(2), (1, 2, 2)).int()
        tensor([[[0, 0],
                 [0, 1]]], dtype=torch.int32)
    """
    visible = visible_keys(rule, query_position, shape[-1])
    visible = visible[(None,) * (len(shape) - visible.ndim)]
    return visible if mask is None else visible & mask


def for_scores(
    rule: RuleFunction, query: Tensor, key: Tensor, mask: Mask, position: Positions
) -> Mask:
    """The rule and a mask as one, for the scores of queries at their position, or the last ones.

    Example:
        >>> query, key = torch.zeros(1, 2, 4), torch.zeros(1, 3, 4)
        >>> for_scores(causal(), query, key, None, None).int()
        tensor([[[1, 1, 0],
                 [1, 1, 1]]], dtype=torch.int32)
    """
    shape = score_shape(query, key)
    position = query_positions(query, shape[-1], position)
    return mask if 0 in shape else with_mask(rule, mask, position, shape)
