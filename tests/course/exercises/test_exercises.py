"""Each exercise: its solution is right, its mistakes and its hints get the right feedback."""

import math
from inspect import unwrap
from itertools import combinations

import pytest
import torch
from torch.nn import functional

from attention_course.exercises import _EXERCISES, check
from attention_course.exercises.exercise import _equal
from companion.attention import masked_softmax
from companion.attention.delta import recurrent_delta_rule

KNOWN = [
    (number, words, function)
    for number, exercise in _EXERCISES.items()
    for words, function in [*exercise.mistakes.items(), *exercise.confusions.items()]
]


@pytest.mark.parametrize("number", _EXERCISES)
def test_the_solution_is_right(number):
    verdict = check(number, _EXERCISES[number].solution)
    assert verdict
    assert repr(verdict) == f"Exercise {number} is right."


@pytest.mark.parametrize(("number", "words", "function"), KNOWN)
def test_a_known_mistake_gets_its_own_feedback(number, words, function):
    verdict = check(number, function)
    assert not verdict
    assert repr(verdict) == f"Exercise {number}, not yet. {words}"


@pytest.mark.parametrize("number", _EXERCISES)
def test_no_two_mistakes_have_the_same_result(number):
    exercise = _EXERCISES[number]
    for inputs, mistakes in (
        (exercise.inputs, exercise.mistakes),
        (exercise.alike, exercise.confusions),
    ):
        functions = [exercise.solution, *mistakes.values()]
        results = (
            [function(*inputs.values()) for function in functions] if inputs else []
        )
        assert not any(_equal(one, other) for one, other in combinations(results, 2))


@pytest.mark.parametrize("number", _EXERCISES)
def test_sizes_are_different_primes(number):
    inputs = _EXERCISES[number].inputs.values()
    sizes = [tuple(value.shape) for value in inputs if isinstance(value, torch.Tensor)]
    for size in {size for shape in sizes for size in shape}:
        assert all(size % divisor for divisor in range(2, size))
    assert all(len(set(shape)) == len(shape) for shape in sizes)


# Right answers, written independently


def nan_to_num_softmax(scores, mask):
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).nan_to_num(0)


def jacobian_gradient(weights, values, gradient):
    """By the whole derivative of the softmax, diag(α) − α αᵀ."""
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None]
    return torch.einsum("bjl,blv,bv->bj", jacobian, values, gradient)


def paired_concat(query, keys, W, v):
    queries = query[:, :, None].expand(-1, -1, keys.shape[1], -1)
    others = keys[:, None].expand(-1, query.shape[1], -1, -1)
    return torch.tanh(torch.cat([queries, others], -1) @ W.T) @ v


def loops_local_p(scores, centre, radius):
    """The weights of local-p, window by window."""
    weights = torch.zeros_like(scores)
    for b in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            window = [
                s for s in range(scores.shape[2]) if abs(s - centre[b, i]) <= radius
            ]
            distance = torch.tensor(window) - centre[b, i]
            weights[b, i, window] = (
                scores[b, i, window].softmax(0) * (-2 * (distance / radius) ** 2).exp()
            )
    return weights


def concatenated_multi_head(x, z, W_Q, W_K, W_V, W_O, mask):
    def projected(states, W):
        together = states @ W.transpose(0, 1).flatten(1)
        return together.unflatten(-1, (len(W), -1)).transpose(1, 2)

    scores = projected(x, W_Q) @ projected(z, W_K).mT / math.sqrt(W_Q.shape[-1])
    scores = scores.masked_fill(~mask.unsqueeze(1), -torch.inf)
    heads = torch.nan_to_num(scores.softmax(-1)) @ projected(z, W_V)
    return heads.transpose(1, 2).flatten(2) @ W_O.flatten(0, 1)


def loops_mean(states, mask):
    return torch.stack(
        [
            s[m].mean(0) if m.any() else 0 * s[0]
            for s, m in zip(states, mask, strict=True)
        ]
    )


def loops_reverse(tokens):
    rows = [[word for word in row if word][::-1] for row in tokens.tolist()]
    return torch.tensor([row + [0] * (tokens.shape[1] - len(row)) for row in rows])


def loss_log_prob(logits, target):
    return -functional.cross_entropy(
        logits.mT, target, ignore_index=0, reduction="none"
    ).sum(1)


def added_nucleus(logits, top_p):
    probability = logits.softmax(-1)
    more_probable = (probability[:, None] > probability[..., None]) * probability[
        :, None
    ]
    outside = more_probable.sum(-1) >= top_p
    return logits + torch.zeros_like(logits).masked_fill(outside, -torch.inf)


def loops_penalty(weights, words, weight):
    images = [
        (1 - alpha[m].sum(0)).pow(2).sum()
        for alpha, m in zip(weights, words, strict=True)
    ]
    return weight * sum(images) / len(images)


def loops_to_go(reward, words):
    rows = [
        [r[t:][m[t:]].sum() for t in range(len(r))]
        for r, m in zip(reward, words, strict=True)
    ]
    return torch.stack([torch.stack(row) for row in rows])


def sliced_sinusoids(positions, size):
    encoding = torch.zeros(len(positions), size)
    angle = positions[:, None] * torch.exp(
        torch.arange(0, size, 2) * (-math.log(10000.0) / size)
    )
    encoding[:, 0::2] = angle.sin()
    encoding[:, 1::2] = angle.cos()[:, : size // 2]
    return encoding


def shifted_as_complex_numbers(pairs, k):
    """A pair as one number, whose sine is its imaginary part."""
    numbers = torch.complex(pairs[..., 1], pairs[..., 0])
    angle = k / 10000.0 ** (torch.arange(pairs.shape[1]) / pairs.shape[1])
    turned = numbers * torch.complex(angle.cos(), angle.sin())
    return torch.stack([turned.imag, turned.real], -1)


def glu_gated(x, W, b, V, c):
    """As the paper pads: k − 1 zeros on both sides, then the end cut off."""
    more = W.shape[-1] - 1
    both = functional.conv1d(x.mT, torch.cat([W, V]), torch.cat([b, c]), padding=more)
    return functional.glu(both[..., : x.shape[1]], 1).mT


def loops_step(h, g, z, e, W, b, mask):
    result = torch.zeros_like(g)
    for n, i in torch.cartesian_prod(*map(torch.arange, g.shape[:2])).tolist():
        keys, values = z[n][mask[n]], (z + e)[n][mask[n]]
        m = len(keys)
        result[n, i] = (
            m
            * math.sqrt(1 / m)
            * torch.softmax(keys @ (W @ h[n, i] + b + g[n, i]), 0)
            @ values
        )
    return result


def loops_maximum(states, mask):
    rows = []
    for row, real in zip(states, mask, strict=True):
        kept = row[real]
        rows.append(kept.max(0).values if len(kept) else torch.zeros_like(row[0]))
    return torch.stack(rows)


def loops_document_query(h, mask, W, b, u, V, c):
    pooled = []
    for states, real, document in zip(h, mask, c, strict=True):
        query = u + V @ document
        scores = torch.stack(
            [query @ torch.tanh(W @ state + b) for state in states[real]]
        )
        pooled.append(scores.softmax(0) @ states[real])
    return torch.stack(pooled)


def loops_tiles(mask, side):
    rows = [strip.split(side, 1) for strip in mask.split(side)]
    return torch.tensor([[tile.any().item() for tile in row] for row in rows])


def loops_join(contexts, lses):
    merged, total = contexts[0], lses[0]
    for context, lse in zip(contexts[1:], lses[1:], strict=True):
        merged = merged.lerp(context, (lse - total).sigmoid()[..., None])
        total = torch.logaddexp(total, lse)
    return merged


def loops_table(R, value, mask):
    rows = []
    for words, may in zip(value, mask, strict=True):
        exponentials = R[:, : len(words)].exp() * may
        rows.append(exponentials / exponentials.sum(-1, keepdim=True) @ words)
    return torch.stack(rows)


def loops_log_answer(scores, answer):
    """The logarithm of a sum of products of probabilities, each as a sum of logarithms."""
    n, m = scores.shape
    terms = [
        scores[i, t] - scores[:, t].logsumexp(0) + scores[k, t] - scores[k].logsumexp(0)
        for i in range(n)
        for t in range(m)
        for k in range(n)
        if answer[i]
    ]
    return torch.stack(terms).logsumexp(0) - torch.tensor(n).log()


def beta_gradient_by_autograd(scores, answer):
    through_beta = 1 * scores  # α is computed of the scores themselves, and held fixed
    found = scores.softmax(0)[answer].sum(0)
    probability = through_beta.softmax(1).mean(0) @ found
    return torch.autograd.grad(probability.log(), through_beta, create_graph=True)[0]


def loops_strongest(scores, document, question):
    rows = torch.zeros_like(scores[..., 0])
    for number, matrix in enumerate(scores):
        real = matrix[document[number]][:, question[number]]
        rows[number, document[number]] = real.max(1).values.softmax(0)
    return rows


def loops_cached(lengths, layers, every, window, numbers):
    found = []
    for length in lengths.tolist():
        kept = (
            length if layer % every == 0 else min(length, window)
            for layer in range(1, layers + 1)
        )
        found.append(sum(kept) * numbers)
    return torch.tensor(found)


def merged_sink(scores, sink):
    """A softmax, of which a sigmoid leaves the part beside the sink."""
    rest = (scores.logsumexp(-1) - sink[:, None]).sigmoid()
    return scores.softmax(-1) * rest[..., None]


def even_sinusoids(positions, size):
    """The usual code, which fails for odd sizes."""
    encoding = torch.zeros(len(positions), size)
    angle = positions[:, None] * torch.exp(
        torch.arange(0, size, 2) * (-math.log(10000.0) / size)
    )
    encoding[:, 0::2], encoding[:, 1::2] = angle.sin(), angle.cos()
    return encoding


def sums_gated_linear(query, key, value, gate):
    left = gate.log().cumsum(1)  # (b, n, d)
    kept = (left[:, :, None] - left[:, None]).exp()  # (b, i, j, d)
    weights = torch.einsum("bid,bijd,bjd->bij", query, kept, key).tril()
    return weights @ value


def delta_of_unit_values(query, key, beta):
    value = torch.eye(key.shape[1], dtype=key.dtype).expand(len(key), -1, -1)
    return recurrent_delta_rule(query, key, value, beta)[0]


RIGHT = {
    "1.1": loops_reverse,
    "1.2": loss_log_prob,
    "1.3": lambda p, n, a: p / torch.pow(n.float().add(5).div(6), a),
    "1.4": added_nucleus,
    "2.1": nan_to_num_softmax,
    "2.2": jacobian_gradient,
    "2.3": lambda w: sum(j * w[..., j] for j in range(w.shape[-1])),
    "3.1": loops_mean,
    "3.2": concatenated_multi_head,
    "3.3": lambda x, y: 1 / (torch.cdist(x, y) + 1),
    "4.1": lambda r: (r - r.mean(-1, keepdim=True)) * r.shape[-1] / (r.shape[-1] - 1),
    "4.2": loops_penalty,
    "4.3": loops_to_go,
    "5.1": paired_concat,
    "5.2": lambda a, g, p, D: (
        4 / D**2 * torch.einsum("bts,bts->bt", g * a, torch.arange(11) - p[..., None])
    ),
    "5.3": loops_local_p,
    "6.1": shifted_as_complex_numbers,
    "6.2": sliced_sinusoids,
    "6.3": lambda x, y, e: functional.cross_entropy(
        x, y, reduction="none", label_smoothing=e
    ),
    "7.1": lambda i, j, s: torch.where(i - j > s, (i - j) % s == 0, j <= i),
    "7.2": loops_tiles,
    "7.3": loops_join,
    "8.1": lambda A, B: torch.einsum("bnr,bnc->bnrc", B, A).flatten(-2),
    "8.2": loops_table,
    "8.3": lambda k: k.unfold(-1, (k.shape[-1] + 1) // 2, 1).flip(-2),
    "9.1": loops_maximum,
    "9.2": loops_document_query,
    "9.3": lambda w, s: torch.einsum("bsn,bs->bsn", w, s),
    "10.1": loops_log_answer,
    "10.2": beta_gradient_by_autograd,
    "10.3": loops_strongest,
    "11.1": glu_gated,
    "11.2": loops_step,
    "11.3": lambda v, g: torch._weight_norm(v, g[:, None, None], 0),
    "12.1": loops_cached,
    "12.2": merged_sink,
    "13.1": sums_gated_linear,
    "13.2": delta_of_unit_values,
}


@pytest.mark.parametrize("number", _EXERCISES)
def test_an_independent_answer_is_right(number):
    assert check(number, RIGHT[number]), check(number, RIGHT[number])


# A hint follows the message of PyTorch, whose words differ from version to version


def in_place_gated(query, key, value, gate):
    state = torch.zeros(2, 3, 5, dtype=value.dtype)
    rows = []
    for q, k, v, g in zip(
        *(x.unbind(1) for x in (query, key, value, gate)), strict=True
    ):
        state *= g[..., None]
        state += k[:, :, None] * v[:, None]
        rows.append((q[:, None] @ state).squeeze(1))
    return torch.stack(rows, 1)


HINTED = [
    ("1.1", lambda t: t.gather(1, (t != 0).sum(1, keepdim=True) - torch.arange(7)), 0),
    ("1.2", lambda x, y: x.log_softmax(-1).gather(-1, y), 0),
    ("1.2", lambda x, y: functional.cross_entropy(x, y, ignore_index=0), 1),
    ("1.4", lambda x, p: torch.zeros_like(x).scatter(-1, x.argsort(-1), x > p), 0),
    ("2.2", lambda a, h, g: a * ((h - a[:, None] @ h) * g).sum(-1), 0),
    ("2.3", lambda w: w @ torch.arange(7), 0),
    ("2.3", lambda w: torch.einsum("bqk,k->bq", w, torch.arange(7)), 0),
    ("2.3", lambda w: (w * torch.arange(5)).sum(-1), 1),
    ("2.3", lambda w: w @ torch.arange(5, dtype=w.dtype), 1),
    ("2.3", lambda w: w @ torch.arange(5, dtype=w.dtype)[:, None], 1),
    ("2.3", lambda w: torch.einsum("bqk,k->bq", w, w.new_ones(5)), 1),
    ("3.1", lambda s, m: (s * m).sum(1), 0),
    ("3.2", lambda x, z, W_Q, *others: x @ W_Q, 0),
    ("3.3", lambda x, y: x - y, 0),
    ("5.1", lambda q, k, W, v: (torch.cat([q, k], -1) @ W.T).tanh() @ v, 0),
    ("5.2", lambda a, g, p, D: (g * a * (torch.arange(11) - p)).sum(-1), 0),
    ("5.3", lambda e, p, D: e - p, 0),
    ("6.1", lambda x, k: x * torch.arange(x.shape[1]), 0),
    ("6.2", even_sinusoids, 0),
    ("6.3", lambda x, y, e: x.log_softmax(-1).gather(-1, y), 0),
    ("7.1", lambda i, j, s: (j <= i) and (i - j <= s), 0),
    ("7.2", lambda m, s: m.unflatten(0, (-1, s)).any(1), 0),
    ("7.3", lambda c, s: (s.softmax(0) * c).sum(0), 0),
    ("8.1", lambda A, B: A * B, 0),
    ("8.1", lambda A, B: B @ A, 0),
    ("8.2", lambda R, v, m: R.softmax(-1) @ v, 0),
    ("8.3", lambda k: k.unfold(-1, 14, 1), 0),
    ("9.1", lambda h, m: torch.where(m, h, -torch.inf).amax(1), 0),
    ("9.3", lambda w, s: w * s, 0),
    ("10.1", lambda M, a: M.log_softmax(0) + M.log_softmax(1).logsumexp(1), 0),
    ("10.2", lambda M, a: M.softmax(1) - M.softmax(0).sum(1), 0),
    ("10.3", lambda s, d, q: s.masked_fill(~q, -torch.inf), 0),
    ("11.1", lambda x, *others: glu_gated(x.mT, *others), 0),
    ("11.2", lambda h, g, z, e, W, b, m: ((h + g) @ z.mT).masked_fill(m, 0), 0),
    ("11.3", lambda v, g: v * g / v.norm(), 0),
    ("12.2", lambda scores, sink: scores.exp() / (sink.exp() + scores.exp()), 0),
    ("13.1", in_place_gated, 0),
]


@pytest.mark.parametrize(("number", "function", "hint"), HINTED)
def test_an_error_gets_the_hint_that_is_meant_for_it(number, function, hint):
    advice = list(_EXERCISES[number].hints.values())[hint]
    assert advice in repr(check(number, function))


def test_every_hint_is_given_once_at_least():
    hints = {
        (number, hint)
        for number, exercise in _EXERCISES.items()
        for hint in range(len(exercise.hints))
    }
    assert {(number, hint) for number, _, hint in HINTED} == hints


@pytest.mark.parametrize("number", ["2.9", "", 2.1])
def test_an_unknown_exercise_is_refused_with_the_known_ones(number):
    with pytest.raises(
        ValueError, match=r"no exercise .* there are '1.1', .*'1.4', '2.1', .*'2.3'"
    ):
        unwrap(check)(number, masked_softmax)


def test_a_result_instead_of_a_function_is_refused():
    with pytest.raises(
        TypeError, match=r"check\('2.1', my_function\), but was given a Tensor"
    ):
        unwrap(check)("2.1", torch.ones(1))
