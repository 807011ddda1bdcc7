"""Attention weights with the tokens they stand between, made ready for a picture."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

#: Weights ``(q, k)``, the ``q`` query tokens, the ``k`` key tokens.
Alignment: TypeAlias = tuple[Tensor, Sequence[str], Sequence[str]]


def table(
    weights: Float[Tensor, "..."], queries: Sequence[str], keys: Sequence[str]
) -> Float[np.ndarray, "q k"]:
    """The weights as numbers on the CPU, whatever their device, precision or gradient.

    Raises:
        ValueError: the weights are not one row a query and one column a key, a token list is empty, or
            a weight lies outside 0 to 1.
    """
    if tuple(weights.shape) != (len(queries), len(keys)) or not len(queries) or not len(keys):
        raise ValueError(
            f"weights of shape {tuple(weights.shape)} do not fit {len(queries)} query tokens and "
            f"{len(keys)} key tokens: one row a query and one column a key are needed, at least one of each"
        )
    values = weights.detach().to("cpu", torch.float64).numpy()
    outside = ~((values >= -1e-6) & (values <= 1 + 1e-6))
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"attention weights lie between 0 and 1, but {outside.sum()} of these {values.size} do not; "
            f"the first is {values[row, column]} in row {row}, column {column}"
        )
    return values


def tables(maps: Mapping[str, Alignment]) -> dict[str, Float[np.ndarray, "q k"]]:
    """The :func:`table` of each named map.

    Raises:
        ValueError: there is no map, or one of them is wrong; the message gives its name.
    """
    if not maps:
        raise ValueError("no map to show: give at least one, as {name: (weights, queries, keys)}")
    made = {}
    for name, alignment in maps.items():
        try:
            made[name] = table(*alignment)
        except ValueError as error:
            raise ValueError(f"map {name!r}: {error}") from error
    return made


def visible(token: str) -> str:
    """The token as one can see it: blanks as ``␣``, the empty token as ``∅``."""
    return "".join("␣" if character.isspace() else character for character in token) or "∅"
