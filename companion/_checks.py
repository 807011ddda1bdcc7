"""Checks of arguments, kept out of the classes that call them.

Each raises an error that names the argument and its numbers: a ``ValueError`` where the
docstring names no other. :func:`score_shape` and :func:`query_positions` return what they
checked, and :func:`needs_extra` names what has to be installed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from companion._transforms import has_numbers, readable

# Numbers and sizes


def check_integers(**numbers: Any) -> None:
    """Refuse what is not an integer (TypeError)."""
    for name, number in numbers.items():
        whole = isinstance(number, int | Integral | torch.SymInt)
        if not whole or isinstance(number, bool):
            raise TypeError(f"{name} must be an integer, not {number!r}")


def check_positive(**sizes: int) -> None:
    """Refuse sizes that are not integers (TypeError) or are below 1."""
    check_integers(**sizes)
    _check(sizes, lambda x: x >= 1, "at least 1")


def check_even(**sizes: int) -> None:
    """Refuse what :func:`check_positive` refuses, and odd sizes."""
    check_positive(**sizes)
    _check(sizes, lambda x: x % 2 == 0, "even, because it is halved")


def check_odd(**sizes: int) -> None:
    """Refuse what :func:`check_positive` refuses, and even sizes."""
    check_positive(**sizes)
    _check(sizes, lambda x: x % 2 == 1, "odd, so that it has a centre")


def check_above_zero(**numbers: float) -> None:
    """Refuse what is not finite or not above 0."""
    _check(numbers, lambda x: 0 < x < math.inf, "finite and above 0")


def check_at_least_zero(**numbers: float) -> None:
    """Refuse what is not finite or below 0."""
    _check(numbers, lambda x: 0 <= x < math.inf, "finite and at least 0")


def check_decays(*decays: float) -> None:
    """Refuse no number, and one that is not above 0 or is above 1."""
    check_positive(decays=len(decays))
    for decay in decays:
        _check({"decay": decay}, lambda x: 0 < x <= 1, "above 0 and at most 1")


def check_fraction(**numbers: float) -> None:
    """Refuse what is below 0, or not below 1."""
    _check(numbers, lambda x: 0 <= x < 1, "at least 0 and below 1")


def _check(numbers: dict[str, Any], sound: Callable[[Any], bool], wanted: str) -> None:
    """Refuse numbers that are not sound, by name."""
    for name, number in numbers.items():
        if not sound(number):
            raise ValueError(f"{name} must be {wanted}, not {number}")


# Attention: inputs and masks


def check_inputs(query: Tensor, key: Tensor, value: Tensor, mask: Any) -> None:
    """Refuse what PyTorch would compute with in silence, or reports obscurely.

    That is what is no tensor (TypeError), an axis too few, a size of zero, more or fewer
    values than keys, and a mask that :func:`check_mask` refuses. A ``RuntimeError`` of
    PyTorch's says that batches do not broadcast.
    """
    named = {"query": query, "key": key, "value": value}
    for name, x in named.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"the {name} must be a tensor, not a {type(x).__name__}")
    if not _usual(query.shape, key.shape, value.shape):
        for name, x in named.items():
            if x.ndim < 2 or x.shape[-1] == 0:
                raise ValueError(
                    f"the {name} needs a shape (*batch, length, features), with at least "
                    f"one feature, not {tuple(x.shape)}"
                )
        if key.shape[-2] == 0:
            shape = tuple(key.shape)
            raise ValueError(f"nothing to attend to: a key of shape {shape} has no key")
        if key.shape[-2] != value.shape[-2]:
            raise ValueError(f"{key.shape[-2]} keys but {value.shape[-2]} values")
        score_shape(query, key, value)
    if mask is not None:
        check_mask(mask, score_shape(query, key))


def _usual(query: torch.Size, key: torch.Size, value: torch.Size) -> bool:
    """Whether the shapes fit without broadcasting: a quick test."""
    return (
        len(query) == len(key) == len(value) > 1
        and query[:-2] == key[:-2] == value[:-2]
        and key[-2] == value[-2] > 0
        and query[-1] > 0 < key[-1]
        and value[-1] > 0
    )


def score_shape(query: Tensor, key: Tensor, *others: Tensor) -> torch.Size:
    """The shape of the scores ``(*b, q, k)``: the batches of all tensors broadcast."""
    batch = query.shape[:-2]
    batches = [x.shape[:-2] for x in (key, *others)]
    if any(x != batch for x in batches):
        batch = torch.broadcast_shapes(batch, *batches)
    return torch.Size((*batch, *query.shape[-2:-1], *key.shape[-2:-1]))


def check_same_features(query: Tensor, key: Tensor) -> None:
    """Refuse queries and keys of different numbers of features."""
    if query.shape[-1] != key.shape[-1]:
        sizes = f"{query.shape[-1]} and {key.shape[-1]}"
        raise ValueError(f"query and key need one number of features, not {sizes}")


def check_same_positions(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse unequal numbers of queries, keys and values."""
    lengths = [x.shape[-2] for x in (query, key, value)]
    if len(set(lengths)) > 1:
        raise ValueError(
            "each position needs a query, a key and a value, but there are "
            f"{lengths[0]}, {lengths[1]} and {lengths[2]}"
        )


def check_gates(query: Tensor, key: Tensor, gates: int) -> None:
    """Refuse keys that do not have the features of a query, and then a number of gates."""
    asked, size = query.shape[-1], key.shape[-1]
    if not gates:
        check_same_features(query, key)
    elif asked + gates != size:
        raise ValueError(
            f"a key's last features are {gates} gates, so queries of {asked} features need "
            f"keys of {asked + gates}, and keys of {size} queries of {size - gates}"
        )


def check_frequencies(frequencies: int, size: int) -> None:
    """Refuse more or fewer frequencies than pairs of features."""
    if 2 * frequencies != size:
        raise ValueError(f"{frequencies} frequencies do not fit {size} features")


def check_features(name: str, x: Tensor, size: int) -> None:
    """Refuse vectors of another size than announced."""
    if x.shape[-1] != size:
        raise ValueError(f"the {name} needs {size} features, not {x.shape[-1]}")


def check_head_axis(x: Tensor, heads: int | None, name: str = "query") -> None:
    """Refuse queries, or others, without an axis of this many heads."""
    if heads is not None and (x.ndim < 3 or x.shape[-3] != heads):
        shape = tuple(x.shape)
        raise ValueError(f"a {name} of shape {shape} has no axis of {heads} heads")


def check_projected(query: Tensor, key: Tensor, heads: int) -> None:
    """Refuse keys that were not projected to as many heads for queries like these."""
    if key.ndim != query.ndim + 1 or key.shape[-3] != heads:
        raise ValueError(
            f"keys of shape {tuple(key.shape)} do not fit {heads} heads and a query of shape "
            f"{tuple(query.shape)}: key and value are what project returned"
        )


def check_heads_divide(heads: int, key_value_heads: int) -> None:
    """Refuse what :func:`check_positive` refuses, and key–value heads that do not divide the heads."""
    check_positive(key_value_heads=key_value_heads)
    if heads % key_value_heads:
        shared = f"{key_value_heads} key–value heads"
        raise ValueError(f"{heads} heads cannot share {shared} evenly")


def check_scores(scores: Tensor, mask: Tensor | None) -> None:
    """Refuse scores of no key, and a mask as :func:`check_mask` does."""
    if scores.shape[-1] == 0:
        raise ValueError(f"scores of shape {tuple(scores.shape)} have no key")
    if mask is not None:
        check_mask(mask, scores.shape)


_POLARITY = "True = may attend, the opposite of nn.MultiheadAttention's"

#: What is called otherwise in PyTorch.
_PYTORCHS = {
    "key_padding_mask": f"write mask=~key_padding_mask[:, None] ({_POLARITY})",
    "attn_mask": f"write mask=~attn_mask[None] ({_POLARITY})",
    "is_causal": "use an attention that is causal, as CausalAttention()",
    "need_weights": "attend and record_weights return weights",
}


def check_keywords(owner: nn.Module, others: dict[str, Any]) -> None:
    """Refuse arguments that a call does not have (TypeError), and translate PyTorch's."""
    for name in others:
        ours = f": {_PYTORCHS[name]}" if name in _PYTORCHS else ""
        raise TypeError(f"{type(owner).__name__} has no argument {name}{ours}")


def check_mask(mask: Tensor, shape: torch.Size | tuple[int, ...]) -> None:
    """Refuse a mask that is not boolean (TypeError) or does not fit the scores.

    A mask has the scores' axes, each of their size or 1, or is one ``(q, k)`` or
    ``(k,)`` for all. A ``(b, k)`` mask with b = q would be read as ``(q, k)``.
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        found = f"it is a {getattr(mask, 'dtype', type(mask).__name__)}"
        raise TypeError(f"the mask must be a boolean tensor ({_POLARITY}), but {found}")
    axes, rank = mask.ndim, len(shape)
    allowed = axes == rank or 1 <= axes <= min(2, rank)
    if not allowed or not _fits(mask.shape, shape[rank - axes :]):
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} does not fit scores of shape "
            f"{tuple(shape)}: it needs as many axes as the scores, or is one (q, k) for all; "
            f"write a source mask (b, k) as mask[:, None] ({_POLARITY})"
        )
    if axes == 2 < rank and 1 < mask.shape[0] == shape[0]:
        raise ValueError(
            f"a mask of shape {tuple(mask.shape)} is ambiguous for scores of shape "
            f"{tuple(shape)}: write mask[:, None] if its first axis is the batch, mask[None] "
            f"if it is the queries"
        )


def _fits(shape: Sequence[int], full: Sequence[int]) -> bool:
    """Whether a shape of as many axes broadcasts to the full one."""
    return all(m in (1, s) for m, s in zip(shape, full, strict=True))


# Attention: what a module accepts


def check_kind(owner: nn.Module, attention: nn.Module, kind: type) -> None:
    """Refuse an attention that is not of the type its owner needs (TypeError)."""
    if not isinstance(attention, kind):
        raise TypeError(
            f"{type(owner).__name__} needs {kind.__name__}, not {_described(attention)}"
        )


def _described(thing: Any) -> str:
    """The type of an object; of a class, how to write an object of it."""
    if isinstance(thing, type):
        return f"the class {thing.__name__}: write an instance, as {thing.__name__}()"
    return type(thing).__name__


def check_rule(rule: Any) -> None:
    """Refuse what is no function of positions, and the class of a rule (TypeError)."""
    if isinstance(rule, type) or not callable(rule):
        raise TypeError(
            f"a rule must be an instance, as masks.causal(), or a function of two tensors "
            f"of positions, not {rule!r}"
        )


def check_batch_first(other: nn.Module, kind: type) -> None:
    """Refuse a module of PyTorch's of another kind (TypeError), or with the batch second."""
    if not isinstance(other, kind):
        raise TypeError(f"from_torch needs nn.{kind.__name__}, not {_described(other)}")
    attention: Any = getattr(other, "self_attn", other)
    if not attention.batch_first:
        raise ValueError(
            f"this {type(other).__name__} is sequence-first, and ours has the batch first: "
            f"give it inputs (batch, length, features) and batch_first=True, on which no "
            f"weight depends"
        )


def check_continues(
    owner: Any, state: Any, query: Tensor, key: Tensor, value: Tensor
) -> None:
    """Refuse a state of another type (TypeError), batch or number of heads.

    Refuse also queries, keys and values of different batches or numbers of positions.
    """
    kind = owner.state_type
    if not isinstance(state, kind):
        raise TypeError(
            f"{type(owner).__name__} continues a {kind.__name__}, not a "
            f"{type(state).__name__}"
        )
    held: Tensor = state[0]
    if held.shape[:-2] != key.shape[:-2]:
        raise ValueError(
            f"a {kind.__name__} of shape {tuple(held.shape)} cannot be continued by keys of "
            f"shape {tuple(key.shape)}: batch and heads must be the same"
        )
    if key.shape[:-1] != value.shape[:-1] or (
        (query.ndim, query.shape[0], query.shape[-2])
        != (key.ndim, key.shape[0], key.shape[-2])
    ):
        raise ValueError(
            f"queries of shape {tuple(query.shape)}, keys of {tuple(key.shape)} and values of "
            f"{tuple(value.shape)} are not of the same positions of one batch"
        )


#: Why an attention may not fit an owner, by the flag of the contract that says so.
_REASONS = {
    "uses_query_position": "depends on the query's position",
    "uses_key_position": "depends on the keys' positions",
    "has_own_weights": "has weights that are not the softmax of its scores",
    "gates": "has keys with gates",
}


def check_independent(
    owner: nn.Module, attention: nn.Module, *flags: str, because: str
) -> None:
    """Refuse an attention (TypeError) that does, itself or in a part, what its owner cannot use.

    ``flags`` are attributes of :class:`~companion.attention.base.Attention`.
    """
    for part in attention.modules():
        for flag in flags:
            if getattr(part, flag, False):
                raise TypeError(
                    f"{type(owner).__name__} cannot use {type(part).__name__}, which "
                    f"{_REASONS[flag]}: {because}"
                )


def check_causal(attention: nn.Module, owner: str) -> None:
    """Refuse an attention that may attend to later positions."""
    if not getattr(attention, "causal", False):
        raise ValueError(
            f"{owner} needs a causal attention, not {type(attention).__name__}: use "
            f"CausalAttention, put yours into Causal, or build it with causal=True, which it "
            f"needs even if its rule masks later keys already"
        )


def check_no_dropout(attention: Any, probability: float) -> None:
    """Refuse all but 0 for an attention that is computed without its weights."""
    if probability:
        raise TypeError(
            f"{type(attention).__name__} computes no weights that could be dropped: leave "
            f"dropout at 0"
        )


# Positions


def check_last_positions(queries: int, keys: int) -> None:
    """Refuse more queries than keys: by default, the queries are the last positions."""
    if queries > keys:
        raise ValueError(
            f"{queries} queries cannot be the last positions of {keys} keys: give their "
            f"query_position"
        )


def query_positions(
    query: Tensor, keys: int, position: Tensor | None
) -> Int[Tensor, "*b q"]:
    """The position of each query among the keys; by default the last ones.

    Given positions have one axis, for all, or as many as the queries' leading axes; an
    axis may have size 1.

    Raises:
        TypeError: the positions are not integers.
        ValueError: they do not fit the queries; or none are given, and there are more
            queries than keys.
    """
    if position is None:
        check_last_positions(query.shape[-2], keys)
        return torch.arange(keys - query.shape[-2], keys, device=query.device)
    check_integer_tensor("query_position", position)
    full = query.shape[:-1]
    axes = position.ndim
    if axes not in (1, len(full)) or not _fits(
        position.shape, full[len(full) - axes :]
    ):
        raise ValueError(
            f"query_position of shape {tuple(position.shape)} does not fit queries of "
            f"shape {tuple(query.shape)}: it is (q,) or has as many axes as the queries' "
            f"leading axes; with heads, pass position[:, None]"
        )
    return position.expand(*position.shape[:-1], full[-1])


def check_positions(
    embedded: Tensor, first: int | Tensor, table: int | None = None
) -> None:
    """Refuse vectors that are not ``(b, n, d)``, and positions below 0 or past a table.

    ``first`` is the position of the first vector, an integer or ``(b,)`` of them, and
    nothing else (TypeError). The numbers of a tensor are read only on a CPU, and not in a
    compiled graph.
    """
    if embedded.ndim != 3:
        raise ValueError(
            f"embedded needs a shape (batch, length, features), not {tuple(embedded.shape)}"
        )
    if isinstance(first, Tensor):
        check_integer_tensor("first", first)
        if first.shape != embedded.shape[:1]:
            raise ValueError(
                f"first of shape {tuple(first.shape)} does not fit {len(embedded)} rows"
            )
        smallest, largest = _range(first) or (0, 0)
    else:
        check_integers(first=first)
        smallest = largest = first
    _check_table(smallest, largest + embedded.shape[1] - 1, table)


def check_table_positions(position: Tensor, length: int) -> None:
    """Refuse positions outside a table; on a GPU or in a graph PyTorch itself does."""
    _check_table(*(_range(position) or (0, 0)), length)


def _check_table(low: int, high: int, table: int | None) -> None:
    if low < 0 or (table is not None and high >= table):
        known = "positions start at 0"
        if table is not None:
            known = f"the table has {table}, 0 to {table - 1}"
        raise ValueError(f"positions {low} to {high} were requested, but {known}")


def check_max_length(name: str, length: int, owner: str, longest: int) -> None:
    """Refuse a sequence with more positions than a mechanism has scores for."""
    if length > longest:
        scores = f"{owner} has scores for {longest} only"
        raise ValueError(f"the {name} has {length} positions, but {scores}")


# Sequences, tokens and images


def check_sentences(name: str, tokens: Tensor) -> None:
    """Refuse tokens that are not integers (TypeError), one sentence a row."""
    check_integer_tensor(f"the tokens of {name}", tokens)
    if tokens.ndim != 2:
        raise ValueError(
            f"{name} needs a shape (batch, length), not {tuple(tokens.shape)}"
        )


def check_tokens(name: str, tokens: Tensor, vocabulary_size: int) -> None:
    """Refuse tokens that are not integers (TypeError) or not in the vocabulary.

    Their numbers are read only on a CPU, and not in a compiled graph or under ``vmap``.
    """
    check_integer_tensor(name, tokens)
    smallest, largest = _range(tokens) or (0, 0)
    if smallest < 0 or largest >= vocabulary_size:
        raise ValueError(
            f"{name} run from {smallest} to {largest}, but the vocabulary has the "
            f"{vocabulary_size} entries 0 to {vocabulary_size - 1}"
        )


def check_integer_tensor(name: str, x: Tensor) -> None:
    """Refuse what is not a tensor of integers (TypeError)."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a tensor of integers, not {x!r}")
    if x.dtype == torch.bool or x.is_floating_point() or x.is_complex():
        raise TypeError(f"{name} must hold integers, not {x.dtype}")


def _range(x: Tensor) -> tuple[int, int] | None:
    """The smallest and the largest number of a tensor; ``None`` if not readable."""
    if not readable(x) or not x.numel():
        return None
    smallest, largest = x.long().aminmax()
    return int(smallest), int(largest)


def check_same_position(seen: list[int | Tensor]) -> None:
    """Refuse layers' states after different numbers of positions, where they can be read."""
    counts: set[int] = set()
    for x in () if torch.compiler.is_compiling() else seen:
        if not isinstance(x, Tensor):
            counts.add(x)
        elif readable(x):
            counts.update(x.flatten().tolist())
    if len(counts) > 1:
        raise ValueError(
            f"the states of the layers are after {sorted(counts)} positions"
        )


def check_states(name: str, states: Tensor, mask: Tensor) -> None:
    """Refuse no states, and a mask that is not boolean (TypeError) or does not fit them."""
    shape = tuple(states.shape)
    if mask.dtype != torch.bool:
        wanted = "boolean (True = a state to keep)"
        raise TypeError(f"the mask of the {name} must be {wanted}, not {mask.dtype}")
    if mask.shape != shape[:-1]:
        needed = f"a mask of {shape[:-1]}, not {tuple(mask.shape)}"
        raise ValueError(f"the {name} of shape {shape} needs {needed}")
    if not mask.shape or not mask.shape[-1]:
        raise ValueError(f"the {name} of shape {shape} is empty")


def check_source(states: Tensor, mask: Tensor, size: int, name: str = "source") -> None:
    """Refuse states that are not ``(b, k, size)``, and as :func:`check_states` does."""
    if states.ndim != 3 or states.shape[-1] != size:
        shape = tuple(states.shape)
        raise ValueError(
            f"states of the {name} need a shape (b, k, {size}), not {shape}"
        )
    check_states(name, states, mask)


def check_padding(mask: Bool[Tensor, "b k"], name: str) -> None:
    """Refuse rows of ``name`` without a token, or with padding before one.

    On a GPU, which would have to be waited for, and under ``vmap`` nothing is checked. In
    a compiled graph an assertion of PyTorch's fails (RuntimeError).
    """
    if not readable(mask) and not torch.compiler.is_compiling():
        return
    lengths = mask.sum(1)
    from_the_left = torch.arange(mask.shape[1], device=mask.device) < lengths[:, None]
    sound = (mask == from_the_left).all(1) & (lengths > 0)
    check_rows(sound, name, mask.shape, "are empty, or have padding before a word")


def check_rows(
    sound: Bool[Tensor, " b"], name: str, shape: torch.Size, problem: str
) -> None:
    """Refuse a batch that has rows with a problem, and list them; not under ``vmap``.

    A compiled graph cannot list them: there an assertion fails (RuntimeError).
    """
    if torch.compiler.is_compiling():
        if sound.device.type in ("cpu", "cuda"):
            torch._assert_async(sound.all(), f"some rows of {name} {problem}")
    elif has_numbers(sound) and not sound.all():
        rows = (~sound).nonzero().flatten().tolist()
        raise ValueError(f"rows {rows} of {name} of shape {tuple(shape)} {problem}")


def check_pairs(first: str, left: Tensor, second: str, right: Tensor) -> None:
    """Refuse two batches of different sizes, whose rows therefore do not make pairs."""
    if left.shape[0] != right.shape[0]:
        both = f"{len(left)} {first} and {len(right)} {second}"
        raise ValueError(f"{both} do not make pairs")


# Decoding


def check_target(target: Int[Tensor, "b t"], hidden: Float[Tensor, "s ..."]) -> None:
    """Refuse a target that :func:`check_sentences` refuses, or without tokens, or of another batch."""
    check_sentences("a target", target)
    shape = tuple(target.shape)
    if shape[1] == 0:
        raise ValueError(f"a target of shape {shape} has no token")
    if shape[0] != hidden.shape[0]:  # len would fix the number in an export
        sentences = f"{len(hidden)} source sentences"
        raise ValueError(f"a target of shape {shape} does not fit {sentences}")


def check_prompts(prompts: Sequence[Tensor]) -> None:
    """Refuse prompts that are not each one row of integers (TypeError), or are empty."""
    if not prompts:
        raise ValueError("generate needs one prompt or more")
    for row, tokens in enumerate(prompts):
        if not tokens.numel():
            raise ValueError(f"prompt {row} is empty: give one token or more")
        check_integer_tensor("the tokens of a prompt", tokens)
        if tokens.ndim != 1:
            shape = tuple(tokens.shape)
            raise ValueError(f"a prompt is one row of tokens, not of shape {shape}")


def check_next(token: Int[Tensor, " b"], held: Float[Tensor, "s ..."]) -> None:
    """Refuse the next tokens if they are not one for each row of a decoder's state."""
    if token.shape != held.shape[:1]:
        shape, state = tuple(token.shape), f"a state of {len(held)} sentences"
        raise ValueError(f"tokens of shape {shape} do not fit {state}")


def check_step(
    logits: Tensor, weights: Tensor | None, tokens: Int[Tensor, " n"]
) -> None:
    """Refuse logits and weights of a decoder step that are not one row for each token."""
    n = len(tokens)
    for name, x in (("logits", logits), ("weights", weights)):
        if x is not None and (x.ndim != 2 or x.shape[0] != n):
            found = tuple(x.shape)
            raise ValueError(f"a step must return {name} of {n} rows, not {found}")


# Losses


def check_same_shape(**tensors: Tensor) -> None:
    """Refuse tensors of different shapes, which broadcasting might hide."""
    if len({x.shape for x in tensors.values()}) > 1:
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in tensors.items())
        raise ValueError(f"one shape is needed, but there are {shapes}")


# Extras


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Name the ``extra`` that installs a library whose import fails in this block."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{error.name} is not installed: pip install "attention-companion[{extra}]"',
            name=error.name,
        ) from error
