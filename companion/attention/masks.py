"""Which positions may attend to which: a pattern is a rule on two position tensors.

A rule takes query positions ``i`` and key positions ``j``, which broadcast, and answers ``True`` where ``i``
may attend to ``j``. The same rule gives the mask, the picture in the book, and what a fast kernel must equal.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool
from torch import Tensor

from companion._checks import check_positive

#: From query positions ``i`` and key positions ``j``, which broadcast, to ``True`` where i may attend to j.
Rule = Callable[[Tensor, Tensor], Tensor]


def causal() -> Rule:
    """Each position sees itself and what came before: ``j ≤ i``."""
    return lambda i, j: j <= i


def local(radius: int) -> Rule:
    """Each position sees its neighbours, ``radius`` to intersection sides: ``|i − j| ≤ radius``.

    Source: Su 2019.

    Raises:
        ValueError: the radius is below 1.
    """
    check_positive(radius=radius)
    return lambda i, j: (i - j).abs() <= radius


def atrous(rate: int) -> Rule:
    """Each position sees every ``rate``-th one, counted from itself: ``(i − j) mod rate = 0``.

    Source: Su 2019.

    Raises:
        ValueError: the rate is below 1.
    """
    check_positive(rate=rate)
    return lambda i, j: (i - j) % rate == 0


def strided(stride: int) -> Rule:
    """What came at most ``stride`` ago, and every ``stride``-th before: ``j ≤ i``, local or atrous.

    Source: Child et al. 2019, section 4.3: the union of A⁽¹⁾ and A⁽²⁾. Their code sees one position fewer in
    A⁽¹⁾, the one that A⁽²⁾ sees too: the union is the same.

    Raises:
        ValueError: the stride is below 1.
    """
    return intersection(causal(), union(local(stride), atrous(stride)))


def fixed(stride: int, expressive: int = 1) -> Rule:
    """The own block of ``stride`` so far, and the last ``expressive`` positions of every block before it.

    ::

        j ≤ i and (⌊j / stride⌋ = ⌊i / stride⌋ or j mod stride ≥ stride − expressive)

    Source: Child et al. 2019, section 4.3, the union of A⁽¹⁾ and A⁽²⁾; ``expressive`` is the paper's c.

    Raises:
        ValueError: a size is below 1, or ``expressive`` is above the stride.
    """
    check_positive(stride=stride, expressive=expressive)
    if expressive > stride:
        raise ValueError(f"a block of {stride} positions has no last {expressive}")
    same_block = lambda i, j: i // stride == j // stride  # noqa: E731
    summary = lambda i, j: j % stride >= stride - expressive  # noqa: E731
    return intersection(causal(), union(same_block, summary))


def intersection(first: Rule, second: Rule) -> Rule:
    """Where the two rules agree that ``i`` may attend to ``j``: their intersection."""
    return lambda i, j: first(i, j) & second(i, j)


def union(first: Rule, second: Rule) -> Rule:
    """Where at least one of the two rules lets ``i`` attend to ``j``: their union."""
    return lambda i, j: first(i, j) | second(i, j)


def difference(first: Rule, second: Rule) -> Rule:
    """Where the first rule lets ``i`` attend to ``j`` and the second does not: their difference."""
    return lambda i, j: first(i, j) & ~second(i, j)


def dense(
    rule: Rule,
    queries: int,
    keys: int | None = None,
    device: torch.device | str | None = None,
    first: int = 0,
) -> Bool[Tensor, "q k"]:
    """The rule as a mask: entry ``(i, j)`` is ``rule(first + i, j)``. As many keys as queries, unless told.

    ``first`` is the position of the first query, where the queries are not the sequence from its start.

    Raises:
        ValueError: a length is below 1.
    """
    keys = queries if keys is None else keys
    if min(queries, keys) < 1:
        raise ValueError(
            f"a mask needs at least one query and one key, not {queries} and {keys}"
        )
    i = torch.arange(first, first + queries, device=device)[:, None]
    j = torch.arange(keys, device=device)[None, :]
    return rule(i, j).expand(queries, keys)
