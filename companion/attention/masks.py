"""Position rules: which positions may attend to which.

A rule takes query positions ``i`` and key positions ``j``, which broadcast, and returns
``True`` where i may attend to j. One rule gives the mask, the picture in the book, what a
fast kernel must equal, and the blocks that it may skip. Rules are values: they compare,
hash, pickle and print.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from companion._checks import check_positive


class Rule(ABC):
    """From query positions ``i`` and key positions ``j`` to where i may attend to j.

    Any function of ``(i, j)`` serves as a rule too, but only a ``Rule`` can promise that
    it depends on i − j alone, which tiled kernels need.
    """

    relative = False  #: whether the rule depends on i − j alone

    @abstractmethod
    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        """``True`` where position ``i`` may attend to position ``j``."""


#: A :class:`Rule`, or any function like one.
RuleFunction = Rule | Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class causal(Rule):  # noqa: N801 - used as a function
    """Each position attends to itself and to earlier ones: ``j ≤ i``."""

    relative = True

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return j <= i


@dataclass(frozen=True)
class local(Rule):  # noqa: N801
    """Each position attends to its neighbours up to ``radius`` away: ``|i − j| ≤ radius``.

    Source: Su 2019.

    Raises:
        ValueError: the radius is below 1.
    """

    radius: int
    relative = True

    def __post_init__(self) -> None:
        check_positive(radius=self.radius)

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return (i - j).abs() <= self.radius


@dataclass(frozen=True)
class atrous(Rule):  # noqa: N801
    """Each position attends to every ``rate``-th one: ``(i − j) mod rate = 0``.

    Source: Su 2019.

    Raises:
        ValueError: the rate is below 1.
    """

    rate: int
    relative = True

    def __post_init__(self) -> None:
        check_positive(rate=self.rate)

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return (i - j) % self.rate == 0


@dataclass(frozen=True)
class same_block(Rule):  # noqa: N801
    """Each position attends to its own block: ``⌊i / size⌋ = ⌊j / size⌋``.

    Raises:
        ValueError: the size is below 1.
    """

    size: int

    def __post_init__(self) -> None:
        check_positive(size=self.size)

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return i // self.size == j // self.size


@dataclass(frozen=True)
class block_ends(Rule):  # noqa: N801
    """Every position attends to the last ``count`` of each block: ``j mod size ≥ size − count``.

    Raises:
        ValueError: a number is below 1, or ``count`` is above ``size``.
    """

    size: int
    count: int = 1

    def __post_init__(self) -> None:
        check_positive(size=self.size, count=self.count)
        if self.count > self.size:
            raise ValueError(
                f"a block of {self.size} positions has no last {self.count}"
            )

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return j % self.size >= self.size - self.count


@dataclass(frozen=True)
class _Pair(Rule):
    first: RuleFunction
    second: RuleFunction

    @property
    def relative(self) -> bool:  # type: ignore[override]
        return all(getattr(x, "relative", False) for x in (self.first, self.second))


@dataclass(frozen=True)
class union(_Pair):  # noqa: N801
    """Where at least one of two rules lets ``i`` attend to ``j``."""

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return self.first(i, j) | self.second(i, j)


@dataclass(frozen=True)
class intersection(_Pair):  # noqa: N801
    """Where both of two rules let ``i`` attend to ``j``."""

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return self.first(i, j) & self.second(i, j)


@dataclass(frozen=True)
class difference(_Pair):  # noqa: N801
    """Where the first rule lets ``i`` attend to ``j`` and the second does not."""

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        return self.first(i, j) & ~self.second(i, j)


def strided_local(stride: int) -> Rule:
    """The first half of :func:`strided`: the last ``stride`` positions and itself.

    Source: Child et al. 2019, section 4.3: A⁽¹⁾. Their code attends to one position
    fewer, which A⁽²⁾ has as well: the union is the same.

    Raises:
        ValueError: the stride is below 1.
    """
    return intersection(causal(), local(stride))


def strided_atrous(stride: int) -> Rule:
    """The second half of :func:`strided`: every ``stride``-th position, backwards from itself.

    Source: Child et al. 2019, section 4.3: A⁽²⁾.

    Raises:
        ValueError: the stride is below 1.
    """
    return intersection(causal(), atrous(stride))


def strided(stride: int) -> Rule:
    """The last ``stride`` positions, and every ``stride``-th before: local or atrous, causal.

    Source: Child et al. 2019, section 4.3: the union of A⁽¹⁾ and A⁽²⁾, which are
    :func:`strided_local` and :func:`strided_atrous`.

    Raises:
        ValueError: the stride is below 1.
    """
    return intersection(causal(), union(local(stride), atrous(stride)))


def fixed_block(stride: int) -> Rule:
    """The first half of :func:`fixed`: the own block of ``stride`` positions so far.

    Source: Child et al. 2019, section 4.3: A⁽¹⁾.

    Raises:
        ValueError: the stride is below 1.
    """
    return intersection(causal(), same_block(stride))


def fixed_summary(stride: int, expressive: int = 1) -> Rule:
    """The second half of :func:`fixed`: the last ``expressive`` positions of each block.

    Source: Child et al. 2019, section 4.3: A⁽²⁾; ``expressive`` is the paper's c.

    Raises:
        ValueError: a size is below 1, or ``expressive`` is above the stride.
    """
    return intersection(causal(), block_ends(stride, expressive))


def fixed(stride: int, expressive: int = 1) -> Rule:
    """The own block so far, and the last ``expressive`` positions of every earlier block.

    ::

        j ≤ i and (⌊j / stride⌋ = ⌊i / stride⌋ or j mod stride ≥ stride − expressive)

    Source: Child et al. 2019, section 4.3: the union of A⁽¹⁾ and A⁽²⁾, which are
    :func:`fixed_block` and :func:`fixed_summary`; ``expressive`` is the paper's c.

    Raises:
        ValueError: a size is below 1, or ``expressive`` is above the stride.
    """
    return intersection(
        causal(), union(same_block(stride), block_ends(stride, expressive))
    )


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
        queries: how many queries there are.
        keys: how many keys there are; as many as queries, if not given.
        device: where the mask is made.
        first: the position of the first query.

    Raises:
        ValueError: a length is below 1.

    Example:
        >>> dense(causal(), 3).int()
        tensor([[1, 0, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """
    keys = queries if keys is None else keys
    if min(queries, keys) < 1:
        raise ValueError(
            f"a mask needs at least one query and one key, not {queries} and {keys}"
        )
    i = torch.arange(first, first + queries, device=device)
    return visible_keys(rule, i, keys)


def visible_keys(
    rule: RuleFunction, query_position: Tensor, keys: int
) -> Bool[Tensor, "*b q k"]:
    """For queries at these positions, which of the keys 0, 1, … they may attend to."""
    j = torch.arange(keys, device=query_position.device)
    return rule(query_position[..., None], j).expand(*query_position.shape, keys)
