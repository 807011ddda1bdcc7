"""Right answers are found right, and mistakes get the right words: planted ones, and others written anew."""

import math
import sys
from inspect import unwrap
from itertools import combinations

import pytest
import torch
from torch import nn
from torch.nn import functional

from companion.attention import masked_softmax
from companion.exercises import _EXERCISES, check
from companion.exercises.exercise import _equal

PLANTED = [
    (number, words, function)
    for number, exercise in _EXERCISES.items()
    for words, function in [*exercise.mistakes.items(), *exercise.confusions.items()]
]


@pytest.mark.parametrize("number", _EXERCISES)
def test_the_solution_is_right(number):
    verdict = check(number, _EXERCISES[number].solution)
    assert verdict
    assert repr(verdict) == f"Exercise {number} is right."


@pytest.mark.parametrize(("number", "words", "function"), PLANTED)
def test_a_planted_mistake_gets_its_own_words(number, words, function):
    verdict = check(number, function)
    assert not verdict
    assert repr(verdict) == f"Exercise {number}, not yet. {words}"


@pytest.mark.parametrize("number", _EXERCISES)
def test_no_two_mistakes_look_alike(number):
    exercise = _EXERCISES[number]
    for inputs, mistakes in ((exercise.inputs, exercise.mistakes), (exercise.alike, exercise.confusions)):
        functions = [exercise.solution, *mistakes.values()]
        results = [function(*inputs.values()) for function in functions] if inputs else []
        assert not any(_equal(one, other) for one, other in combinations(results, 2))


@pytest.mark.parametrize("number", _EXERCISES)
def test_sizes_are_different_primes(number):
    sizes = [tuple(value.shape) for value in _EXERCISES[number].inputs.values()]
    for size in {size for shape in sizes for size in shape}:
        assert all(size % divisor for divisor in range(2, size))
    assert all(len(set(shape)) == len(shape) for shape in sizes)


# Right answers, written differently


def loops_softmax(scores, mask):
    weights = torch.zeros_like(scores)
    for b, q in torch.cartesian_prod(torch.arange(len(scores)), torch.arange(scores.shape[1])).tolist():
        if mask[b, q].any():
            weights[b, q, mask[b, q]] = torch.softmax(scores[b, q, mask[b, q]], 0)
    return weights


def nan_to_num_softmax(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0)


def masked_after_softmax(scores, mask):
    weights = scores.softmax(-1) * mask
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1)


def stable_by_hand(scores, mask):
    greatest = scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True).clamp(min=-1e300)
    exponentials = (scores - greatest).masked_fill(~mask, -torch.inf).exp()
    return exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-300)


def loops_additive(query, key, W, U, v):
    rows = []
    for s, h in zip(query, key, strict=True):
        rows.append(torch.stack([torch.stack([v @ torch.tanh(W @ i + U @ j) for j in h]) for i in s]))
    return torch.stack(rows)


def linear_additive(query, key, W, U, v):
    parts = functional.linear(query, W).unsqueeze(2) + functional.linear(key, U).unsqueeze(1)
    return torch.einsum("bqkd,d->bqk", parts.tanh(), v)


def loops_location(previous, filters):
    half = filters.shape[1] // 2
    zeros = previous.new_zeros(len(previous), half)
    padded = torch.cat([zeros, previous, zeros], 1)
    windows = [padded[:, i : i + filters.shape[1]] @ filters.T for i in range(previous.shape[1])]
    return torch.stack(windows, 1)


def unfold_location(previous, filters):
    half = filters.shape[1] // 2
    return functional.pad(previous, (half, half)).unfold(1, filters.shape[1], 1) @ filters.T


def loops_position(weights):
    return sum(j * weights[..., j] for j in range(weights.shape[-1]))


@pytest.mark.parametrize(
    ("number", "function"),
    [
        ("2.1", loops_softmax),
        ("2.1", nan_to_num_softmax),
        ("2.1", masked_after_softmax),
        ("2.1", stable_by_hand),
        ("2.2", loops_additive),
        ("2.2", linear_additive),
        ("2.3", loops_location),
        ("2.3", unfold_location),
        ("2.4", loops_position),
        ("2.4", lambda w: (w * torch.arange(w.shape[-1])).sum(-1) / w.sum(-1)),
    ],
)
def test_right_is_right_however_it_is_written(number, function):
    assert check(number, function), check(number, function)


# Mistakes, written anew


def rows_by_hand(over):
    """A softmax by hand whose sum runs over the axes ``over``."""

    def function(scores, mask):
        exponentials = (scores - scores.amax(over, keepdim=True)).exp() * mask
        return exponentials / exponentials.sum(over, keepdim=True).clamp(min=1e-300)

    return function


def hard_coded_scale(query, key, W, U, v):
    return linear_additive(query, key, W, U, v) / math.sqrt(len(v))


def loop_without_tanh(query, key, W, U, v):
    scores = torch.zeros(query.shape[0], query.shape[1], key.shape[1], dtype=query.dtype)
    for b in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            for j in range(scores.shape[2]):
                scores[b, i, j] = sum(v[d] * (W[d] @ query[b, i] + U[d] @ key[b, j]) for d in range(len(v)))
    return scores


def in_place(scores, mask):
    scores[~mask] = -torch.inf
    return scores.softmax(-1).nan_to_num(0)


def in_place_result(scores, mask):
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    weights[~mask] = 0
    return weights


def filled_twice(scores, mask):
    return scores.masked_fill(mask, -torch.inf).softmax(-1)


def masked_after(addend):
    """The mask after the softmax, and then a sum that cannot be 0."""

    def function(scores, mask):
        weights = scores.softmax(-1) * mask
        return weights / (weights.sum(-1, keepdim=True) + addend)

    return function


def minus_100(scores, mask):
    return torch.where(mask, scores, -100).softmax(-1)


def off_by_one(previous, filters):
    return unfold_location(previous, filters).roll(1, 1)


def last_forgotten(previous, filters):
    features = torch.zeros(*previous.shape, len(filters), dtype=previous.dtype)
    features[:, :-1] = unfold_location(previous, filters)[:, :-1]
    return features


def conv_with_flip(previous, filters):
    flipped = torch.stack([row.flip(0) for row in filters])
    return functional.conv1d(previous.unsqueeze(1), flipped.unsqueeze(1), padding="same").transpose(1, 2)


def numpy_position(weights):
    return torch.from_numpy(weights.detach().numpy() @ torch.arange(7.0).double().numpy())


NEW = [
    ("2.1", rows_by_hand(-2), "over the queries (axis -2)"),
    ("2.1", lambda s, m: s.softmax(-1).masked_fill(~m, 0), "mask comes after the softmax"),
    ("2.1", lambda s, m: s.softmax(2), "mask is ignored"),
    ("2.1", lambda s, m: torch.where(m, -torch.inf, s).softmax(-1).nan_to_num(0), "wrong way round"),
    ("2.1", filled_twice, "wrong way round"),
    ("2.1", lambda s, m: torch.where(m, s, -torch.inf).softmax(-1), "NaN: nothing is left to divide by"),
    ("2.1", masked_after(0), "NaN: nothing is left to divide by"),
    ("2.1", masked_after(1e-9), "the little added to the sum"),
    ("2.1", masked_after(1e-12), "the little added to the sum"),
    ("2.1", minus_100, "and empty rows equal weights"),
    ("2.1", lambda s, m: minus_100(s, m).masked_fill(~m, 0), "the real ones keep none"),
    ("2.1", lambda s, m: minus_100(s, m).masked_fill(~m.any(-1, keepdim=True), 0), "get the weight, all"),
    ("2.1", lambda s, m: (s + torch.where(m, 0.0, -1e9)).softmax(-1), "those without a mask"),
    ("2.1", lambda s, m: torch.where(m, s, -1e12).softmax(-1), "equal ones"),
    ("2.1", lambda s, m: (s * m).softmax(-1), "exp(0) is 1"),
    ("2.1", lambda s, m: (s.exp() * m) / (s.exp() * m).sum(-1, keepdim=True), "overflow"),
    ("2.1", lambda s, m: ((s.exp() * m) / (s.exp() * m).sum(-1, keepdim=True)).nan_to_num(0), "overflow"),
    ("2.1", lambda s, m: 2 * masked_softmax(s, m), "constant factor: every value is 2 times"),
    ("2.1", lambda s, m: masked_softmax(s, m).mT, "(3, 7, 5), and should be (3, 5, 7)"),
    (
        "2.1",
        lambda s, m: masked_softmax(s, m).mT,
        ".permute(0, 2, 1) makes them fit, and the values are right",
    ),
    ("2.1", lambda s, m: masked_softmax(s.mT, m.mT), "the values would still differ"),
    ("2.1", lambda s, m: masked_softmax(s, m)[None], "an axis of size 1 too many"),
    ("2.1", lambda s, m: masked_softmax(s, m)[0], "The shape is (5, 7), and should be (3, 5, 7)"),
    ("2.1", lambda s, m: masked_softmax(s / 2, m), "The first is at (0, 0, "),
    ("2.1", lambda s, m: masked_softmax(s, m).float(), "dtype is torch.float32"),
    ("2.1", lambda s, m: masked_softmax(s, m).detach(), "no gradient reaches scores"),
    ("2.1", in_place, "changes its input scores in place"),
    ("2.1", in_place_result, "no gradient can be computed"),
    ("2.1", lambda s, m: None, "returns nothing (None)"),
    ("2.1", lambda s, m: masked_softmax(s, m).tolist(), "returns a list"),
    ("2.1", lambda s, m: masked_softmax(s, ~m.bool().float()), "TypeError"),
    ("2.1", lambda s: s, "TypeError"),
    ("2.1", lambda s, m: s[9], "IndexError"),
    ("2.1", lambda s, m: 1 / 0, "ZeroDivisionError: division by zero"),
    ("2.1", lambda s, m: s[9], "scores (3, 5, 7), mask (3, 5, 7)"),
    ("2.1", lambda s, m: torch.full_like(s, torch.nan), "105 of 105 values are NaN"),
    ("2.1", lambda s, m: masked_softmax(s, m).clamp_min(1e-7), "1e-07, and should be 0."),
    ("2.1", lambda s, m: masked_softmax(s, m) / (1 + 1e-5), "105 values are not. The first is at (0, 0, "),
    ("2.1", lambda s, m: masked_softmax(s, m).to(torch.complex128), "a tensor of torch.complex128"),
    ("2.1", lambda s, m: masked_softmax(s, m).to_sparse(), "layout torch.sparse_coo"),
    ("2.1", lambda s, m: masked_softmax(s, m).to("meta"), "on device meta, not a dense one"),
    ("2.1", lambda s, m: sys.exit("enough"), "It stops with SystemExit: enough"),
    ("2.2", loop_without_tanh, "tanh is missing"),
    ("2.2", hard_coded_scale, "every value is 0.2774 times"),
    ("2.2", lambda q, k, W, U, v: linear_additive(q, k, W, U, torch.ones_like(v)), "v is missing"),
    ("2.2", lambda q, k, W, U, v: loops_additive(q, k, U, W, v), "W and U are swapped"),
    ("2.2", lambda q, k, W, U, v: loops_additive(k, q, W, U, v).mT, "W and U are swapped"),
    (
        "2.2",
        lambda q, k, W, U, v: ((q @ W)[:, :, None] + (k @ U)[:, None]).tanh() @ v,
        "W and U are transposed",
    ),
    ("2.2", lambda q, k, W, U, v: ((q @ W)[:, :, None] + (k @ U.T)[:, None]).tanh() @ v, "W is transposed"),
    ("2.2", lambda q, k, W, U, v: (q @ W.T + k @ U.T).tanh() @ v, "(3) must match the size of tensor b (5)"),
    (
        "2.2",
        lambda q, k, W, U, v: (q @ W.T + k @ U.T).tanh() @ v,
        "query to (b, q, 1, d), key to (b, 1, k, d)",
    ),
    ("2.2", lambda q, k, W, U, v: ((q @ W.T)[:, :, None] + k @ U.T).tanh() @ v, "key to (b, 1, k, d)"),
    ("2.2", lambda q, k, W, U, v: torch.cat([q @ W.T, k @ U.T], -1).tanh() @ v, "key to (b, 1, k, d)"),
    ("2.2", lambda q, k, W, U, v: torch.einsum("bqd,bkd->bqk", q @ W.T, k @ U.T), "dot product"),
    (
        "2.2",
        lambda q, k, W, U, v: torch.einsum(
            "bqkd,d->bqk", ((q @ W.T)[:, :, None] * (k @ U.T)[:, None]).tanh(), v
        ),
        "two parts are multiplied",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: ((q @ W.T).tanh()[:, :, None] + (k @ U.T)[:, None]) @ v,
        "the query's part only",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: ((q @ W.T)[:, :, None] + (k @ U.T).tanh()[:, None]) @ v,
        "the keys' part only",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: ((q @ W.T * v)[:, :, None] + (k @ U.T * v)[:, None]).tanh().sum(3),
        "v is inside the tanh",
    ),
    ("2.2", lambda q, k, W, U, v: linear_additive(q, k, W, U, v).mT, ".permute(0, 2, 1) makes them fit"),
    ("2.2", lambda q, k, W, U, v: linear_additive(q, k, W, U, v).softmax(2), "weights already"),
    ("2.2", lambda q, k, W, U, v: linear_additive(q, k, W, U.detach(), v), "no gradient reaches U"),
    ("2.2", lambda q, k, W, U, v: linear_additive(q, k, W.data, U.data, v), "no gradient reaches W"),
    ("2.3", conv_with_flip, "filters are flipped"),
    ("2.3", lambda p, f: p.unfold(1, f.shape[1], 1) @ f.T, "There is no padding"),
    ("2.3", lambda p, f: unfold_location(p, f).mT, ".permute(0, 2, 1) makes them fit"),
    ("2.3", lambda p, f: functional.conv1d(p[:, None], f[:, None], padding=4).mT, "too much padding"),
    ("2.3", lambda p, f: functional.pad(p, (4, 0)).unfold(1, 5, 1) @ f.T, "on the left"),
    ("2.3", lambda p, f: torch.cat([p, p, p], 1)[:, 5:16].unfold(1, 5, 1) @ f.T, "wraps around"),
    ("2.3", lambda p, f: functional.conv1d(p, f, padding=2).mT, "(b, 1, k), (c, 1, w)"),
    ("2.3", lambda p, f: functional.conv1d(p[:, None], f, padding=2).mT, "(b, 1, k), (c, 1, w)"),
    ("2.3", lambda p, f: functional.conv1d(p, f[:, None], padding=2).mT, "(b, 1, k), (c, 1, w)"),
    ("2.3", off_by_one, "one position late, and the last has come round"),
    ("2.3", lambda p, f: unfold_location(p, f).roll(-1, 1), "one position early, and the first has come"),
    ("2.3", lambda p, f: functional.pad(p, (3, 1)).unfold(1, 5, 1) @ f.T, "one position late: put"),
    ("2.3", lambda p, f: functional.pad(p, (1, 3)).unfold(1, 5, 1) @ f.T, "one position early: put"),
    ("2.3", lambda p, f: functional.pad(p, (2, 1)).unfold(1, 5, 1) @ f.T, "last position is missing"),
    ("2.3", last_forgotten, "last position is left at 0"),
    ("2.3", lambda p, f: unfold_location(p, f).square(), "values are not. The first is at (0, 0, 0)"),
    ("2.4", lambda w: sum((j + 1) * w[..., j] for j in range(7)), "counted from 1"),
    ("2.4", lambda w: w.max(-1).indices, "position of the greatest weight"),
    ("2.4", lambda w: w.max(-1).indices.double(), "position of the greatest weight"),
    ("2.4", lambda w: (w * torch.arange(7)).mean(-1), "do not average"),
    ("2.4", lambda w: torch.einsum("bqk,q->bk", w, torch.arange(5.0).double()), "over the queries"),
    ("2.4", lambda w: w @ torch.arange(7).double()[:, None], "squeeze"),
    ("2.4", lambda w: loops_position(w.float()), "dtype is torch.float32"),
    ("2.4", numpy_position, "no gradient reaches weights"),
    ("2.4", lambda w: w @ torch.arange(7), "RuntimeError: addmv"),
    ("2.4", lambda w: w @ torch.arange(7), "torch.arange needs dtype=weights.dtype"),
    ("2.4", lambda w: w @ torch.arange(1.0, 8.0), "torch.arange needs dtype=weights.dtype"),
    ("2.4", lambda w: w @ torch.arange(7)[:, None], "torch.arange needs dtype=weights.dtype"),
    ("2.4", lambda w: torch.einsum("bqk,k->bq", w, torch.arange(7)), "needs dtype=weights.dtype"),
    ("2.4", lambda w: (w * torch.arange(1, 8)).sum(-1), "counted from 1"),
    ("2.4", lambda w: (w * torch.arange(6, -1, -1)).sum(-1), "counted from the end: the first"),
    ("2.4", lambda w: (w * torch.arange(7, 0, -1)).sum(-1), "counted from the end, and from 1"),
    ("2.4", lambda w: (w * torch.arange(5)[:, None]).sum(-1), "positions of the queries"),
    ("2.4", lambda w: (w * torch.arange(5)).sum(-1), "weights.shape[-1] of them"),
    ("2.4", lambda w: w @ torch.arange(5, dtype=w.dtype), "weights.shape[-1] of them"),
    ("2.4", lambda w: w @ torch.arange(5, dtype=w.dtype)[:, None], "weights.shape[-1] of them"),
    ("2.4", lambda w: torch.einsum("bqk,k->bq", w, torch.arange(5.0).double()), "weights.shape[-1] of them"),
]


@pytest.mark.parametrize(("number", "function", "words"), NEW)
def test_a_mistake_written_anew_gets_the_right_words(number, function, words):
    verdict = check(number, function)
    assert not verdict
    assert words in repr(verdict), verdict


def with_nan(number, count):
    """The right result but for its first ``count`` values."""
    result = _EXERCISES[number].solution(*_EXERCISES[number].inputs.values()).clone()
    result.view(-1)[:count] = torch.nan
    return result


def test_the_rest_is_spoken_of_only_if_there_is_one():
    right, none = with_nan("2.1", 3), with_nan("2.1", 105)
    assert "first at (0, 0, 0). The rest is right." in repr(check("2.1", lambda s, m: right))
    assert "The rest is not all right." in repr(check("2.1", lambda s, m: right / 3))
    assert repr(check("2.1", lambda s, m: none)).endswith(
        "105 of 105 values are NaN or infinite, the first at (0, 0, 0)."
    )


def test_a_nan_gradient_is_named():
    def nan_gradient(weights):
        return loops_position(weights) + 0 * (weights - weights).sqrt().sum(-1)

    assert "gradient with respect to weights is not finite" in repr(check("2.4", nan_gradient))


def test_checking_leaves_the_exercise_as_it_was():
    before = {name: value.clone() for name, value in _EXERCISES["2.1"].inputs.items()}
    check("2.1", in_place)
    assert all(torch.equal(before[name], value) for name, value in _EXERCISES["2.1"].inputs.items())


def test_a_module_can_be_checked():
    class Softmax(nn.Module):
        def forward(self, scores, mask):
            return masked_softmax(scores, mask)

    assert check("2.1", Softmax())


@pytest.mark.parametrize("number", ["2.9", "", 2.1])
def test_an_unknown_exercise_is_refused_with_the_known_ones(number):
    with pytest.raises(ValueError, match=r"no exercise .* there are '2.1', '2.2', '2.3', '2.4'"):
        unwrap(check)(number, masked_softmax)


def test_a_result_in_the_place_of_a_function_is_refused():
    with pytest.raises(TypeError, match=r"check\('2.1', my_function\), but was given a Tensor"):
        unwrap(check)("2.1", torch.ones(1))


def test_advice_is_given_only_where_it_fits():
    assert repr(check("2.4", lambda w: w[9])).endswith("in this order, with weights (3, 5, 7).")
