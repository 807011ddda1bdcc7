"""Right answers are accepted, and mistakes get the right feedback, known or not."""

import math
import sys
from inspect import unwrap
from itertools import combinations

import pytest
import torch
from torch import nn
from torch.nn import functional

from attention_course.exercises import _EXERCISES, check
from attention_course.exercises.exercise import _equal
from companion.attention import masked_softmax

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


# Right answers, written differently


def loops_softmax(scores, mask):
    weights = torch.zeros_like(scores)
    for b, q in torch.cartesian_prod(
        torch.arange(len(scores)), torch.arange(scores.shape[1])
    ).tolist():
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
    greatest = (
        scores.masked_fill(~mask, -torch.inf).amax(-1, keepdim=True).clamp(min=-1e300)
    )
    exponentials = (scores - greatest).masked_fill(~mask, -torch.inf).exp()
    return exponentials / exponentials.sum(-1, keepdim=True).clamp(min=1e-300)


def loops_additive(query, key, W, U, v):
    rows = []
    for s, h in zip(query, key, strict=True):
        rows.append(
            torch.stack(
                [torch.stack([v @ torch.tanh(W @ i + U @ j) for j in h]) for i in s]
            )
        )
    return torch.stack(rows)


def linear_additive(query, key, W, U, v):
    parts = functional.linear(query, W).unsqueeze(2) + functional.linear(
        key, U
    ).unsqueeze(1)
    return torch.einsum("bqkd,d->bqk", parts.tanh(), v)


def loops_location(previous, filters):
    half = filters.shape[1] // 2
    zeros = previous.new_zeros(len(previous), half)
    padded = torch.cat([zeros, previous, zeros], 1)
    windows = [
        padded[:, i : i + filters.shape[1]] @ filters.T
        for i in range(previous.shape[1])
    ]
    return torch.stack(windows, 1)


def unfold_location(previous, filters):
    half = filters.shape[1] // 2
    return (
        functional.pad(previous, (half, half)).unfold(1, filters.shape[1], 1)
        @ filters.T
    )


def loops_general(query, key, W):
    scores = torch.zeros(*query.shape[:2], key.shape[1], dtype=query.dtype)
    for i in range(query.shape[1]):
        for j in range(key.shape[1]):
            scores[:, i, j] = ((query[:, i] @ W) * key[:, j]).sum(-1)
    return scores


def linear_centre(query, lengths, W, v):
    return lengths.unsqueeze(1) / (
        1 + (-(functional.linear(query, W).tanh() * v).sum(-1)).exp()
    )


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


def loops_position(weights):
    return sum(j * weights[..., j] for j in range(weights.shape[-1]))


def loops_attend(query, key, value):
    rows = []
    for q, k, v in zip(query, key, value, strict=True):
        rows.append(
            torch.stack(
                [torch.softmax(k @ one / math.sqrt(len(one)), 0) @ v for one in q]
            )
        )
    return torch.stack(rows)


def loops_multi_head(x, z, W_Q, W_K, W_V, W_O, mask):
    result = torch.zeros_like(x)
    for head in range(len(W_Q)):
        queries, keys, values = x @ W_Q[head], z @ W_K[head], z @ W_V[head]
        for b, q in torch.cartesian_prod(
            torch.arange(len(x)), torch.arange(x.shape[1])
        ).tolist():
            if mask[b, q].any():
                context = functional.scaled_dot_product_attention(
                    queries[b, q][None], keys[b][mask[b, q]], values[b][mask[b, q]]
                )
                row = torch.zeros(len(x), x.shape[1], 1)
                row[b, q] = 1
                result = result + row * (context @ W_O[head])
    return result


def concatenated_multi_head(x, z, W_Q, W_K, W_V, W_O, mask):
    def projected(states, W):
        together = states @ W.transpose(0, 1).flatten(1)
        return together.unflatten(-1, (len(W), -1)).transpose(1, 2)

    scores = projected(x, W_Q) @ projected(z, W_K).mT / math.sqrt(W_Q.shape[-1])
    scores = scores.masked_fill(~mask.unsqueeze(1), -torch.inf)
    heads = torch.nan_to_num(scores.softmax(-1)) @ projected(z, W_V)
    return heads.transpose(1, 2).flatten(2) @ W_O.flatten(0, 1)


def einsum_multi_head(x, z, W_Q, W_K, W_V, W_O, mask, scale=None, visible=None):
    """Multi-head attention that mistakes can be written into."""
    scale = scale or W_Q.shape[-1] ** -0.5
    q, k, v = (
        torch.einsum("bnd,hde->bhne", states, W)
        for states, W in ((x, W_Q), (z, W_K), (z, W_V))
    )
    scores = torch.einsum("bhqe,bhke->bhqk", q, k) * scale
    visible = mask[:, None] if visible is None else visible
    weights = nan_to_num_softmax(scores, visible)
    return torch.einsum("bhqk,bhke,hed->bqd", weights, v, W_O)


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


def sorted_reverse(tokens):
    flipped = tokens.flip(1)
    return flipped.gather(1, (flipped == 0).long().argsort(dim=1, stable=True))


def loops_log_prob(logits, target):
    sentences = []
    for scores, words in zip(logits, target, strict=True):
        steps = [i for i in range(len(words)) if words[i] != 0]
        sentences.append(
            sum(scores[i, words[i]] - scores[i].logsumexp(0) for i in steps)
        )
    return torch.stack(sentences)


def loss_log_prob(logits, target):
    return -functional.cross_entropy(
        logits.mT, target, ignore_index=0, reduction="none"
    ).sum(1)


def logarithmic_score(log_probs, lengths, penalty):
    return log_probs * torch.exp(-penalty * torch.log((lengths.double() + 5) / 6))


def loops_nucleus(logits, top_p):
    rows = torch.full_like(logits, -torch.inf)
    for b, scores in enumerate(logits):
        total, probabilities = 0.0, scores.softmax(0)
        for word in scores.argsort(descending=True).tolist():
            rows[b, word] = scores[word]
            total += probabilities[word].item()
            if total >= top_p:
                break
    return rows


def added_nucleus(logits, top_p):
    probability = logits.softmax(-1)
    more_probable = (probability[:, None] > probability[..., None]) * probability[
        :, None
    ]
    outside = more_probable.sum(-1) >= top_p
    return logits + torch.zeros_like(logits).masked_fill(outside, -torch.inf)


def sorted_beam_step(scores, log_probs, width):
    extended = (scores.reshape(-1, 1) + log_probs).reshape(-1)
    outside = extended.argsort(descending=True)[width:]
    return extended.index_fill(0, outside, -torch.inf).reshape(log_probs.shape)


def loops_gate(hidden, weights, value, f):
    rows = []
    for h, alpha, a in zip(hidden, weights, value, strict=True):
        rows.append(
            torch.sigmoid(h @ f) * sum(w * x for w, x in zip(alpha, a, strict=True))
        )
    return torch.stack(rows)


def loops_penalty(weights, words, weight):
    images = [
        (1 - alpha[m].sum(0)).pow(2).sum()
        for alpha, m in zip(weights, words, strict=True)
    ]
    return weight * sum(images) / len(images)


def loops_received(weights, words):
    return torch.stack(
        [alpha[m].sum(0) for alpha, m in zip(weights, words, strict=True)]
    )


def loops_to_go(reward, words):
    rows = [
        [r[t:][m[t:]].sum() for t in range(len(r))]
        for r, m in zip(reward, words, strict=True)
    ]
    return torch.stack([torch.stack(row) for row in rows])


def loops_sinusoids(positions, size):
    def angle(i):
        return positions / 10000 ** (2 * (i // 2) / size)

    return torch.stack(
        [angle(i).cos() if i % 2 else angle(i).sin() for i in range(size)], -1
    )


def sliced_sinusoids(positions, size):
    encoding = torch.zeros(len(positions), size)
    angle = positions[:, None] * torch.exp(
        torch.arange(0, size, 2) * (-math.log(10000.0) / size)
    )
    encoding[:, 0::2] = angle.sin()
    encoding[:, 1::2] = angle.cos()[:, : size // 2]
    return encoding


def even_sinusoids(positions, size):
    """The usual code, which fails for odd sizes."""
    encoding = torch.zeros(len(positions), size)
    angle = positions[:, None] * torch.exp(
        torch.arange(0, size, 2) * (-math.log(10000.0) / size)
    )
    encoding[:, 0::2], encoding[:, 1::2] = angle.sin(), angle.cos()
    return encoding


def sdpa_next(query, past_key, past_value, key, value, causal=False):
    keys, values = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    return functional.scaled_dot_product_attention(
        query, keys, values, is_causal=causal
    )


def loops_next(query, past_key, past_value, key, value):
    """One head of one sentence at a time."""
    result = torch.zeros_like(value)
    for b, h in torch.cartesian_prod(*map(torch.arange, value.shape[:2])).tolist():
        keys, values = (
            torch.cat([past_key[b, h], key[b, h]]),
            torch.cat([past_value[b, h], value[b, h]]),
        )
        result[b, h, 0] = (
            torch.softmax(keys @ query[b, h, 0] / math.sqrt(query.shape[-1]), 0)
            @ values
        )
    return result


def loops_smoothed(logits, target, epsilon):
    rows = []
    for scores, word in zip(logits, target.tolist(), strict=True):
        wanted = torch.full_like(scores, epsilon / len(scores))
        wanted[word] += 1 - epsilon
        rows.append(-(wanted * scores.log_softmax(0)).sum())
    return torch.stack(rows)


def loops_gated(x, W, b, V, c):
    result, width = torch.zeros(*x.shape[:2], len(b), dtype=x.dtype), W.shape[-1]
    for n, i in torch.cartesian_prod(*map(torch.arange, x.shape[:2])).tolist():
        seen = [
            x[n, i - width + 1 + m] if i - width + 1 + m >= 0 else 0 * x[n, 0]
            for m in range(width)
        ]
        A = b + sum(W[..., m] @ word for m, word in enumerate(seen))
        result[n, i] = A * torch.sigmoid(
            c + sum(V[..., m] @ word for m, word in enumerate(seen))
        )
    return result


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


def loops_level(h, mask, W, b, u):
    pooled = []
    for states, real in zip(h, mask, strict=True):
        scores = torch.stack([u @ torch.tanh(W @ state + b) for state in states[real]])
        pooled.append(
            sum(
                weight * state
                for weight, state in zip(scores.softmax(0), states, strict=False)
            )
        )
    return torch.stack(pooled)


def sorted_place(vectors, mask):
    everywhere = vectors.new_zeros(*mask.shape, vectors.shape[1]).masked_scatter(
        mask[..., None], vectors
    )
    order = (~mask).int().sort(dim=1, stable=True).indices[..., None]
    return everywhere.take_along_dim(order, 1)


def everywhere(vectors, mask):
    placed = vectors.new_zeros(*mask.shape, vectors.shape[1])
    placed[mask] = vectors
    return placed


def loops_place(vectors, mask):
    rows, taken = [], 0
    for count in mask.sum(1).tolist():
        missing = vectors.new_zeros(mask.shape[1] - count, vectors.shape[1])
        rows.append(torch.cat([vectors[taken : taken + count], missing]))
        taken += count
    return torch.stack(rows)


def loops_strided(i, j, stride):
    rows = [
        [y <= x and (x - y <= stride or (x - y) % stride == 0) for y in j[0]]
        for x in i[:, 0]
    ]
    return torch.tensor(rows)


def loops_by_class(x, rate):
    columns = -(-x.shape[1] // rate)
    classes = [x[:, first::rate] for first in range(rate)]
    return torch.stack(
        [functional.pad(c, (0, 0, 0, columns - c.shape[1])) for c in classes], 1
    )


def joined_by_logaddexp(context, lse, other, other_lse):
    both = torch.logaddexp(lse, other_lse)
    return (lse - both).exp()[..., None] * context + (other_lse - both).exp()[
        ..., None
    ] * other


def loops_join(context, lse, other, other_lse):
    sums = torch.stack([lse, other_lse], -1).softmax(-1)
    return torch.einsum("bnp,bnpv->bnv", sums, torch.stack([context, other], 2))


def loops_factorized(A, B):
    columns, rows = A.shape[-1], B.shape[-1]
    entries = [
        A[..., position % columns] * B[..., position // columns]
        for position in range(columns * rows)
    ]
    return torch.stack(entries, -1)


def loops_table(R, value, mask):
    rows = []
    for words, may in zip(value, mask, strict=True):
        exponentials = R[:, : len(words)].exp() * may
        rows.append(exponentials / exponentials.sum(-1, keepdim=True) @ words)
    return torch.stack(rows)


def windows_by_offset(kernel):
    n = (kernel.shape[-1] + 1) // 2
    return kernel.unfold(-1, n, 1).flip(-2)


def loops_over_attention(scores, document, question):
    context = torch.zeros_like(scores[..., 0])
    for row, (matrix, words, asked) in enumerate(
        zip(scores, document, question, strict=True)
    ):
        inside = matrix[words][:, asked]
        beta = sum(line.softmax(0) for line in inside) / len(inside)
        context[row, words] = sum(
            weight * column.softmax(0)
            for weight, column in zip(beta, inside.T, strict=True)
        )
    return context


def loops_probability(weights, document, words):
    found = [
        [
            sum(w for w, d in zip(row, line, strict=True) if d == word) + 0 * row[0]
            for word in wanted
        ]
        for row, line, wanted in zip(weights, document, words, strict=True)
    ]
    return torch.stack([torch.stack(row) for row in found])


def loops_answer_loss(weights, document, answer):
    found = [
        row[line == word].sum()
        for row, line, word in zip(weights, document, answer, strict=True)
    ]
    return -sum(probability.log() for probability in found) / len(found)


@pytest.mark.parametrize(
    ("number", "function"),
    [
        ("8.1", loops_factorized),
        ("8.1", lambda A, B: torch.einsum("bnr,bnc->bnrc", B, A).reshape(2, 7, -1)),
        ("8.1", lambda A, B: A.repeat(1, 1, 5) * B.repeat_interleave(3, -1)),
        ("8.2", loops_table),
        (
            "8.2",
            lambda R, v, m: (
                masked_softmax(R[None, :, :7].expand(2, -1, -1), m[:, None]) @ v
            ),
        ),
        ("8.3", windows_by_offset),
        ("9.1", loops_level),
        ("9.2", loops_place),
        ("9.2", sorted_place),
        ("9.3", lambda w, s: torch.einsum("bsn,bs->bsn", w, s)),
        ("11.1", loops_gated),
        ("11.1", glu_gated),
        ("11.2", loops_step),
        ("11.3", lambda v, g: torch._weight_norm(v, g[:, None, None], 0)),
        ("11.3", lambda v, g: v * (g / v.flatten(1).norm(dim=1)).reshape(-1, 1, 1)),
        ("4.1", loops_gate),
        ("4.2", loops_penalty),
        ("4.3", loops_to_go),
        ("1.1", loops_reverse),
        ("1.1", sorted_reverse),
        ("1.2", loops_log_prob),
        ("1.2", loss_log_prob),
        ("1.3", logarithmic_score),
        ("1.3", lambda p, n, a: p / torch.pow(n.float().add(5).div(6), a)),
        ("1.4", loops_nucleus),
        ("1.4", added_nucleus),
        ("1.5", sorted_beam_step),
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
        ("3.1", functional.scaled_dot_product_attention),
        ("3.1", loops_attend),
        ("3.2", loops_mean),
        (
            "3.2",
            lambda s, m: torch.einsum(
                "bn,bnd->bd", m / m.sum(1, keepdim=True).clamp(min=1).to(s), s
            ),
        ),
        ("3.3", lambda x, y: 1 / (torch.cdist(x, y) + 1)),
        (
            "3.3",
            lambda x, y: (1 + (x[:, :, None] - y[:, None]).norm(dim=-1)).reciprocal(),
        ),
        ("3.4", loops_multi_head),
        ("3.4", concatenated_multi_head),
        ("3.4", einsum_multi_head),
        ("5.1", loops_general),
        ("5.1", lambda q, k, W: q @ (k @ W.T).mT),
        ("5.2", linear_centre),
        ("5.3", loops_local_p),
        ("6.1", lambda c: torch.cat(c.unbind(1), -1)),
        ("6.1", lambda c: c.permute(0, 2, 1, 3).flatten(2)),
        ("6.2", loops_sinusoids),
        ("6.2", sliced_sinusoids),
        ("6.3", sdpa_next),
        ("6.3", loops_next),
        (
            "6.4",
            lambda x, y, e: functional.cross_entropy(
                x, y, reduction="none", label_smoothing=e
            ),
        ),
        ("6.4", loops_smoothed),
        ("7.1", loops_strided),
        ("7.1", lambda i, j, s: torch.where(i - j > s, (i - j) % s == 0, j <= i)),
        ("7.2", loops_by_class),
        ("7.3", joined_by_logaddexp),
        ("7.3", loops_join),
        ("10.1", loops_over_attention),
        ("10.2", loops_probability),
        (
            "10.2",
            lambda s, d, w: torch.einsum(
                "bn,bcn->bc", s, (w[..., None] == d[:, None]).to(s)
            ),
        ),
        ("10.3", loops_answer_loss),
        (
            "10.3",
            lambda s, d, a: -s.masked_fill(d != a[:, None], 0).sum(1).log().mean(),
        ),
    ],
)
def test_right_answers_are_accepted_in_every_form(number, function):
    assert check(number, function), check(number, function)


# Mistakes, written independently


def rows_by_hand(over):
    """A softmax by hand whose sum runs over the axes ``over``."""

    def function(scores, mask):
        exponentials = (scores - scores.amax(over, keepdim=True)).exp() * mask
        return exponentials / exponentials.sum(over, keepdim=True).clamp(min=1e-300)

    return function


def hard_coded_scale(query, key, W, U, v):
    return linear_additive(query, key, W, U, v) / math.sqrt(len(v))


def loop_without_tanh(query, key, W, U, v):
    scores = torch.zeros(
        query.shape[0], query.shape[1], key.shape[1], dtype=query.dtype
    )
    for b in range(scores.shape[0]):
        for i in range(scores.shape[1]):
            for j in range(scores.shape[2]):
                scores[b, i, j] = sum(
                    v[d] * (W[d] @ query[b, i] + U[d] @ key[b, j])
                    for d in range(len(v))
                )
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


def first_words(states, mask):
    return torch.stack(
        [
            x[:n].sum(0) / max(n, 1)
            for x, n in zip(states, mask.sum(1).tolist(), strict=True)
        ]
    )


def squares(left, right):
    """The squared distances, computed without differences."""
    lengths = left.square().sum(-1)[:, :, None] + right.square().sum(-1)[:, None]
    return lengths - 2 * left @ right.mT


def off_by_one(previous, filters):
    return unfold_location(previous, filters).roll(1, 1)


def last_forgotten(previous, filters):
    features = torch.zeros(*previous.shape, len(filters), dtype=previous.dtype)
    features[:, :-1] = unfold_location(previous, filters)[:, :-1]
    return features


def conv_with_flip(previous, filters):
    flipped = torch.stack([row.flip(0) for row in filters])
    return functional.conv1d(
        previous.unsqueeze(1), flipped.unsqueeze(1), padding="same"
    ).transpose(1, 2)


def numpy_position(weights):
    return torch.from_numpy(
        weights.detach().numpy() @ torch.arange(7.0).double().numpy()
    )


def backwards(tokens):
    return tokens[:, torch.arange(tokens.shape[1] - 1, -1, -1)]


def from_the_length(tokens):
    lengths = (tokens != 0).sum(1, keepdim=True)
    return tokens.gather(1, lengths - torch.arange(tokens.shape[1]))


def picked(scores, target):
    return torch.stack([scores[b, range(5), target[b]] for b in range(3)])


def cut(logits, top_p, more):
    """Word by word, until the sum is above the threshold, and ``more`` words after."""
    rows = torch.full_like(logits, -torch.inf)
    for b, scores in enumerate(logits):
        order = scores.argsort(descending=True)
        kept = int((scores.softmax(0)[order].cumsum(0) < top_p).sum()) + more
        rows[b, order[:kept]] = scores[order[:kept]]
    return rows


def sorted_logits(logits, top_p):
    ordered = logits.sort(-1, descending=True).values
    probability = ordered.softmax(-1)
    return ordered.masked_fill(probability.cumsum(-1) - probability > top_p, -torch.inf)


def sorted_mask(logits, top_p):
    return logits.masked_fill(sorted_logits(logits, top_p).isinf(), -torch.inf)


def same_gated(x, W, b, V, c):
    A, B = (
        functional.conv1d(x.mT, U, d, padding="same").mT for U, d in ((W, b), (V, c))
    )
    return A * B.sigmoid()


def step_with(h, g, z, e, W, b, mask, m):
    """An attention step in which ``m`` computes the length of a source."""
    scores = ((functional.linear(h, W, b) + g) @ z.mT).masked_fill(
        ~mask[:, None], -torch.inf
    )
    return m(mask) ** 0.5 * torch.einsum("bqk,bkd->bqd", scores.softmax(-1), z + e)


NEW = [
    ("11.1", same_gated, "information from the future"),
    (
        "11.1",
        lambda x, W, b, V, c: loops_gated(x, V, c, W, b),
        "wrong half is the gate",
    ),
    (
        "11.1",
        lambda x, *others: glu_gated(x.flip(1), *others).flip(1),
        "154 of 154 values are wrong",
    ),
    ("11.1", lambda x, *others: glu_gated(x.mT, *others), "x.mT, and .mT after it"),
    (
        "11.2",
        lambda *x: step_with(*x, m=lambda mask: mask.shape[1]),
        "m is the padded length",
    ),
    ("11.2", lambda *x: step_with(*x, m=lambda mask: 1), "factor m √(1/m) is missing"),
    (
        "11.2",
        lambda *x: step_with(*x, m=lambda mask: mask.sum(1)[:, None, None] ** 2),
        "The factor is m:",
    ),
    (
        "11.2",
        lambda h, g, z, e, W, b, mask: loops_step(h, 0 * g, z, e, W, b, mask),
        "g is missing",
    ),
    (
        "11.2",
        lambda h, g, z, e, W, b, mask: loops_step(h, g, z, 0 * e, W, b, mask),
        "The value is z: it must be z + e",
    ),
    (
        "11.3",
        lambda v, g: functional.normalize(v, dim=1) * g[:, None, None],
        "over the inputs only",
    ),
    ("11.3", lambda v, g: v * g / v.norm(), "g[:, None, None]"),
    ("11.3", lambda v, g: v / v.norm() * g.reshape(-1, 1, 1), "that of the whole v"),
    ("1.1", backwards, "The padding is reversed, too"),
    (
        "1.1",
        lambda t: torch.tensor(t.tolist()[::-1]),
        "order of the sentences is reversed, not",
    ),
    ("1.1", from_the_length, "negative at padding"),
    (
        "1.1",
        lambda t: t.flip(1).sort(1, descending=True).values,
        "sorted by their ids",
    ),
    ("1.1", lambda t: loops_reverse(t).float(), "dtype is torch.float32"),
    ("1.1", lambda t: t.copy_(t.flip(1)), "changes its input tokens in place"),
    ("1.1", lambda t: [row[::-1] for row in t.tolist()], "returns a list"),
    ("1.1", lambda t: t[:, [5, 4, 3, 2, 1, 0, 6]], "as long as the longest"),
    (
        "1.1",
        lambda t: t + 1,
        "values are wrong. The first is at (0, 0): 8, but should be 2",
    ),
    ("1.2", lambda x, y: picked(x.log_softmax(2), y).sum(1), "padding is counted"),
    ("1.2", lambda x, y: loss_log_prob(x, y) / (y > 0).sum(-1), "mean over the words"),
    ("1.2", lambda x, y: loss_log_prob(x, y) / 5, "divided by the number of all steps"),
    ("1.2", lambda x, y: -loss_log_prob(x, y), "This is the loss"),
    (
        "1.2",
        lambda x, y: functional.cross_entropy(x.mT, y, ignore_index=0),
        "needs reduction='none'",
    ),
    (
        "1.2",
        lambda x, y: functional.cross_entropy(x.flatten(0, 1), y.flatten()),
        "all steps, including padding",
    ),
    (
        "1.2",
        lambda x, y: functional.cross_entropy(x, y, ignore_index=0),
        "logits.mT is (b, vocabulary, t)",
    ),
    ("1.2", lambda x, y: x.log_softmax(-1).gather(-1, y), "target[..., None]"),
    ("1.2", lambda x, y: (picked(x, y) * (y != 0)).sum(1), "no softmax"),
    (
        "1.2",
        lambda x, y: (picked(x.softmax(-1).log(), y) * (y != 0)).sum(1),
        "underflows before its log",
    ),
    (
        "1.2",
        lambda x, y: picked(x.softmax(-1), y).masked_fill(y == 0, 1).prod(1).log(),
        "product underflows: sum",
    ),
    (
        "1.2",
        lambda x, y: picked(x.softmax(-1), y).masked_fill(y == 0, 1).prod(1),
        "This is the probability",
    ),
    (
        "1.2",
        lambda x, y: (picked(x.log_softmax(1), y) * (y != 0)).sum(1),
        "over the steps (axis 1)",
    ),
    (
        "1.2",
        lambda x, y: (x.log_softmax(2).max(2).values * (y != 0)).sum(1),
        "most probable word",
    ),
    ("1.2", lambda x, y: loss_log_prob(x[:, :4], y[:, 1:]), "target is shifted"),
    (
        "1.2",
        lambda x, y: picked(x.log_softmax(2), y) * (y != 0),
        "words are not summed",
    ),
    ("1.2", lambda x, y: loss_log_prob(x.detach(), y), "no gradient reaches logits"),
    ("1.3", lambda p, n, a: p / (n + 5).div(6).mul(a), "penalty is a factor"),
    ("1.3", lambda p, n, a: p / torch.pow(n, a), "divisor is length^penalty"),
    (
        "1.3",
        lambda p, n, a: p * ((5 + n) / 6).pow(a),
        "penalty term multiplies",
    ),
    ("1.3", lambda p, n, a: p / ((5 + n) / 6), "The penalty is not used"),
    ("1.3", lambda p, n, a: p / (5 + n / 6) ** a, "put 5 + length in brackets"),
    ("1.3", lambda p, n, a: p / n.double(), "divisor is the length"),
    (
        "1.3",
        lambda p, n, a: p / ((5 + n) / 6) ** 0.6,
        "values are wrong. The first is at (0, 1)",
    ),
    (
        "1.3",
        lambda p, n, a: logarithmic_score(p.detach(), n, a),
        "no gradient reaches log_probs",
    ),
    (
        "1.3",
        lambda p, n, a: p[9],
        "with log_probs (3, 5), lengths (3, 5), penalty 0.7.",
    ),
    ("1.4", lambda x, p: cut(x, p, 0), "even if it is the first"),
    ("1.4", lambda x, p: cut(x, p, 2), "One word too many"),
    ("1.4", sorted_logits, "result is in sorted order"),
    ("1.4", sorted_mask, "mask is in sorted order"),
    (
        "1.4",
        lambda x, p: torch.where(loops_nucleus(x, p).isinf(), 0, x),
        "but exp(0) is 1",
    ),
    (
        "1.4",
        lambda x, p: torch.where(loops_nucleus(x, p).isinf(), -1e9, x),
        "−1e9: set them to −inf",
    ),
    ("1.4", lambda x, p: loops_nucleus(x, p).softmax(1), "These are probabilities"),
    (
        "1.4",
        lambda x, p: loops_nucleus(x, p).log_softmax(1),
        "These are log-probabilities",
    ),
    (
        "1.4",
        lambda x, p: torch.where(loops_nucleus(x, p).isinf(), x, -torch.inf),
        "the other way round",
    ),
    (
        "1.4",
        lambda x, p: torch.where(x.softmax(-1) >= p, x, -torch.inf),
        "compared with top_p",
    ),
    ("1.4", lambda x, p: cut(x, p / 2, 1), "The shape is right, but"),
    ("1.4", lambda x, p: loops_nucleus(x, p) * torch.nan, "21 of 21 values are NaN"),
    ("1.4", lambda x, p: loops_nucleus(x.detach(), p), "no gradient reaches logits"),
    (
        "1.4",
        lambda x, p: x.masked_fill_(loops_nucleus(x, p).isinf(), -torch.inf),
        "changes its input logits",
    ),
    ("2.1", rows_by_hand(-2), "over the queries (axis -2)"),
    (
        "2.1",
        lambda s, m: s.softmax(-1).masked_fill(~m, 0),
        "mask is applied after the softmax",
    ),
    ("2.1", lambda s, m: s.softmax(2), "mask is ignored"),
    (
        "2.1",
        lambda s, m: torch.where(m, -torch.inf, s).softmax(-1).nan_to_num(0),
        "mask is inverted",
    ),
    ("2.1", filled_twice, "mask is inverted"),
    (
        "2.1",
        lambda s, m: torch.where(m, s, -torch.inf).softmax(-1),
        "NaN: the sum is 0",
    ),
    ("2.1", masked_after(0), "NaN: the sum is 0"),
    ("2.1", masked_after(1e-9), "the constant in the sum dominates"),
    ("2.1", masked_after(1e-12), "the constant in the sum dominates"),
    ("2.1", minus_100, "and empty rows get equal weights"),
    ("2.1", lambda s, m: minus_100(s, m).masked_fill(~m, 0), "the real keys keep none"),
    (
        "2.1",
        lambda s, m: minus_100(s, m).masked_fill(~m.any(-1, keepdim=True), 0),
        "get the weight, all",
    ),
    (
        "2.1",
        lambda s, m: (s + torch.where(m, 0.0, -1e9)).softmax(-1),
        "those without a mask",
    ),
    ("2.1", lambda s, m: torch.where(m, s, -1e12).softmax(-1), "equal ones"),
    ("2.1", lambda s, m: (s * m).softmax(-1), "exp(0) is 1"),
    (
        "2.1",
        lambda s, m: (s.exp() * m) / (s.exp() * m).sum(-1, keepdim=True),
        "overflow",
    ),
    (
        "2.1",
        lambda s, m: ((s.exp() * m) / (s.exp() * m).sum(-1, keepdim=True)).nan_to_num(
            0
        ),
        "overflow",
    ),
    (
        "2.1",
        lambda s, m: 2 * masked_softmax(s, m),
        "constant factor: every value is 2 times",
    ),
    ("2.1", lambda s, m: masked_softmax(s, m).mT, "(3, 7, 5), but should be (3, 5, 7)"),
    (
        "2.1",
        lambda s, m: masked_softmax(s, m).mT,
        ".permute(0, 2, 1) the values are right",
    ),
    ("2.1", lambda s, m: masked_softmax(s.mT, m.mT), "some values are still wrong"),
    ("2.1", lambda s, m: masked_softmax(s, m)[None], "an extra axis of size 1"),
    (
        "2.1",
        lambda s, m: masked_softmax(s, m)[0],
        "The shape is (5, 7), but should be (3, 5, 7)",
    ),
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
    (
        "2.1",
        lambda s, m: masked_softmax(s, m).clamp_min(1e-7),
        "1e-07, but should be 0.",
    ),
    (
        "2.1",
        lambda s, m: masked_softmax(s, m) / (1 + 1e-5),
        "105 values are wrong. The first is at (0, 0, ",
    ),
    (
        "2.1",
        lambda s, m: masked_softmax(s, m).to(torch.complex128),
        "a tensor of torch.complex128",
    ),
    ("2.1", lambda s, m: masked_softmax(s, m).to_sparse(), "layout torch.sparse_coo"),
    (
        "2.1",
        lambda s, m: masked_softmax(s, m).to("meta"),
        "on device meta, not a dense one",
    ),
    ("2.1", lambda s, m: sys.exit("enough"), "It stops with SystemExit: enough"),
    ("2.2", loop_without_tanh, "tanh is missing"),
    ("2.2", hard_coded_scale, "every value is 0.2774 times"),
    (
        "2.2",
        lambda q, k, W, U, v: linear_additive(q, k, W, U, torch.ones_like(v)),
        "v is missing",
    ),
    ("2.2", lambda q, k, W, U, v: loops_additive(q, k, U, W, v), "W and U are swapped"),
    (
        "2.2",
        lambda q, k, W, U, v: loops_additive(k, q, W, U, v).mT,
        "W and U are swapped",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: ((q @ W)[:, :, None] + (k @ U)[:, None]).tanh() @ v,
        "W and U are transposed",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: ((q @ W)[:, :, None] + (k @ U.T)[:, None]).tanh() @ v,
        "W is transposed",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: (q @ W.T + k @ U.T).tanh() @ v,
        "(3) must match the size of tensor b (5)",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: (q @ W.T + k @ U.T).tanh() @ v,
        "query (b, q, 1, n′), key (b, 1, k, n′)",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: ((q @ W.T)[:, :, None] + k @ U.T).tanh() @ v,
        "key (b, 1, k, n′)",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: torch.cat([q @ W.T, k @ U.T], -1).tanh() @ v,
        "key (b, 1, k, n′)",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: torch.einsum("bqd,bkd->bqk", q @ W.T, k @ U.T),
        "dot product",
    ),
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
        lambda q, k, W, U, v: (
            ((q @ W.T * v)[:, :, None] + (k @ U.T * v)[:, None]).tanh().sum(3)
        ),
        "v is inside the tanh",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: linear_additive(q, k, W, U, v).mT,
        "after .permute(0, 2, 1) the values are right",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: linear_additive(q, k, W, U, v).softmax(2),
        "These are weights: return the scores",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: linear_additive(q, k, W, U.detach(), v),
        "no gradient reaches U",
    ),
    (
        "2.2",
        lambda q, k, W, U, v: linear_additive(q, k, W.data, U.data, v),
        "no gradient reaches W",
    ),
    ("2.3", conv_with_flip, "filters are flipped"),
    ("2.3", lambda p, f: p.unfold(1, f.shape[1], 1) @ f.T, "There is no padding"),
    (
        "2.3",
        lambda p, f: unfold_location(p, f).mT,
        "after .permute(0, 2, 1) the values are right",
    ),
    (
        "2.3",
        lambda p, f: functional.conv1d(p[:, None], f[:, None], padding=4).mT,
        "too much padding",
    ),
    (
        "2.3",
        lambda p, f: functional.pad(p, (4, 0)).unfold(1, 5, 1) @ f.T,
        "on the left",
    ),
    (
        "2.3",
        lambda p, f: torch.cat([p, p, p], 1)[:, 5:16].unfold(1, 5, 1) @ f.T,
        "wraps around",
    ),
    ("2.3", lambda p, f: functional.conv1d(p, f, padding=2).mT, "(b, 1, k), (c, 1, w)"),
    (
        "2.3",
        lambda p, f: functional.conv1d(p[:, None], f, padding=2).mT,
        "(b, 1, k), (c, 1, w)",
    ),
    (
        "2.3",
        lambda p, f: functional.conv1d(p, f[:, None], padding=2).mT,
        "(b, 1, k), (c, 1, w)",
    ),
    ("2.3", off_by_one, "one position late, and the last has wrapped around"),
    (
        "2.3",
        lambda p, f: unfold_location(p, f).roll(-1, 1),
        "one position early, and the first has wrapped",
    ),
    (
        "2.3",
        lambda p, f: functional.pad(p, (3, 1)).unfold(1, 5, 1) @ f.T,
        "one position late: put",
    ),
    (
        "2.3",
        lambda p, f: functional.pad(p, (1, 3)).unfold(1, 5, 1) @ f.T,
        "one position early: put",
    ),
    (
        "2.3",
        lambda p, f: functional.pad(p, (2, 1)).unfold(1, 5, 1) @ f.T,
        "last position is missing",
    ),
    ("2.3", last_forgotten, "last position is left at 0"),
    (
        "2.3",
        lambda p, f: unfold_location(p, f).square(),
        "values are wrong. The first is at (0, 0, 0)",
    ),
    ("2.4", lambda w: sum((j + 1) * w[..., j] for j in range(7)), "counted from 1"),
    ("2.4", lambda w: w.max(-1).indices, "position of the largest weight"),
    ("2.4", lambda w: w.max(-1).indices.double(), "position of the largest weight"),
    ("2.4", lambda w: (w * torch.arange(7)).mean(-1), "do not average"),
    (
        "2.4",
        lambda w: torch.einsum("bqk,q->bk", w, torch.arange(5.0).double()),
        "over the queries",
    ),
    ("2.4", lambda w: w @ torch.arange(7).double()[:, None], "squeeze"),
    ("2.4", lambda w: loops_position(w.float()), "dtype is torch.float32"),
    ("2.4", numpy_position, "no gradient reaches weights"),
    ("2.4", lambda w: w @ torch.arange(7), "RuntimeError: addmv"),
    ("2.4", lambda w: w @ torch.arange(7), "torch.arange needs dtype=weights.dtype"),
    (
        "2.4",
        lambda w: w @ torch.arange(1.0, 8.0),
        "torch.arange needs dtype=weights.dtype",
    ),
    (
        "2.4",
        lambda w: w @ torch.arange(7)[:, None],
        "torch.arange needs dtype=weights.dtype",
    ),
    (
        "2.4",
        lambda w: torch.einsum("bqk,k->bq", w, torch.arange(7)),
        "needs dtype=weights.dtype",
    ),
    ("2.4", lambda w: (w * torch.arange(1, 8)).sum(-1), "counted from 1"),
    (
        "2.4",
        lambda w: (w * torch.arange(6, -1, -1)).sum(-1),
        "counted from the end: the first",
    ),
    (
        "2.4",
        lambda w: (w * torch.arange(7, 0, -1)).sum(-1),
        "counted from the end, and from 1",
    ),
    (
        "2.4",
        lambda w: (w * torch.arange(5)[:, None]).sum(-1),
        "positions of the queries",
    ),
    ("2.4", lambda w: (w * torch.arange(5)).sum(-1), "weights.shape[-1] of them"),
    ("2.4", lambda w: w @ torch.arange(5, dtype=w.dtype), "weights.shape[-1] of them"),
    (
        "2.4",
        lambda w: w @ torch.arange(5, dtype=w.dtype)[:, None],
        "weights.shape[-1] of them",
    ),
    (
        "2.4",
        lambda w: torch.einsum("bqk,k->bq", w, torch.arange(5.0).double()),
        "weights.shape[-1] of them",
    ),
    (
        "5.1",
        lambda q, k, W: torch.einsum("bqd,de,bke->bqk", q, W, k).tanh(),
        "tanh around the scores",
    ),
    ("5.1", lambda q, k, W: q @ k.mT, "W is missing: this is the score dot"),
    ("5.1", lambda q, k, W: q @ W.T @ k.mT, "W is transposed"),
    ("5.1", lambda q, k, W: functional.linear(k, W) @ q, "W is (d, e)"),
    ("5.1", lambda q, k, W: loops_general(q, k, W) / math.sqrt(7), "divided by √d"),
    ("5.1", lambda q, k, W: loops_general(q, k, W.detach()), "no gradient reaches W"),
    (
        "5.2",
        lambda q, n, W, v: linear_centre(q, torch.tensor([11, 11]), W, v),
        "length of the longest",
    ),
    (
        "5.2",
        lambda q, n, W, v: linear_centre(q, torch.tensor([1, 1]), W, v),
        "S is missing",
    ),
    ("5.2", lambda q, n, W, v: linear_centre(q, n, W, v).long(), "rounded down"),
    (
        "5.2",
        lambda q, n, W, v: n * torch.sigmoid(torch.tanh(q @ W.T) @ v),
        "lengths needs one more axis",
    ),
    ("5.2", lambda q, n, W, v: linear_centre(q, n, W.T, v), "W is transposed"),
    (
        "5.3",
        lambda e, p, D: loops_local_p(e, p, D) / loops_local_p(e, p, D).sum(-1, True),
        "sum to 1",
    ),
    (
        "5.3",
        lambda e, p, D: loops_local_p(e, p.round(), D),
        "centre is rounded: p_t is a real",
    ),
    ("5.3", lambda e, p, D: loops_local_p(e, p - 1, D), "counted from 1"),
    (
        "5.3",
        lambda e, p, D: loops_local_p(e, p.detach(), D),
        "no gradient reaches centre",
    ),
    (
        "3.1",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=1.0),
        "not divided by √d",
    ),
    (
        "3.1",
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, scale=1 / 7),
        "it is √d",
    ),
    (
        "3.1",
        lambda q, k, v: torch.einsum("bqk,bkv->bqv", (q @ k.mT / 7**0.5).softmax(1), v),
        "over the queries",
    ),
    ("3.1", lambda q, k, v: q @ k, "key.mT"),
    ("3.1", lambda q, k, v: loops_attend(q, k, v).mT, "axes are in a different order"),
    (
        "3.2",
        lambda s, m: torch.stack([x.sum(0) / 5 for x in s * m[..., None]]),
        "still counted",
    ),
    (
        "3.2",
        lambda s, m: torch.stack([x[y].mean(0) for x, y in zip(s, m, strict=True)]),
        "0 / 0",
    ),
    ("3.2", lambda s, m: s[m].mean(), "The shape is ()"),
    ("3.2", lambda s, m: (s * m).sum(1), "mask[..., None]"),
    ("3.2", first_words, "may have gaps"),
    (
        "3.3",
        lambda x, y: 1 / (1 + (x[:, :, None] - y[:, None]).pow(2).sum(-1).sqrt()),
        "left is not finite",
    ),
    ("3.3", lambda x, y: 1 / (1 + squares(x, y).sqrt()), "left is not finite"),
    (
        "3.3",
        lambda x, y: 1 / (1 + squares(x, y).clamp(min=0).sqrt()),
        "left is not finite",
    ),
    ("3.3", lambda x, y: 1 / (1 + torch.cdist(x, y) ** 2), "square of the distance"),
    (
        "3.3",
        lambda x, y: 1 / (1 + torch.cdist(x, y, p=1)),
        "absolute differences are summed",
    ),
    ("3.3", lambda x, y: x - y, "both sides need a new axis"),
    ("3.3", lambda x, y: 1 / (1 + torch.cdist(y, x)), "axes are in a different order"),
    (
        "3.4",
        lambda *inputs: einsum_multi_head(*inputs, scale=7**-0.5),
        "divided by √d; each head",
    ),
    (
        "3.4",
        lambda *inputs: einsum_multi_head(*inputs, visible=~inputs[-1][:, None]),
        "The mask is inverted",
    ),
    (
        "3.4",
        lambda *inputs: einsum_multi_head(*inputs, visible=inputs[-1]),
        "mask[:, None]",
    ),
    (
        "3.4",
        lambda x, z, W_Q, W_K, W_V, W_O, m: concatenated_multi_head(
            z, x, W_Q, W_K, W_V, W_O, m
        ),
        "x and z are swapped",
    ),
    (
        "3.4",
        lambda x, z, W_Q, W_K, W_V, W_O, m: concatenated_multi_head(
            x, z, W_Q, W_K, W_K, W_O, m
        ),
        "that of the keys",
    ),
    (
        "3.4",
        lambda x, z, W_Q, W_K, W_V, W_O, m: concatenated_multi_head(
            x, z, W_Q, W_K, W_V, W_O, m | ~m.any(-1, keepdim=True)
        ),
        "without a visible key gets the weights without a mask",
    ),
    ("4.1", lambda h, w, a, f: torch.einsum("bk,bkv->bv", w, a), "gate is missing"),
    (
        "4.2",
        lambda a, m, w: w * (1 - loops_received(a, m)).pow(2).mean(),
        "mean over the regions",
    ),
    ("4.3", lambda r, m: torch.where(m, r, 0).sum(1)[:, None] + 0 * r, "whole caption"),
    ("6.1", lambda c: c.reshape(2, 5, 21), "not transposed before the reshape"),
    ("6.1", lambda c: c.transpose(1, 2).view(2, 5, 21), "use .reshape"),
    ("6.2", even_sinusoids, "odd size has one cosine less"),
    (
        "6.2",
        lambda p, d: loops_sinusoids(p, d).detach(),
        "no gradient reaches positions",
    ),
    (
        "6.3",
        lambda q, pk, pv, k, v: sdpa_next(q, pk, pv, k, v, causal=True),
        "attends only to the first word",
    ),
    (
        "6.3",
        lambda q, pk, pv, k, v: sdpa_next(q, pk, pv[..., :0, :], k, v),
        "along the axis of the words",
    ),
    (
        "6.3",
        lambda q, pk, pv, k, v: sdpa_next(q, pk, pv, k, v) * 2,
        "every value is 2 times",
    ),
    (
        "6.4",
        lambda x, y, e: functional.cross_entropy(x, y, label_smoothing=e),
        "return one loss per word",
    ),
    (
        "6.4",
        lambda x, y, e: functional.cross_entropy(x, y, reduction="none"),
        "Nothing is smoothed",
    ),
    ("6.4", lambda x, y, e: loops_smoothed(x, y, e) / 7, "every value is 0.1429 times"),
    ("7.1", lambda i, j, s: (j <= i) and (i - j <= s), "not with `and`"),
    (
        "7.1",
        lambda i, j, s: loops_strided(i, j, s) & (i - j <= s),
        "The far part is missing",
    ),
    ("7.2", lambda x, r: x.view(2, r, -1, 5), "not a multiple of 3"),
    ("7.2", lambda x, r: loops_by_class(x, r).mT, "The axes are in a different order"),
    (
        "7.3",
        lambda c, s, o, t: (t - s).sigmoid() * o + (s - t).sigmoid() * c,
        "add one of size 1",
    ),
    ("7.3", lambda c, s, o, t: loops_join(c, s, o, t).detach(), "no gradient reaches"),
    ("8.1", lambda A, B: A * B, "Give A and B new axes"),
    ("8.1", lambda A, B: A.repeat(1, 1, 5) * B.repeat(1, 1, 3), "Both are tiled"),
    ("8.1", lambda A, B: loops_factorized(B, A), "roles of A and B are swapped"),
    ("8.1", lambda A, B: A.mT @ B, "The shape is (2, 3, 5), but should be (2, 7, 15)"),
    ("8.1", lambda A, B: B @ A, "Give A and B new axes"),
    ("8.2", lambda R, v, m: R.softmax(-1) @ v, "cut it"),
    ("8.2", lambda R, v, m: loops_table(R, v, ~m), "The mask is inverted"),
    (
        "8.2",
        lambda R, v, m: R[:, :7].softmax(0) @ (v * m[..., None]),
        "The softmax runs over the queries",
    ),
    (
        "8.2",
        lambda R, v, m: (R[:, :7] - 9 * ~m[:, None]).softmax(-1) @ v,
        "of 30 values are wrong",
    ),
    ("8.3", lambda k: windows_by_offset(k).mT, "It is mirrored"),
    ("8.3", lambda k: k.unfold(-1, 7, 1), "It depends on i + j"),
    ("8.3", lambda k: k.unfold(-1, 14, 1), "n is (entries + 1) / 2"),
    (
        "9.1",
        lambda h, m, W, b, u: loops_level(h, m | True, W, b, u),
        "padding receives weight",
    ),
    ("9.1", lambda h, m, W, b, u: loops_level(h, m, W, b, 0 * u), "this is the mean"),
    (
        "9.1",
        lambda h, m, W, b, u: loops_level(h, m, W, b, u).detach(),
        "no gradient reaches",
    ),
    ("9.2", lambda v, s: everywhere(v, s), "There are gaps"),
    (
        "9.2",
        lambda v, s: loops_place(v, s)[:, :5],
        "The shape is (3, 5, 5), but should be (3, 7, 5)",
    ),
    ("9.2", lambda v, s: everywhere(v, s | True), "exactly 11 entries"),
    ("9.3", lambda w, s: w * s, "give the sentences an axis of size 1"),
    ("9.3", lambda w, s: (w.mT * s[:, None]).mT.softmax(-1), "of 30 values are wrong"),
    (
        "10.1",
        lambda s, d, q: loops_over_attention(s, d | True, q | True),
        "masks are ignored",
    ),
    (
        "10.1",
        lambda s, d, q: loops_over_attention(s, d, q) / 2,
        "every value is 0.5 times",
    ),
    (
        "10.1",
        lambda s, d, q: s.masked_fill(~d, -torch.inf).softmax(1),
        "give a mask its missing axis",
    ),
    ("10.2", lambda s, d, w: s * (d == w), "Compare each word with each position"),
    (
        "10.2",
        lambda s, d, w: loops_probability(s, d, w).detach(),
        "no gradient reaches weights",
    ),
    (
        "10.3",
        lambda s, d, a: -(s * (d == a)).sum(-1).log().mean(),
        "give them an axis of size 1",
    ),
    ("10.3", lambda s, d, a: 3 * loops_answer_loss(s, d, a), "every value is 3 times"),
]


@pytest.mark.parametrize(("number", "function", "words"), NEW)
def test_a_mistake_written_independently_gets_the_right_feedback(
    number, function, words
):
    verdict = check(number, function)
    assert not verdict
    assert words in repr(verdict), verdict


def with_nan(number, count):
    """The right result except for its first ``count`` values."""
    result = _EXERCISES[number].solution(*_EXERCISES[number].inputs.values()).clone()
    result.view(-1)[:count] = torch.nan
    return result


def test_the_other_values_are_mentioned_only_if_there_are_any():
    right, none = with_nan("2.1", 3), with_nan("2.1", 105)
    assert "first at (0, 0, 0). The others are right." in repr(
        check("2.1", lambda s, m: right)
    )
    assert "The others are not all right." in repr(check("2.1", lambda s, m: right / 3))
    assert repr(check("2.1", lambda s, m: none)).endswith(
        "105 of 105 values are NaN or infinite, the first at (0, 0, 0)."
    )


def test_a_nan_gradient_is_named():
    def nan_gradient(weights):
        return loops_position(weights) + 0 * (weights - weights).sqrt().sum(-1)

    assert "gradient with respect to weights is not finite" in repr(
        check("2.4", nan_gradient)
    )


def test_checking_leaves_the_exercise_as_it_was():
    before = {name: value.clone() for name, value in _EXERCISES["2.1"].inputs.items()}
    check("2.1", in_place)
    assert all(
        torch.equal(before[name], value)
        for name, value in _EXERCISES["2.1"].inputs.items()
    )


def test_a_module_can_be_checked():
    class Softmax(nn.Module):
        def forward(self, scores, mask):
            return masked_softmax(scores, mask)

    assert check("2.1", Softmax())


@pytest.mark.parametrize("number", ["2.9", "", 2.1])
def test_an_unknown_exercise_is_refused_with_the_known_ones(number):
    with pytest.raises(
        ValueError, match=r"no exercise .* there are '1.1', .*'1.5', '2.1', .*'2.4'"
    ):
        unwrap(check)(number, masked_softmax)


def test_a_result_instead_of_a_function_is_refused():
    with pytest.raises(
        TypeError, match=r"check\('2.1', my_function\), but was given a Tensor"
    ):
        unwrap(check)("2.1", torch.ones(1))


def test_a_hint_is_given_only_where_it_applies():
    assert repr(check("2.4", lambda w: w[9])).endswith(
        "in this order, with weights (3, 5, 7)."
    )
