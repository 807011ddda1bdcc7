"""Attention in parts is the attention, whichever kernel computes a part."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from companion.attention import masked_softmax
from companion.attention.kernels import merging
from companion.attention.kernels.merging import (
    MergedAttention,
    tile_attention,
    tile_attention_backward,
)
from companion.attention.kernels.tiling import StridedTiles, Tiles, WindowTiles

few = settings(deadline=None, max_examples=40)
sizes = st.integers(1, 6)
PATHS = ["kernel", "definition"]


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    """Both ways to look at a piece, where one machine would take only one of them."""
    if request.param == "definition":
        monkeypatch.setattr(merging, "_fused", lambda query, value: False)
    return request.param


def drawn(*shape, seed=0, **kind):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(**kind)


def bias_of(seen, dtype=torch.float64):
    return torch.zeros(seen.shape, dtype=dtype).masked_fill(~seen, -torch.inf)


def tiles_of(batch, number, queries, keys, size, **kind):
    """Query, key and value of some tiles."""
    lengths = [queries, keys, keys]
    return [
        drawn(batch, number, n, size, seed=i, **kind) for i, n in enumerate(lengths)
    ]


def some_seen(*shape):
    """About half, and for one query nothing."""
    seen = drawn(*shape, seed=9) < 0.3
    seen[..., 0, :] = False
    return seen


def definition(query, key, value, seen=None):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    return (
        masked_softmax(scores, None if seen is None else seen.expand(scores.shape))
        @ value
    )


def two_parts(n, split):
    """Each query looks at the keys before ``split`` in one part, at the others in the other."""
    queries = WindowTiles(0, n, n, 1)
    halves = [WindowTiles(0, split, n, 1), WindowTiles(split, n - split, n, 1)]
    return [[Tiles(queries, keys)] for keys in halves]


def assert_close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


# A piece


@pytest.mark.parametrize(
    "shape", [None, (1, 1, 5, 7), (1, 3, 5, 7), (2, 1, 5, 7), (2, 3, 5, 7)]
)
def test_a_look_is_the_average_under_the_weights_and_the_logarithm_of_what_they_were_divided_by(
    path, shape
):
    query, key, value = tiles_of(2, 3, 5, 7, size=4)
    seen = None if shape is None else some_seen(*shape)
    context, lse = tile_attention(
        query, key, value, None if seen is None else bias_of(seen)
    )
    assert_close(context, definition(query, key, value, seen))
    scores = query @ key.mT / 2
    hidden = torch.zeros(5, 7).bool() if seen is None else ~seen
    assert_close(
        lse, scores.masked_fill(hidden, -torch.inf).logsumexp(-1, keepdim=True)
    )
    if seen is not None:
        assert torch.equal(context[..., 0, :], torch.zeros(2, 3, 4).double())
        assert (lse[..., 0, :] == -torch.inf).all()


@pytest.mark.parametrize(
    "shape", [None, (1, 1, 5, 7), (1, 3, 5, 7), (2, 1, 5, 7), (2, 3, 5, 7)]
)
def test_a_look_back_is_the_gradient_of_the_definition(path, shape):
    inputs = [x.requires_grad_() for x in tiles_of(2, 3, 5, 7, size=4)]
    seen = None if shape is None else some_seen(*shape)
    bias = None if seen is None else bias_of(seen)
    expected = definition(*inputs, seen)
    gradient = drawn(*expected.shape, seed=5)
    with torch.no_grad():
        context, lse = tile_attention(*inputs, bias)
        found = tile_attention_backward(
            gradient, context, merging._finite(lse), *inputs, bias
        )
    for ours, theirs in zip(
        found, torch.autograd.grad(expected, inputs, gradient), strict=True
    ):
        assert_close(ours, theirs)


def test_both_paths_are_equal_for_keys_of_other_parts(monkeypatch):
    """In a union, lse and context belong to more keys than the piece holds."""
    query, key, value = tiles_of(2, 3, 5, 7, size=4)
    gradient, context = drawn(2, 3, 5, 4, seed=5), drawn(2, 3, 5, 4, seed=6)
    lse = 3 + drawn(2, 3, 5, 1, seed=7)
    bias = bias_of(some_seen(1, 3, 5, 7))
    fused = tile_attention_backward(gradient, context, lse, query, key, value, bias)
    monkeypatch.setattr(merging, "_fused", lambda query, value: False)
    for found, expected in zip(
        tile_attention_backward(gradient, context, lse, query, key, value, bias),
        fused,
        strict=True,
    ):
        assert_close(found, expected)


def test_the_kernel_is_for_equal_sizes_on_a_cpu():
    query, meta = drawn(1, 2, 3, 4), drawn(1, 2, 3, 4, device="meta")
    assert merging._fused(query, query)
    assert not merging._fused(query, query[..., :3])
    assert not merging._fused(meta, meta)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_the_logarithm_is_at_least_in_single_precision(path, dtype):
    query, key, value = tiles_of(2, 3, 5, 7, size=4, dtype=dtype)
    context, lse = tile_attention(
        query, key, value, bias_of(some_seen(1, 1, 5, 7), dtype)
    )
    assert context.dtype == dtype
    assert lse.dtype == torch.promote_types(dtype, torch.float32)
    exact = tile_attention(
        query.double(), key.double(), value.double(), bias_of(some_seen(1, 1, 5, 7))
    )
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 2e-2)
    assert_close(context.double(), exact[0], tolerance)
    assert_close(lse.double(), exact[1], min(tolerance, 1e-5))


# Parts


@few
@given(sizes, sizes, st.integers(0, 3), st.sampled_from(PATHS))
def test_two_parts_are_one_softmax_forward_and_back(left, right, hidden, path):
    """``hidden``: of query 0, 1 sees no key of the first part, 2 of the second, 3 of both."""
    n = left + right
    query, key, value = (drawn(2, n, 3, seed=i).requires_grad_() for i in range(3))
    seen = drawn(n, n, seed=4) < 0.7
    seen[0, :left] &= hidden not in (1, 3)
    seen[0, left:] &= hidden not in (2, 3)
    biases = [bias_of(seen[None, None, :, :left]), bias_of(seen[None, None, :, left:])]
    with pytest.MonkeyPatch.context() as patch:
        if path == "definition":
            patch.setattr(merging, "_fused", lambda query, value: False)
        found = MergedAttention.apply(query, key, value, two_parts(n, left), *biases)
        gradient = drawn(*found.shape, seed=5)
        found_gradients = torch.autograd.grad(found, (query, key, value), gradient)
    expected = definition(query, key, value, seen)
    assert_close(found, expected)
    expected_gradients = torch.autograd.grad(expected, (query, key, value), gradient)
    for ours, theirs in zip(found_gradients, expected_gradients, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e3, 1e6])
def test_parts_far_apart_are_joined_without_overflow(path, strength):
    query, key, value = (drawn(2, 6, 3, seed=i, dtype=torch.float32) for i in range(3))
    query = (strength * query).requires_grad_()
    found = MergedAttention.apply(query, key, value, two_parts(6, 2), None, None)
    assert_close(found, definition(query, key, value), 1e-4)
    found.square().sum().backward()
    assert query.grad.isfinite().all()


def test_three_parts_of_many_pieces(path):
    """Each query at its own block, at its class in the other blocks' first half, and in their second."""
    query, key, value = (drawn(2, 8, 3, seed=i).requires_grad_() for i in range(3))
    i, j = torch.arange(8)[:, None], torch.arange(8)[None]
    near, like = i // 2 == j // 2, (i - j) % 2 == 0
    rows, early, late = (
        StridedTiles(0, 2, 2, 4),
        like & ~near & (j < 4),
        like & ~near & (j >= 4),
    )
    parts = [
        [
            Tiles(WindowTiles(0, 2, 2, 1), WindowTiles(0, 2, 2, 1)),
            Tiles(WindowTiles(2, 2, 2, 3), WindowTiles(2, 2, 2, 3)),
        ],
        [Tiles(rows, rows)],
        [
            Tiles(StridedTiles(0, 1, 2, 4), StridedTiles(0, 1, 2, 4)),
            Tiles(StridedTiles(1, 1, 2, 4), StridedTiles(1, 1, 2, 4)),
        ],
    ]
    biases = [
        None,
        None,
        bias_of(early[None, None, ::2, ::2]),
        *2 * [bias_of(late[None, None, ::2, ::2])],
    ]
    found = MergedAttention.apply(query, key, value, parts, *biases)
    expected = definition(query, key, value, near | like)
    assert_close(found, expected)
    gradient = drawn(2, 8, 3, seed=5)
    theirs = torch.autograd.grad(expected, (query, key, value), gradient)
    for ours, other in zip(
        torch.autograd.grad(found, (query, key, value), gradient), theirs, strict=True
    ):
        assert_close(ours, other)


def test_gradients_are_right(path):
    inputs = [drawn(2, 5, 3, seed=i).requires_grad_() for i in range(3)]
    seen = some_seen(1, 1, 5, 5)
    biases = [bias_of(seen[..., :2]), bias_of(seen[..., 2:])]
    assert gradcheck(
        lambda *x: MergedAttention.apply(*x, two_parts(5, 2), *biases), inputs
    )


def test_a_gradient_of_any_layout_is_right(path):
    """The sum's gradient is one number, expanded; a transposed one is not contiguous."""
    inputs = [drawn(2, 5, 3, seed=i).requires_grad_() for i in range(3)]
    expected, found = (
        definition(*inputs),
        MergedAttention.apply(*inputs, two_parts(5, 2), None, None),
    )
    for gradient in (
        torch.ones(()).double().expand(2, 5, 3),
        drawn(3, 5, 2).transpose(0, 2),
    ):
        assert not gradient.is_contiguous()
        theirs = torch.autograd.grad(expected, inputs, gradient, retain_graph=True)
        ours = torch.autograd.grad(found, inputs, gradient, retain_graph=True)
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b)


def test_it_is_differentiated_once():
    inputs = [drawn(2, 5, 3, seed=i).requires_grad_() for i in range(3)]
    found = MergedAttention.apply(*inputs, two_parts(5, 2), None, None)
    gradient, *_ = torch.autograd.grad(found.square().sum(), inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_nothing_is_kept_but_inputs_contexts_and_one_number_a_query(path):
    query, key, value = (drawn(2, 6, 3, seed=i).requires_grad_() for i in range(3))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x) or x, lambda x: x
    ):
        context = MergedAttention.apply(query, key, value, two_parts(6, 2), None, None)
    shapes = [tuple(x.shape) for x in kept]
    assert shapes == [(2, 6, 3)] * 4 + [(2, 6, 1)]
    assert [x.data_ptr() for x in kept[:4]] == [
        x.data_ptr() for x in (query, key, value, context)
    ]
