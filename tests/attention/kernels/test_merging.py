"""Attention merged from groups of tiles is attention over all keys, whichever kernel computes a tile."""

import importlib

import pytest
import torch
from hypothesis import given
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

sizes = st.integers(1, 6)
PATHS = ["kernel", "definition"]


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    """Both ways to compute a tile, of which one machine would take only one."""
    if request.param == "definition":
        monkeypatch.setattr(merging, "_flash", None)
    return request.param


def sampled(*shape, seed=0, **kind):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(**kind)


def bias_of(visible, dtype=torch.float64):
    return torch.zeros(visible.shape, dtype=dtype).masked_fill(~visible, -torch.inf)


def tiles_of(batch, number, queries, keys, size, **kind):
    """Query, key and value of some tiles."""
    lengths = [queries, keys, keys]
    return [
        sampled(batch, number, n, size, seed=i, **kind) for i, n in enumerate(lengths)
    ]


def some_visible(*shape):
    """About half of the pairs, and for one query none."""
    visible = sampled(*shape, seed=9) < 0.3
    visible[..., 0, :] = False
    return visible


def definition(query, key, value, visible=None):
    scores = query @ key.mT * query.shape[-1] ** -0.5
    return (
        masked_softmax(
            scores, None if visible is None else visible.expand(scores.shape)
        )
        @ value
    )


def two_groups(n, split, biases=(None, None)):
    """Each query attends to the keys before ``split`` in one group, to the others in the other."""
    queries = WindowTiles(0, n, n, 1)
    halves = [WindowTiles(0, split, n, 1), WindowTiles(split, n - split, n, 1)]
    return [
        [(Tiles(queries, keys), bias)]
        for keys, bias in zip(halves, biases, strict=True)
    ]


def assert_close(found, expected, tolerance=1e-10):
    torch.testing.assert_close(found, expected, atol=tolerance, rtol=tolerance)


class Without:
    """A namespace of operators without one of them."""

    def __init__(self, namespace, name):
        self.namespace, self.name = namespace, name

    def __getattr__(self, name):
        if name == self.name:
            raise AttributeError(name)
        return getattr(self.namespace, name)


# A tile


@pytest.mark.parametrize(
    "shape", [None, (1, 1, 5, 7), (1, 3, 5, 7), (2, 1, 5, 7), (2, 3, 5, 7)]
)
def test_tile_attention_is_the_context_and_the_log_sum_exp_of_the_scores(path, shape):
    query, key, value = tiles_of(2, 3, 5, 7, size=4)
    visible = None if shape is None else some_visible(*shape)
    context, lse = tile_attention(
        query, key, value, None if visible is None else bias_of(visible)
    )
    assert_close(context, definition(query, key, value, visible))
    scores = query @ key.mT / 2
    hidden = torch.zeros(5, 7).bool() if visible is None else ~visible
    assert_close(
        lse, scores.masked_fill(hidden, -torch.inf).logsumexp(-1, keepdim=True)
    )
    if visible is not None:
        assert torch.equal(context[..., 0, :], torch.zeros(2, 3, 4).double())
        assert (lse[..., 0, :] == -torch.inf).all()


@pytest.mark.parametrize(
    "shape", [None, (1, 1, 5, 7), (1, 3, 5, 7), (2, 1, 5, 7), (2, 3, 5, 7)]
)
def test_its_backward_is_the_gradient_of_the_definition(path, shape):
    inputs = [x.requires_grad_() for x in tiles_of(2, 3, 5, 7, size=4)]
    visible = None if shape is None else some_visible(*shape)
    bias = None if visible is None else bias_of(visible)
    expected = definition(*inputs, visible)
    gradient = sampled(*expected.shape, seed=5)
    with torch.no_grad():
        context, lse = tile_attention(*inputs, bias)
        found = tile_attention_backward(
            gradient, context, merging._finite(lse), *inputs, bias
        )
    for ours, theirs in zip(
        found, torch.autograd.grad(expected, inputs, gradient), strict=True
    ):
        assert_close(ours, theirs)


def test_both_paths_are_equal_if_there_are_keys_of_other_tiles(monkeypatch):
    """In a union, lse and context belong to more keys than a tile holds."""
    query, key, value = tiles_of(2, 3, 5, 7, size=4)
    gradient, context = sampled(2, 3, 5, 4, seed=5), sampled(2, 3, 5, 4, seed=6)
    lse = 3 + sampled(2, 3, 5, 1, seed=7)
    bias = bias_of(some_visible(1, 3, 5, 7))
    fused = tile_attention_backward(gradient, context, lse, query, key, value, bias)
    monkeypatch.setattr(merging, "_flash_backward", None)
    for found, expected in zip(
        tile_attention_backward(gradient, context, lse, query, key, value, bias),
        fused,
        strict=True,
    ):
        assert_close(found, expected)


def test_the_kernel_is_for_equal_sizes_on_a_cpu():
    query, meta = sampled(1, 2, 3, 4), sampled(1, 2, 3, 4, device="meta")
    assert merging._uses_flash(query, query)
    assert not merging._uses_flash(query, query[..., :3])
    assert not merging._uses_flash(meta, meta)


@pytest.mark.parametrize("missing", ["_flash", "_flash_backward"])
def test_where_pytorch_has_no_such_kernel_plain_operations_compute_it(
    missing, monkeypatch
):
    inputs = [sampled(2, 6, 3, seed=i).requires_grad_() for i in range(3)]
    expected = MergedAttention.apply(*inputs, two_groups(6, 2))
    gradients = torch.autograd.grad(expected.square().sum(), inputs)
    name = "_scaled_dot_product_flash_attention_for_cpu"
    absent = name + missing.removeprefix("_flash")
    monkeypatch.setattr(torch.ops, "aten", Without(torch.ops.aten, absent))
    reloaded = importlib.reload(merging)
    try:
        assert getattr(reloaded, missing) is None
        found = reloaded.MergedAttention.apply(*inputs, two_groups(6, 2))
        assert_close(found, expected)
        ours = torch.autograd.grad(found.square().sum(), inputs)
        for a, b in zip(ours, gradients, strict=True):
            assert_close(a, b)
    finally:
        monkeypatch.undo()
        importlib.reload(merging)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_the_logarithm_is_at_least_in_single_precision(path, dtype):
    query, key, value = tiles_of(2, 3, 5, 7, size=4, dtype=dtype)
    context, lse = tile_attention(
        query, key, value, bias_of(some_visible(1, 1, 5, 7), dtype)
    )
    assert context.dtype == dtype
    assert lse.dtype == torch.promote_types(dtype, torch.float32)
    exact = tile_attention(
        query.double(), key.double(), value.double(), bias_of(some_visible(1, 1, 5, 7))
    )
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 2e-2)
    assert_close(context.double(), exact[0], tolerance)
    assert_close(lse.double(), exact[1], min(tolerance, 1e-5))


# Groups
@given(sizes, sizes, st.integers(0, 3), st.sampled_from(PATHS))
def test_two_groups_are_one_softmax_forward_and_backward(left, right, masked, path):
    """``masked``: query 0 attends to no key of the first group (1), the second (2), or both (3)."""
    n = left + right
    query, key, value = (sampled(2, n, 3, seed=i).requires_grad_() for i in range(3))
    visible = sampled(n, n, seed=4) < 0.7
    visible[0, :left] &= masked not in (1, 3)
    visible[0, left:] &= masked not in (2, 3)
    biases = [
        bias_of(visible[None, None, :, :left]),
        bias_of(visible[None, None, :, left:]),
    ]
    with pytest.MonkeyPatch.context() as patch:
        if path == "definition":
            patch.setattr(merging, "_flash", None)
        found = MergedAttention.apply(query, key, value, two_groups(n, left, biases))
        gradient = sampled(*found.shape, seed=5)
        found_gradients = torch.autograd.grad(found, (query, key, value), gradient)
    expected = definition(query, key, value, visible)
    assert_close(found, expected)
    expected_gradients = torch.autograd.grad(expected, (query, key, value), gradient)
    for ours, theirs in zip(found_gradients, expected_gradients, strict=True):
        assert_close(ours, theirs)


@pytest.mark.parametrize("strength", [1e-3, 1.0, 1e3, 1e6])
def test_groups_with_distant_scores_are_merged_without_overflow(path, strength):
    query, key, value = (
        sampled(2, 6, 3, seed=i, dtype=torch.float32) for i in range(3)
    )
    query = (strength * query).requires_grad_()
    found = MergedAttention.apply(query, key, value, two_groups(6, 2))
    assert_close(found, definition(query, key, value), 1e-4)
    found.square().sum().backward()
    assert query.grad.isfinite().all()


def test_three_groups_of_many_tiles(path):
    """Each query attends to its block, to its class in the first half of the rest, and in the second."""
    query, key, value = (sampled(2, 8, 3, seed=i).requires_grad_() for i in range(3))
    i, j = torch.arange(8)[:, None], torch.arange(8)[None]
    near, like = i // 2 == j // 2, (i - j) % 2 == 0
    rows, early, late = (
        StridedTiles(0, 2, 2, 4),
        like & ~near & (j < 4),
        like & ~near & (j >= 4),
    )
    late_bias = bias_of(late[None, None, ::2, ::2])
    groups = [
        [
            (Tiles(WindowTiles(0, 2, 2, 1), WindowTiles(0, 2, 2, 1)), None),
            (Tiles(WindowTiles(2, 2, 2, 3), WindowTiles(2, 2, 2, 3)), None),
        ],
        [(Tiles(rows, rows), bias_of(early[None, None, ::2, ::2]))],
        [
            (Tiles(StridedTiles(0, 1, 2, 4), StridedTiles(0, 1, 2, 4)), late_bias),
            (Tiles(StridedTiles(1, 1, 2, 4), StridedTiles(1, 1, 2, 4)), late_bias),
        ],
    ]
    found = MergedAttention.apply(query, key, value, groups)
    expected = definition(query, key, value, near | like)
    assert_close(found, expected)
    gradient = sampled(2, 8, 3, seed=5)
    theirs = torch.autograd.grad(expected, (query, key, value), gradient)
    for ours, other in zip(
        torch.autograd.grad(found, (query, key, value), gradient), theirs, strict=True
    ):
        assert_close(ours, other)


def test_gradients_are_right(path):
    inputs = [sampled(2, 5, 3, seed=i).requires_grad_() for i in range(3)]
    visible = some_visible(1, 1, 5, 5)
    biases = [bias_of(visible[..., :2]), bias_of(visible[..., 2:])]
    assert gradcheck(
        lambda *x: MergedAttention.apply(*x, two_groups(5, 2, biases)), inputs
    )


def test_a_gradient_of_any_layout_is_right(path):
    """The sum's gradient is one number, expanded; a transposed one is not contiguous."""
    inputs = [sampled(2, 5, 3, seed=i).requires_grad_() for i in range(3)]
    expected, found = (
        definition(*inputs),
        MergedAttention.apply(*inputs, two_groups(5, 2)),
    )
    for gradient in (
        torch.ones(()).double().expand(2, 5, 3),
        sampled(3, 5, 2).transpose(0, 2),
    ):
        assert not gradient.is_contiguous()
        theirs = torch.autograd.grad(expected, inputs, gradient, retain_graph=True)
        ours = torch.autograd.grad(found, inputs, gradient, retain_graph=True)
        for a, b in zip(ours, theirs, strict=True):
            assert_close(a, b)


@pytest.mark.parametrize("loss", [torch.sum, lambda x: x.square().sum()])
def test_its_gradient_can_be_taken_once(loss):
    """That of a linear loss depends on the inputs too, and must not count as a constant."""
    inputs = [sampled(2, 5, 3, seed=i).requires_grad_() for i in range(3)]
    found = loss(MergedAttention.apply(*inputs, two_groups(5, 2)))
    gradient, *_ = torch.autograd.grad(found, inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="tiles has no second derivative"):
        (found + gradient.square().sum()).backward()


def test_only_inputs_contexts_and_one_number_for_each_query_are_kept(path):
    query, key, value = (sampled(2, 6, 3, seed=i).requires_grad_() for i in range(3))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x) or x, lambda x: x
    ):
        context = MergedAttention.apply(query, key, value, two_groups(6, 2))
    shapes = [tuple(x.shape) for x in kept]
    assert shapes == [(2, 6, 3)] * 4 + [(2, 6, 1)]
    assert [x.data_ptr() for x in kept[:4]] == [
        x.data_ptr() for x in (query, key, value, context)
    ]
