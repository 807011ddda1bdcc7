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


def loops_additive(query, key, W, U, v):
    rows = []
    for s, h in zip(query, key, strict=True):
        rows.append(
            torch.stack(
                [torch.stack([v @ torch.tanh(W @ i + U @ j) for j in h]) for i in s]
            )
        )
    return torch.stack(rows)


def loops_location(previous, filters):
    half = filters.shape[1] // 2
    zeros = previous.new_zeros(len(previous), half)
    padded = torch.cat([zeros, previous, zeros], 1)
    windows = [
        padded[:, i : i + filters.shape[1]] @ filters.T
        for i in range(previous.shape[1])
    ]
    return torch.stack(windows, 1)


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
        ("8.2", loops_table),
        ("8.3", windows_by_offset),
        ("9.1", loops_level),
        ("9.2", loops_place),
        ("9.3", lambda w, s: torch.einsum("bsn,bs->bsn", w, s)),
        ("11.1", loops_gated),
        ("11.2", loops_step),
        ("11.3", lambda v, g: torch._weight_norm(v, g[:, None, None], 0)),
        ("4.1", loops_gate),
        ("4.2", loops_penalty),
        ("4.3", loops_to_go),
        ("1.1", loops_reverse),
        ("1.2", loops_log_prob),
        ("1.3", logarithmic_score),
        ("1.4", loops_nucleus),
        ("1.5", sorted_beam_step),
        ("2.1", loops_softmax),
        ("2.2", loops_additive),
        ("2.3", loops_location),
        ("2.4", loops_position),
        ("3.1", functional.scaled_dot_product_attention),
        ("3.2", loops_mean),
        ("3.3", lambda x, y: 1 / (torch.cdist(x, y) + 1)),
        ("3.4", loops_multi_head),
        ("5.1", loops_general),
        ("5.2", linear_centre),
        ("5.3", loops_local_p),
        ("6.1", lambda c: torch.cat(c.unbind(1), -1)),
        ("6.2", loops_sinusoids),
        ("6.3", sdpa_next),
        (
            "6.4",
            lambda x, y, e: functional.cross_entropy(
                x, y, reduction="none", label_smoothing=e
            ),
        ),
        ("7.1", loops_strided),
        ("7.2", loops_by_class),
        ("7.3", joined_by_logaddexp),
        ("10.1", loops_over_attention),
        ("10.2", loops_probability),
        ("10.3", loops_answer_loss),
    ],
)
def test_a_right_answer_written_differently_is_accepted(number, function):
    assert check(number, function), check(number, function)


# One mistake for each kind of feedback, and for each hint


def in_place(scores, mask):
    scores[~mask] = -torch.inf
    return scores.softmax(-1).nan_to_num(0)


def in_place_result(scores, mask):
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    weights[~mask] = 0
    return weights


def from_the_length(tokens):
    lengths = (tokens != 0).sum(1, keepdim=True)
    return tokens.gather(1, lengths - torch.arange(tokens.shape[1]))


MISTAKES = [
    (
        "11.1",
        lambda x, *others: glu_gated(x.flip(1), *others).flip(1),
        "154 of 154 values are wrong",
    ),
    ("11.1", lambda x, *others: glu_gated(x.mT, *others), "x.mT, and .mT after it"),
    ("11.3", lambda v, g: v * g / v.norm(), "g[:, None, None]"),
    ("1.1", from_the_length, "negative at padding"),
    ("1.1", lambda t: loops_reverse(t).float(), "dtype is torch.float32"),
    ("1.1", lambda t: [row[::-1] for row in t.tolist()], "returns a list"),
    (
        "1.2",
        lambda x, y: functional.cross_entropy(x, y, ignore_index=0),
        "logits.mT is (b, vocabulary, t)",
    ),
    ("1.2", lambda x, y: x.log_softmax(-1).gather(-1, y), "target[..., None]"),
    ("1.2", lambda x, y: loss_log_prob(x.detach(), y), "no gradient reaches logits"),
    (
        "1.3",
        lambda p, n, a: p[9],
        "with log_probs (3, 5), lengths (3, 5), penalty 0.7.",
    ),
    ("1.4", lambda x, p: loops_nucleus(x, p) * torch.nan, "21 of 21 values are NaN"),
    (
        "2.1",
        lambda s, m: 2 * masked_softmax(s, m),
        "constant factor: every value is 2 times",
    ),
    ("2.1", lambda s, m: masked_softmax(s, m).mT, "(3, 7, 5), but should be (3, 5, 7)"),
    ("2.1", lambda s, m: masked_softmax(s, m)[None], "an extra axis of size 1"),
    (
        "2.1",
        lambda s, m: masked_softmax(s, m)[0],
        "The shape is (5, 7), but should be (3, 5, 7)",
    ),
    ("2.1", in_place, "changes its input scores in place"),
    ("2.1", in_place_result, "no gradient can be computed"),
    ("2.1", lambda s, m: None, "returns nothing (None)"),
    ("2.1", lambda s, m: masked_softmax(s, ~m.bool().float()), "TypeError"),
    ("2.1", lambda s: s, "TypeError"),
    ("2.1", lambda s, m: 1 / 0, "ZeroDivisionError: division by zero"),
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
    ("2.2", lambda q, k, W, U, v: loops_additive(q, k, U, W, v), "W and U are swapped"),
    (
        "2.2",
        lambda q, k, W, U, v: (q @ W.T + k @ U.T).tanh() @ v,
        "(3) must match the size of tensor b (5)",
    ),
    ("2.3", lambda p, f: functional.conv1d(p, f, padding=2).mT, "(b, 1, k), (c, 1, w)"),
    ("2.4", lambda w: w @ torch.arange(7), "RuntimeError: addmv"),
    ("2.4", lambda w: (w * torch.arange(5)).sum(-1), "weights.shape[-1] of them"),
    ("5.1", lambda q, k, W: functional.linear(k, W) @ q, "W is (d, e)"),
    (
        "5.2",
        lambda q, n, W, v: n * torch.sigmoid(torch.tanh(q @ W.T) @ v),
        "lengths needs one more axis",
    ),
    ("3.1", lambda q, k, v: q @ k, "key.mT"),
    ("3.2", lambda s, m: (s * m).sum(1), "mask[..., None]"),
    (
        "3.3",
        lambda x, y: 1 / (1 + (x[:, :, None] - y[:, None]).pow(2).sum(-1).sqrt()),
        "left is not finite",
    ),
    ("3.3", lambda x, y: x - y, "both sides need a new axis"),
    (
        "3.4",
        lambda *inputs: einsum_multi_head(*inputs, visible=inputs[-1]),
        "mask[:, None]",
    ),
    ("6.1", lambda c: c.transpose(1, 2).view(2, 5, 21), "use .reshape"),
    ("6.2", even_sinusoids, "odd size has one cosine less"),
    (
        "6.3",
        lambda q, pk, pv, k, v: sdpa_next(q, pk, pv[..., :0, :], k, v),
        "along the axis of the words",
    ),
    ("7.1", lambda i, j, s: (j <= i) and (i - j <= s), "not with `and`"),
    ("7.2", lambda x, r: x.view(2, r, -1, 5), "not a multiple of 3"),
    (
        "7.3",
        lambda c, s, o, t: (t - s).sigmoid() * o + (s - t).sigmoid() * c,
        "add one of size 1",
    ),
    ("8.1", lambda A, B: A * B, "Give A and B new axes"),
    ("8.2", lambda R, v, m: R.softmax(-1) @ v, "cut it"),
    ("8.3", lambda k: k.unfold(-1, 14, 1), "n is (entries + 1) / 2"),
    ("9.2", lambda v, s: everywhere(v, s | True), "exactly 11 entries"),
    ("9.3", lambda w, s: w * s, "give the sentences an axis of size 1"),
    (
        "10.1",
        lambda s, d, q: s.masked_fill(~d, -torch.inf).softmax(1),
        "give a mask its missing axis",
    ),
    ("10.2", lambda s, d, w: s * (d == w), "Compare each word with each position"),
    (
        "10.3",
        lambda s, d, a: -(s * (d == a)).sum(-1).log().mean(),
        "give them an axis of size 1",
    ),
]


@pytest.mark.parametrize(("number", "function", "words"), MISTAKES)
def test_a_mistake_gets_its_feedback(number, function, words):
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
