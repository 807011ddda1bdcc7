"""Attention weights with their query and key tokens, checked and made ready to plot."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias
from unicodedata import category, east_asian_width, normalize

from jaxtyping import Float
from torch import Tensor

from companion._checks import needs_extra

with needs_extra("book"):
    import numpy as np

#: Weights ``(q, k)``, the ``q`` query tokens, the ``k`` key tokens.
Alignment: TypeAlias = tuple[Tensor | np.ndarray, Sequence[str], Sequence[str]]


def to_array(values: Any, name: str) -> Float[np.ndarray, "..."]:
    """A tensor, an array, or nested lists of them as one array of floats on the CPU."""
    try:
        array = np.asarray(_without_tensors(values))
        if np.iscomplexobj(array):
            raise TypeError("they are complex")
        return array.astype(float)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} must be numbers, in a tensor, an array or even lists: {error}"
        ) from error


def _without_tensors(values: Any) -> Any:
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        return (values if values.is_complex() else values.double()).numpy(force=True)
    return (
        [_without_tensors(value) for value in values]
        if isinstance(values, list | tuple)
        else values
    )


def weight_matrix(
    weights: Float[Tensor, "..."] | Float[np.ndarray, "..."],
    queries: Sequence[str],
    keys: Sequence[str],
) -> Float[np.ndarray, "q k"]:
    """The weights as an array, if they fit their tokens."""
    values = to_array(weights, "weights")
    if values.shape != (len(queries), len(keys)) or not values.size:
        raise ValueError(
            f"weights of shape {values.shape} do not fit {len(queries)} query tokens and "
            f"{len(keys)} key tokens: they need one row per query and one column per key, "
            f"at least one of each"
        )
    for token in (*queries, *keys):
        if not isinstance(token, str):
            raise TypeError(
                f"tokens must be strings, but {token!r} is of type {type(token).__name__}"
            )
    outside = ~((values >= -1e-6) & (values <= 1 + 1e-6))
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"attention weights lie between 0 and 1, but {outside.sum()} of these {values.size} do not; "
            f"the first is {values[row, column]} in row {row}, column {column}"
        )
    return values


def weight_matrices(
    maps: Mapping[str, Alignment],
) -> dict[str, Float[np.ndarray, "q k"]]:
    """The :func:`weight_matrix` of each named map."""
    if not maps:
        raise ValueError(
            "there is no map to show: give at least one, as {name: (weights, queries, keys)}"
        )
    matrices = {}
    for name, alignment in maps.items():
        try:
            matrices[name] = weight_matrix(*alignment)
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"map {name!r}: {error}") from error
    return matrices


def printable(text: Any) -> str:
    """The text as valid Unicode: a lone surrogate, which no font has, becomes ``�``."""
    return str(text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def visible(token: str) -> str:
    """The token without invisible characters: blanks as ``␣``, the empty token as ``∅``."""
    characters = ("␣" if x.isspace() else x for x in printable(token))
    return "".join(characters) or "∅"


def width(text: str) -> int:
    """The columns of a text: 2 for a wide character of East Asia, 0 for a combining mark."""
    return sum(map(_columns, normalize("NFC", text)))


def _columns(character: str) -> int:
    if category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def wrapped(words: Sequence[str], columns: int) -> list[tuple[int, int]]:
    """The line and the column at which each word begins, with one column between two words."""
    places, line, column = [], 0, 0
    for size in map(width, words):
        if column and column + size > columns:
            line, column = line + 1, 0
        places.append((line, column))
        column += size + 1
    return places
