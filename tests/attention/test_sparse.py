"""Each tiled attention is its definition: forward, backward, under every mask, at every length."""

import copy
import io
import subprocess
import sys
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.autograd import gradcheck

from attention_course.profiling import peak_memory
from companion.attention import (
    AtrousAttention,
    LocalAttention,
    MultiHeadAttention,
    PatternAttention,
    SinkAttention,
    SparseAttention,
    TiledAttention,
    masks,
    record_weights,
)
from companion.attention.kernels import merging, tiling
from companion.attention.kernels.merging import MergedAttention
from companion.attention.kernels.tiling import TileGroup
from companion.models import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from tests.conftest import ROOT
from tests.reference import child_2019, scalars
from tests.tiny import close, spread

BUILD = {
    "local": lambda radius, rate, causal: LocalAttention(radius, causal),
    "atrous": lambda radius, rate, causal: AtrousAttention(rate, causal),
    "sparse": SparseAttention,
    "sinks": lambda radius, rate, causal: SinkAttention(radius, sinks=rate),
}
MAY_ATTEND = {
    "local": lambda radius, rate: lambda i, j: abs(i - j) <= radius,
    "atrous": lambda radius, rate: lambda i, j: i % rate == j % rate,
    "sparse": lambda radius, rate: (
        lambda i, j: abs(i - j) <= radius or i % rate == j % rate
    ),
    "sinks": lambda radius, rate: lambda i, j: j <= i and (i - j < radius or j < rate),
}
SIZE = 3
kinds, sizes, lengths = (
    st.sampled_from(sorted(BUILD)),
    st.integers(1, 30),
    st.integers(1, 24),
)
# Tiles so small that many come at a short length, and those of the package.
blocks = st.sampled_from([(1, 1), (1, 5), (2, 3), (3, 2), (tiling.BLOCK, tiling.TILES)])


def cut(block, number):
    return patch.multiple(tiling, BLOCK=block, TILES=number)


@pytest.fixture(params=sorted(BUILD))
def kind(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["both sides", "causal"])
def causal(request):
    return request.param


def sampled(*shape, seed=0, **kind):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(**kind)


def sequence(queries, keys=None, batch=(2,), size=SIZE, value_size=SIZE, **kind):
    """Query, key and value as leaves."""
    shapes = [(queries, size), (keys or queries, size), (keys or queries, value_size)]
    return [
        sampled(*batch, *shape, seed=i, **kind).requires_grad_()
        for i, shape in enumerate(shapes)
    ]


def some_mask(*shape, visible=0.6):
    return torch.rand(shape, generator=torch.Generator().manual_seed(7)) < visible


def definition(attention, query, key, value, mask=None):
    return attention.weights(query, key, mask) @ value


def same_gradients(found, expected, inputs):
    gradient = sampled(*expected.shape, seed=8)
    ours = torch.autograd.grad(found, inputs, gradient)
    for a, b in zip(ours, torch.autograd.grad(expected, inputs, gradient), strict=True):
        close(a, b)


def is_its_definition(attention, inputs, mask=None):
    found, expected = attention(*inputs, mask), definition(attention, *inputs, mask)
    close(found, expected)
    same_gradients(found, expected, inputs)


# Equal to the plain loops, and to the definition
@given(
    kinds,
    st.integers(1, 9),
    st.integers(1, 4),
    st.integers(1, 11),
    st.integers(1, 11),
    st.booleans(),
)
def test_weights_and_contexts_are_those_of_plain_loops(
    kind, queries, more, radius, rate, causal
):
    keys = queries + more - 1
    attention, may_attend = (
        BUILD[kind](radius, rate, causal),
        MAY_ATTEND[kind](radius, rate),
    )
    query, key, value = sequence(queries, keys, batch=())
    expected = child_2019.pattern_weights(
        lambda i, j: may_attend(i, j) and (j <= i or not causal),
        query.tolist(),
        key.tolist(),
    )
    close(attention.weights(query, key), expected)
    contexts = [scalars.context(row, value.tolist()) for row in expected]
    close(attention(query, key, value), contexts)
    close(PatternAttention(attention.rule)(query, key, value), contexts)


@given(kinds, lengths, lengths, sizes, sizes, st.booleans(), blocks)
def test_forward_and_gradients_are_those_of_the_definition(
    kind, queries, more, radius, rate, causal, how
):
    with cut(*how):
        is_its_definition(
            BUILD[kind](radius, rate, causal), sequence(queries, queries + more - 1)
        )


@given(
    kinds, st.integers(1, 2500), st.integers(1, 90), st.integers(1, 90), st.booleans()
)
def test_also_at_lengths_with_more_windows_than_are_computed_at_once(
    kind, n, radius, rate, causal
):
    """More than 64 blocks of 32 queries are more than one element of a group."""
    attention = BUILD[kind](radius, rate, causal)
    inputs = sequence(n, batch=())
    is_its_definition(attention, inputs, some_mask(n) if n % 2 else None)


@given(kinds, lengths, lengths, sizes, sizes, st.booleans(), blocks, st.data())
def test_also_under_a_mask(kind, queries, more, radius, rate, causal, how, data):
    keys, batch = queries + more - 1, data.draw(st.sampled_from([(), (3,), (2, 3)]))
    full = [*batch, queries, keys]
    axes = data.draw(st.sampled_from([1, 2, len(full)]))
    sizes = [data.draw(st.sampled_from([1, n])) for n in full[-axes:]]
    if axes == 2 and sizes[0] in batch:  # ambiguous, and refused
        sizes = [1] * (len(full) - 2) + sizes
    visible = data.draw(st.sampled_from([0.0, 0.3, 0.8]))
    with cut(*how):
        inputs = sequence(queries, keys, batch)
        is_its_definition(
            BUILD[kind](radius, rate, causal),
            inputs,
            some_mask(*sizes, visible=visible),
        )


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_each_sequence_has_its_own_padding(kind, causal, batch):
    n = 11
    inputs, attention = sequence(n, batch=batch), BUILD[kind](2, 3, causal)
    ends = torch.randint(1, n + 1, batch, generator=torch.Generator().manual_seed(1))
    mask = torch.arange(n) < ends[..., None, None]
    is_its_definition(attention, inputs, mask)
    alone = attention(
        *(x.reshape(-1, n, SIZE)[-1, : ends.flatten()[-1]] for x in inputs)
    )
    close(
        attention(*inputs, mask).reshape(-1, n, SIZE)[-1, : ends.flatten()[-1]], alone
    )


@given(
    kinds, lengths, lengths, st.integers(1, 9), st.integers(1, 9), st.booleans(), blocks
)
def test_values_of_another_size(kind, queries, more, radius, rate, causal, how):
    with cut(*how):
        inputs = sequence(queries, queries + more - 1, value_size=SIZE + 2)
        is_its_definition(
            BUILD[kind](radius, rate, causal), inputs, some_mask(queries + more - 1)
        )


def test_values_of_the_same_size_without_the_kernel(kind, causal, monkeypatch):
    monkeypatch.setattr(merging, "_flash", None)
    with cut(2, 3):
        is_its_definition(BUILD[kind](2, 3, causal), sequence(23), some_mask(2, 1, 23))


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_are_right(kind, causal, masked):
    attention = BUILD[kind](2, 3, causal)
    mask = some_mask(2, 1, 8) if masked else None
    assert gradcheck(lambda *x: attention(*x, mask), sequence(7, 8), fast_mode=True)


def test_heads_as_multi_head_attention_makes_them_and_expanded_gradients(kind, causal):
    """The features of a head are a slice of those of a position, so heads are not contiguous."""
    whole = [sampled(2, 13, 4 * SIZE, seed=i).requires_grad_() for i in range(3)]
    heads = [x.unflatten(-1, (4, SIZE)).transpose(1, 2) for x in whole]
    assert not heads[0].is_contiguous()
    attention = BUILD[kind](2, 3, causal)
    found, expected = attention(*heads), definition(attention, *heads)
    close(found, expected)
    for a, b in zip(
        torch.autograd.grad(found.sum(), whole),
        torch.autograd.grad(expected.sum(), whole),
        strict=True,
    ):
        close(a, b)


def test_features_need_not_be_neighbours_in_memory(kind, causal):
    """PyTorch's kernel assumes that they are: its context would be silently wrong."""
    across = [sampled(2, SIZE, 13, seed=i).requires_grad_() for i in range(3)]
    is_its_definition(BUILD[kind](2, 3, causal), [x.mT for x in across])


def test_one_tensor_may_be_query_key_and_value(kind, causal):
    x, attention = sampled(2, 13, SIZE).requires_grad_(), BUILD[kind](2, 3, causal)
    same_gradients(attention(x, x, x), definition(attention, x, x, x), [x])


# Which positions attend to which


def test_gradients_reach_what_the_rule_allows_and_nothing_else(kind, causal):
    n, attention, may_attend = 17, BUILD[kind](2, 5, causal), MAY_ATTEND[kind](2, 5)
    query, key, value = sequence(n, batch=())
    context = attention(query, key, value)
    for i in range(n):
        gradient = torch.autograd.grad(
            context[i].square().sum(), (key, value), retain_graph=True
        )
        expected = [may_attend(i, j) and (j <= i or not causal) for j in range(n)]
        assert (gradient[1] != 0).any(-1).tolist() == expected
        assert not gradient[0][~torch.tensor(expected)].any()


def test_a_fully_masked_row_is_zero_and_has_no_gradient(kind, causal):
    query, key, value = sequence(13, batch=(2, 3))
    mask = torch.ones(2, 3, 13, 13).bool()
    mask[0, 1, 4] = mask[1] = False
    context = BUILD[kind](2, 3, causal)(query, key, value, mask)
    context.square().sum().backward()
    for x in (context, query.grad):
        assert not x[0, 1, 4].any()
        assert not x[1].any()
        assert x[0, 0, 3:].all()  # earlier queries may attend to themselves alone
    assert not key.grad[1].any()
    assert not value.grad[1].any()


def test_masked_keys_have_no_influence_and_get_no_gradient(kind, causal):
    query, key, value = sequence(13)
    mask = some_mask(13)
    attention = BUILD[kind](2, 3, causal)
    found = attention(query, key, value, mask)
    other = [x.detach().masked_fill(~mask[:, None], 1e3) for x in (key, value)]
    assert torch.equal(found, attention(query, *other, mask))
    found.square().sum().backward()
    assert not key.grad[:, ~mask].any()
    assert not value.grad[:, ~mask].any()
    assert value.grad[:, mask].all()


@pytest.mark.parametrize("last", [1, 2, 5, 13])
def test_fewer_queries_are_the_last_positions(kind, causal, last):
    query, key, value = sequence(13)
    attention = BUILD[kind](2, 3, causal)
    with cut(2, 2):
        found = attention(query[:, -last:], key, value)
        close(found, attention(query, key, value)[:, -last:])


def test_causal_says_so(kind, causal):
    assert BUILD[kind](2, 3, causal).causal is (causal or kind == "sinks")


def test_causal_windows_have_no_later_keys_and_a_class_without_a_mask_no_rule():
    before, around = (
        tiling.local_tiles(200, 200, 20, 0),
        tiling.local_tiles(200, 200, 20, 20),
    )
    for causal, expected in [(True, before), (False, around)]:
        assert LocalAttention(20, causal).tile_groups(200, 200)[0].tiles == expected
        assert SparseAttention(20, 7, causal).tile_groups(200, 200)[0].tiles == expected
    assert AtrousAttention(7).tile_groups(200, 200)[0].rule is None


# Query positions


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_queries_at_given_positions_are_rows_of_the_whole(
    kind, causal, batched, masked
):
    query, key, value = sequence(13)
    attention, mask = BUILD[kind](2, 3, causal), some_mask(13) if masked else None
    rows = torch.tensor([[5, 0, 12, 5], [1, 2, 3, 4]])
    rows = rows if batched else rows[:1].expand(2, -1)
    position = rows if batched else rows[0]
    found = attention(
        query.gather(1, rows[..., None].expand(-1, -1, SIZE)),
        key,
        value,
        mask,
        position,
    )
    whole = attention(query, key, value, mask)
    close(found, whole.gather(1, rows[..., None].expand(-1, -1, SIZE)))


def test_in_heads_tiles_are_used_unless_positions_are_given(kind, monkeypatch):
    attend = spread(MultiHeadAttention(6, 2, BUILD[kind](2, 3, True)))
    x = sampled(2, 9, 6)
    expected = attend(x, *attend.project(x), None, torch.arange(9))
    close(attend(x, *attend.project(x)), expected)

    def unused(*args):
        raise AssertionError("tiles were computed")

    monkeypatch.setattr(MergedAttention, "apply", unused)
    attend(x, *attend.project(x), None, torch.arange(9))
    with pytest.raises(AssertionError, match="tiles were computed"):
        attend(x, *attend.project(x))


# Rules that tiles cannot compute


class FixedByWindows(TiledAttention):
    """Windows whose mask is taken from the first of them, though the rule differs between them."""

    def __init__(self, rule):
        super().__init__(rule, causal=True)

    def tile_groups(self, queries, keys):
        return [TileGroup(tiling.local_tiles(queries, keys, 40, 0), self.rule)]


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        (masks.fixed(3), "same_block"),
        (masks.union(masks.local(2), masks.block_ends(4)), "block_ends"),
        (lambda i, j: i // 3 == j // 3, "lambda"),
    ],
)
def test_tiles_refuse_a_rule_that_does_not_depend_on_the_distance_alone(rule, name):
    attention, inputs = FixedByWindows(rule), sequence(200)
    with pytest.raises(ValueError, match=rf"i − j alone .*{name}.* PatternAttention"):
        attention(*inputs)
    close(PatternAttention(rule, causal=True)(*inputs), definition(attention, *inputs))


# Dtypes


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.parametrize(
    "precision", ["float64", "float32", "float16", "bfloat16", "autocast"]
)
@pytest.mark.parametrize("value_size", [16, 24])
def test_every_device_and_precision(kind, causal, device, precision, value_size):
    exact = sequence(70, size=16, value_size=value_size)
    attention, mask = BUILD[kind](4, 9, causal), some_mask(2, 1, 70)
    expected = definition(attention, *exact, mask)
    gradients = torch.autograd.grad(expected.square().sum(), exact)
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    inputs = [x.detach().to(device, dtype).requires_grad_() for x in exact]
    with torch.autocast(device, torch.bfloat16, enabled=precision == "autocast"):
        found = attention(*inputs, mask.to(device))
    found.square().sum().backward()
    assert found.device.type == device
    if precision != "autocast":
        assert found.dtype == dtype
    tolerance = {"float64": 1e-10, "float32": 1e-4, "float16": 1e-2}.get(
        precision, 6e-2
    )
    pairs = [
        (found, expected),
        *((x.grad, gradient) for x, gradient in zip(inputs, gradients, strict=True)),
    ]
    for ours, theirs in pairs:
        torch.testing.assert_close(
            ours.double().cpu(), theirs, atol=tolerance, rtol=tolerance
        )


@pytest.mark.parametrize("value_size", [16, 24])
def test_autocast_makes_nothing_less_precise(kind, value_size):
    """Scores and softmax are in single precision, whatever the dtype of the inputs."""
    inputs, attention = (
        sequence(70, size=16, value_size=value_size, dtype=torch.bfloat16),
        BUILD[kind](4, 9, True),
    )
    with torch.autocast("cpu", torch.bfloat16):
        found = attention(*inputs)
    assert torch.equal(found, attention(*inputs))


COMPILED = """
import sys
import torch
from companion.attention import AtrousAttention, LocalAttention, SinkAttention, SparseAttention

device, backend = sys.argv[1:]
torch.manual_seed(0)
ends = torch.arange(150) < torch.tensor([[[150]], [[130]]])
for attention, mask, value_size in [
    (LocalAttention(20), None, 5),
    (AtrousAttention(7, causal=True), ends.to(device), 5),
    (SparseAttention(20, 7), None, 4),
    (SinkAttention(20, 7), ends.to(device), 5),
]:
    torch.compiler.reset()
    inputs = [torch.randn(2, 150, size, device=device).requires_grad_() for size in (5, 5, value_size)]
    compiled = torch.compile(attention, fullgraph=True, backend=backend)
    found, expected = compiled(*inputs, mask), attention(*inputs, mask)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    upon = torch.randn_like(found)
    ours, theirs = (torch.autograd.grad(x, inputs, upon) for x in (found, expected))
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
"""


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("device", "backend"),
    [("cpu", "aot_eager"), pytest.param("cuda", "inductor", marks=pytest.mark.cuda)],
)
def test_compiled_into_one_graph(device, backend):
    """In a process of its own, because dynamo cannot trace the checks of shapes in these tests."""
    program = [sys.executable, "-c", COMPILED, device, backend]
    done = subprocess.run(
        program, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


LENGTHS = """
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from companion.attention import AtrousAttention, LocalAttention, SinkAttention, SparseAttention

class Foreign(LocalAttention):
    pass

for attention in [{attentions}]:
    torch.compiler.reset()
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(attention, backend=graphs, fullgraph=True)
    for length in range(35, 45):
        x = torch.randn(2, length, 4, requires_grad=True)
        mask = torch.arange(length) < torch.tensor([[[length]], [[length - 3]]])
        found, expected = compiled(x, x, x, mask), attention(x, x, x, mask)
        torch.testing.assert_close(found, expected)
        upon = torch.randn_like(found)
        ours, theirs = (torch.autograd.grad(y, x, upon) for y in (found, expected))
        torch.testing.assert_close(ours, theirs)
    assert graphs.frame_count == 2, graphs.frame_count  # of one length, and of any
"""


def compiled_at_ten_lengths(attentions):
    return subprocess.run(
        [sys.executable, "-c", LENGTHS.format(attentions=attentions)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.compiled
@pytest.mark.parametrize(
    "attentions",
    [
        "SinkAttention(3, 2)",
        pytest.param(
            "LocalAttention(2), AtrousAttention(7), SparseAttention(2, 7)",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_one_graph_is_for_all_lengths_after_the_first(attentions):
    done = compiled_at_ten_lengths(attentions)
    assert done.returncode == 0, done.stderr


@pytest.mark.compiled
@pytest.mark.slow
def test_a_graph_of_a_subclass_from_elsewhere_is_for_one_length():
    assert "recompile_limit" in compiled_at_ten_lengths("Foreign(2)").stderr


# Transforms, exports and copies


def test_under_torch_func_it_is_the_definition(kind, causal):
    attention, x = BUILD[kind](2, 3, causal), sampled(4, 9, SIZE)

    def loss(x):
        return attention(x, x, x).square().sum()

    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    close(torch.func.grad(loss)(x), expected)
    close(torch.func.vmap(torch.func.grad(loss))(x), expected)
    close(torch.func.vmap(lambda x: attention(x, x, x))(x), attention(x, x, x))


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.usefixtures("unchecked")
def test_it_is_exported_for_every_length(kind, causal):
    class SelfAttention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = BUILD[kind](2, 3, causal)

        def forward(self, x, mask):
            return self.attention(x, x, x, mask)

    model, length = SelfAttention(), torch.export.Dim("length", min=2, max=999)
    program = torch.export.export(
        model,
        (sampled(2, 9, 4), some_mask(2, 1, 9)),
        dynamic_shapes={"x": {1: length}, "mask": {2: length}},
    ).module()
    for n in (5, 9, 70):
        inputs = sampled(2, n, 4), some_mask(2, 1, n)
        close(program(*inputs), model(*inputs))


def test_saved_copied_and_compared_by_value(kind, causal):
    attention, file = BUILD[kind](2, 3, causal), io.BytesIO()
    torch.save(attention, file)
    file.seek(0)
    inputs = sequence(13)
    for other in (torch.load(file, weights_only=False), copy.deepcopy(attention)):
        assert other.rule == attention.rule == BUILD[kind](2, 3, causal).rule
        assert torch.equal(other(*inputs), attention(*inputs))


# Bad input


@pytest.mark.parametrize("size", [0, -3])
def test_a_radius_or_a_rate_below_one_is_an_error(size):
    for build in (
        LocalAttention,
        AtrousAttention,
        lambda n: SparseAttention(n, 2),
        lambda n: SparseAttention(2, n),
    ):
        with pytest.raises(ValueError, match=f"must be at least 1, not {size}"):
            build(size)


def test_more_queries_than_keys_are_an_error(kind):
    query, key, value = sequence(5, 4)
    for attention in (BUILD[kind](2, 3, False), PatternAttention(masks.local(2))):
        with pytest.raises(ValueError, match=r"5 queries .* 4 keys"):
            attention(query, key, value)
        with pytest.raises(ValueError, match=r"5 queries .* 4 keys"):
            attention.weights(query, key)


@pytest.mark.usefixtures("unchecked")
def test_query_and_key_of_different_batches_or_sizes_are_an_error(kind):
    query, key, value = sequence(5)
    attention = BUILD[kind](2, 3, False)
    with pytest.raises(RuntimeError, match=r"length (2 .* to \[3\]|3 .* to \[2\])"):
        attention(query, key[:1].expand(3, -1, -1), value)
    with pytest.raises((ValueError, RuntimeError), match=r"3.*2|same head size"):
        attention(query, key[..., :2], value)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("value_size", [SIZE, SIZE + 1])
def test_batches_broadcast(kind, value_size):
    query, key, value = sequence(5, value_size=value_size)
    attention, others = BUILD[kind](2, 3, False), value.expand(3, -1, -1, -1)
    for inputs in (
        (query, key[:1], value[:1]),
        (query[:1], key, value),
        (query, key, others),
    ):
        close(attention(*inputs), definition(attention, *inputs))


@pytest.mark.parametrize("batch", [(), (3,), (0,)])
def test_no_queries_have_no_contexts(kind, causal, batch):
    query, key, value = sequence(5, batch=batch)
    attention = BUILD[kind](2, 3, causal)
    for found in (
        attention(query[..., :0, :], key, value),
        definition(attention, query[..., :0, :], key, value),
    ):
        assert found.shape == (*batch, 0, SIZE)


def test_an_empty_batch(kind, causal):
    for mask in (None, torch.ones(0, 1, 5).bool()):
        assert BUILD[kind](2, 3, causal)(*sequence(5, batch=(0,)), mask).shape == (
            0,
            5,
            SIZE,
        )


# In models


@pytest.mark.parametrize("visible", [0.3, 1.0])
def test_in_heads_contexts_agree_with_weights(kind, causal, visible):
    attend = spread(MultiHeadAttention(12, 3, BUILD[kind](2, 3, causal)))
    x, mask = sampled(2, 11, 12), some_mask(2, 1, 11, visible=visible)
    found = attend(x, *attend.project(x), mask)
    with record_weights(attend) as maps:
        close(attend(x, *attend.project(x), mask), found)
    (weights,) = maps["attention"]
    assert weights.shape == (2, 3, 11, 11)
    assert not weights[
        ~(mask & masks.dense(attend.attention.rule, 11))[:, None].expand(2, 3, -1, -1)
    ].any()


def test_padding_has_no_effect_in_an_encoder_layer(kind):
    layer = spread(
        TransformerEncoderLayer(
            12, 3, 7, dropout=0.0, attention=BUILD[kind](2, 3, False)
        )
    )
    x, ends = sampled(3, 40, 12), torch.tensor([40, 1, 35])
    together = layer(x, torch.arange(40) < ends[:, None, None])
    for row, end in enumerate(ends):
        close(together[row, :end], layer(x[row : row + 1, :end])[0])


def decoder(*attentions):
    """A layer of self-attention for each of these."""
    layers = [
        TransformerDecoderLayer(4, 2, 7, 0.0, attention) for attention in attentions
    ]
    return spread(TransformerDecoder(9, layers, 0.0))


def begin(model):
    return model.start(sampled(2, 3, 4, seed=1), torch.ones(2, 3).bool())


WORDS = torch.randint(3, 9, (2, 70), generator=torch.Generator().manual_seed(2))


@given(
    kinds,
    st.integers(1, 5),
    st.integers(1, 5),
    st.lists(st.integers(1, 17), min_size=1, max_size=4),
    blocks,
)
def test_chunks_give_the_same_logits_as_the_whole(kind, radius, rate, lengths, how):
    model = decoder(BUILD[kind](radius, rate, True))
    words = WORDS[:, : sum(lengths)]
    with cut(*how):
        state, found = begin(model), []
        for chunk in words.split(lengths, 1):
            logits, state = model.run(chunk, state)
            found.append(logits)
        close(torch.cat(found, 1), model(words, begin(model)))


def test_step_by_step_is_as_all_at_once(kind):
    model = decoder(*(BUILD[kind](3, 4, True) for _ in range(2)))
    state, found = begin(model), []
    for word in WORDS.unbind(1):
        step = model.step(word, state)
        state = step.state
        found.append(step.logits)
    close(torch.stack(found, 1), model(WORDS, begin(model)))


# Memory


RADIUS = RATE = 64
LONG, FEATURES = 32_768, 8


def floats(action):
    return peak_memory(action) / 4


def budget(kind, n):
    """n · (3 · radius + n / rate), or the term of it that the pattern has; or n · sinks."""
    far = {"atrous": n // RATE, "sparse": n // RATE, "sinks": RATE}
    return n * (3 * RADIUS * (kind != "atrous") + far.get(kind, 0))


def test_one_mask_for_all_heads_is_kept_once(kind, causal):
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: kept.append(x) or x, lambda x: x
    ):
        BUILD[kind](2, 3, causal)(*sequence(40, batch=(5,)), some_mask(1, 40))
    biases = kept[5:]  # after query, key, value, context and log-sum-exp
    assert biases
    assert all(len(bias) == 1 for bias in biases)


@pytest.mark.parametrize("padded", [False, True])
def test_memory_grows_as_the_pattern_does(kind, causal, padded):
    """And with contexts and gradients. A padding mask takes a byte for each score before."""
    attention = BUILD[kind](RADIUS, RATE, causal)
    mask = torch.arange(LONG)[None] < LONG - 5 if padded else None
    inputs = [torch.randn(LONG, FEATURES).requires_grad_() for _ in range(3)]

    def forward():
        with torch.no_grad():
            return attention(*inputs, mask)

    def both_ways():
        return torch.autograd.grad(attention(*inputs, mask).sum(), inputs)

    scores = budget(kind, LONG) * (1.25 if padded else 1)
    assert floats(forward) < scores + 5 * LONG * FEATURES
    assert floats(both_ways) < scores + 10 * LONG * FEATURES


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("kind", ["local", "atrous"])
def test_memory_grows_with_the_length_alone(kind, padded):
    """Also for classes: the kernel computes scores in blocks, and one mask row serves all queries."""
    attention = BUILD[kind](RADIUS, RATE, False)
    peaks = []
    for n in (8_192, 16_384, 32_768):
        x, mask = (
            torch.randn(n, FEATURES),
            torch.arange(n)[None] < n - 5 if padded else None,
        )
        peaks.append(floats(lambda x=x, mask=mask: attention(x, x, x, mask)))
    assert peaks[2] - peaks[1] < 2.2 * (peaks[1] - peaks[0])


def test_the_definition_needs_more_than_four_gigabytes_where_the_tiles_do_not():
    n = 1_024
    x, attention = torch.randn(n, FEATURES), PatternAttention(masks.local(RADIUS))
    dense = peak_memory(lambda: attention.weights(x, x) @ x)
    assert dense > 4 * n**2  # so the measure includes what is held in between
    assert dense / n**2 * LONG**2 > 4 * 2**30
    x = torch.randn(LONG, FEATURES)
    assert peak_memory(lambda: LocalAttention(RADIUS)(x, x, x)) < 2**25


@pytest.mark.usefixtures("unchecked")
def test_inputs_of_two_precisions_take_autocasts_or_are_refused():
    query, key = sampled(1, 9, 4), sampled(1, 9, 4, seed=1)
    with torch.autocast("cpu", torch.bfloat16):
        found = LocalAttention(2)(query, key.bfloat16(), key.bfloat16())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(
        found.float(), LocalAttention(2)(query, key, key).float(), atol=0.1, rtol=0.1
    )
    with pytest.raises(
        TypeError, match=r"one dtype, not torch\.bfloat16, torch\.float"
    ):
        LocalAttention(2)(query, key.bfloat16(), key.bfloat16())
