"""FlexAttention equals the definition: uncompiled in many cases; compiled, which is slow, in few."""

import copy
import io
import os
import shutil
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.testing import CompileCounterWithBackend
from torch.autograd import gradcheck
from torch.func import vmap
from torch.nn.attention import flex_attention as pytorchs

from companion.attention import (
    AtrousAttention,
    FlexAtrous,
    FlexAttention,
    FlexSparse,
    LocalAttention,
    MultiHeadAttention,
    PatternAttention,
    SinkAttention,
    SlidingWindowAttention,
    SparseAttention,
    masks,
    sparse,
)
from companion.attention.kernels import flex
from companion.attention.kernels.block_masks import BLOCK, find_blocks
from companion.attention.kernels.flex import merge
from tests.conftest import slow_but

pytestmark = pytest.mark.filterwarnings(
    "ignore:`torch.jit.script_method` is deprecated"
)  # inductor's own
sizes = st.integers(1, 30)
CPU = torch.device("cpu")
BUILD = {
    "local": lambda radius, rate, causal: FlexAttention(masks.local(radius), causal),
    "fixed": lambda radius, rate, causal: FlexAttention(masks.fixed(rate), causal),
    "nothing": lambda radius, rate, causal: FlexAttention(
        lambda i, j: j > i + 2, causal
    ),
    "atrous": lambda radius, rate, causal: FlexAtrous(rate, causal),
    "sparse": FlexSparse,
}


@contextmanager
def plain():
    """PyTorch's kernel uncompiled: it holds all scores, takes float64, and returns the log-sum-exp."""
    uncompiled = patch.object(pytorchs, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    with (
        uncompiled,
        patch.multiple(
            flex, kernel=pytorchs.flex_attention, returns_lse=lambda device: True
        ),
    ):
        yield


#: The patterns that choose FlexAttention themselves, on CUDA.
BY_DEVICE = {
    "local": lambda radius, rate, causal: LocalAttention(radius, causal),
    "window": lambda radius, rate, causal: SlidingWindowAttention(radius),
    "sinks": lambda radius, rate, causal: SinkAttention(radius, sinks=rate),
    "atrous": lambda radius, rate, causal: AtrousAttention(rate, causal),
    "sparse": SparseAttention,
}


@contextmanager
def as_on_cuda(kernel):
    """The path that CUDA tensors take, on a CPU, where PyTorch would refuse a gradient."""
    settings = flex._compiler_settings
    with (
        patch.object(sparse, "uses_flex", lambda query, value: True),
        patch.object(pytorchs, "_validate_device", lambda *inputs: None),
        patch.multiple(
            flex,
            kernel=kernel,
            returns_lse=lambda device: True,
            _compiler_settings=lambda device: settings(torch.device("cuda")),
        ),
    ):
        yield


@pytest.fixture
def compiler(unchecked, monkeypatch):
    """A C++ compiler for the kernel on a CPU: without one, the test is skipped, or fails where CI is set.

    The C++ that PyTorch writes for FlexAttention needs vector instructions, also where its own kernels
    run without them.
    """
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    if shutil.which("g++") is None:
        message = "no C++ compiler found: on Debian, apt-get install g++"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    torch.compiler.reset()


def sequence(queries, keys, batch=(2, 3), size=16, **kind):
    generator = torch.Generator().manual_seed(queries + keys)
    shapes = (queries, size), (keys, size), (keys, size)
    return [
        torch.randn(*batch, *shape, generator=generator, dtype=torch.float64).to(**kind)
        for shape in shapes
    ]


def padding(keys, device="cpu"):
    """The first sequence is padded, the second is empty."""
    return (
        torch.arange(keys, device=device)
        < torch.tensor([[keys - 5], [0]], device=device)
    )[:, None, None]


def equals_its_definition(attention, query, key, value, mask=None, atol=1e-5):
    found = attention(query, key, value, mask)
    wide = [x.double() for x in (query, key, value)]
    expected = PatternAttention(attention.rule)(*wide, mask)
    assert found.dtype == query.dtype
    torch.testing.assert_close(found.double(), expected, atol=atol, rtol=0)


@given(
    st.sampled_from(sorted(BUILD)),
    sizes,
    sizes,
    st.booleans(),
    sizes,
    st.integers(0, 9),
    st.data(),
)
def test_not_compiled_equals_its_definition(
    name, radius, rate, causal, queries, more, data
):
    keys = queries + more
    batch = data.draw(st.sampled_from([(), (2,), (2, 3), (2, 1, 3)]))
    masks = [
        (keys,),
        (*[1] * len(batch), 1, keys),
        (*[1] * len(batch), queries, 1),
        (*batch, queries, keys),
        (*batch[:-1], *[1] * bool(batch), 1, keys),
    ]
    shape = data.draw(st.sampled_from([None, *masks]))
    mask = (
        None
        if shape is None
        else torch.rand(shape, generator=torch.Generator().manual_seed(keys)) < 0.6
    )
    with plain():
        attention = BUILD[name](radius, rate, causal)
        equals_its_definition(
            attention, *sequence(queries, keys, batch), mask, atol=1e-10
        )


@given(
    st.sampled_from(sorted(BY_DEVICE)),
    sizes,
    sizes,
    st.booleans(),
    sizes,
    st.integers(0, 9),
    st.booleans(),
)
def test_where_the_device_chooses_it_every_pattern_is_its_definition(
    name, radius, rate, causal, queries, more, masked
):
    keys = queries + more
    attention = BY_DEVICE[name](radius, rate, causal)
    mask = padding(keys) if masked else None
    with plain(), as_on_cuda(pytorchs.flex_attention):
        equals_its_definition(attention, *sequence(queries, keys), mask, atol=1e-10)


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("name", slow_but({"sinks"}, BY_DEVICE))
def test_there_all_lengths_have_few_kernels_and_a_gradient(unchecked, name):
    """Traced and differentiated; what a GPU would be given is written by Inductor alone."""
    torch.compiler.reset()
    graphs = CompileCounterWithBackend("aot_eager")
    attention = BY_DEVICE[name](20, 7, True)
    compiled = torch.compile(pytorchs.flex_attention, fullgraph=True, backend=graphs)
    with as_on_cuda(compiled):
        for keys in (150, 161, 300, 257, 450, 199):
            inputs = [
                x.requires_grad_()
                for x in sequence(keys, keys, (2, 1), dtype=torch.float32)
            ]
            mask = padding(keys)
            found = attention(*inputs, mask)
            expected = PatternAttention(attention.rule)(*inputs, mask)
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
            upon = torch.randn_like(found)
            ours, theirs = (
                torch.autograd.grad(x, inputs, upon) for x in (found, expected)
            )
            torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    # of one length, of any, and of any number of blocks
    assert graphs.frame_count <= 3 * len(attention.parts())


def test_on_a_cpu_no_pattern_chooses_it_nor_in_a_graph_nor_for_what_it_has_not(
    unchecked, monkeypatch
):
    monkeypatch.setattr(sparse, "_HAS_TRITON", True)
    x = torch.zeros(2, 3, 16)
    on_cuda = SimpleNamespace(shape=x.shape, dtype=x.dtype, device=torch.device("cuda"))
    assert not sparse.uses_flex(x, x)
    assert sparse.uses_flex(on_cuda, on_cuda)
    few = SimpleNamespace(**vars(on_cuda) | {"shape": (2, 3, 15)})
    exact = SimpleNamespace(**vars(on_cuda) | {"dtype": torch.float64})
    assert not sparse.uses_flex(exact, exact)
    assert not sparse.uses_flex(on_cuda, few)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not sparse.uses_flex(on_cuda, on_cuda)


@given(
    st.sampled_from(sorted(BUILD)),
    st.integers(1, 200),
    st.integers(1, 3),
    st.integers(1, 300),
    sizes,
)
def test_blocks_are_those_that_pytorch_finds_in_the_mask(
    name, radius, rate, queries, more
):
    rule, keys = BUILD[name](radius, rate, True).rule, queries + more
    (rows, _), (columns, inverse), found = find_blocks(rule, rate, queries, keys, CPU)
    assert sorted(rows.tolist()) == list(range(queries))
    assert columns[inverse].tolist() == list(range(keys))
    assert all(
        (columns[1:] - columns[:-1])[columns[1:] % rate == columns[:-1] % rate] == rate
    )
    mask = masks.dense(rule, queries, keys, first=more)[rows][:, columns]
    expected = pytorchs.create_block_mask(
        lambda b, h, i, j: mask[i, j], 1, 1, queries, keys, device="cpu"
    )
    assert found.shape == expected.shape
    for kind in ("kv", "full_kv", "q", "full_q"):
        numbers, indices = f"{kind}_num_blocks", f"{kind}_indices"
        assert torch.equal(getattr(found, numbers), getattr(expected, numbers))
        assert torch.equal(getattr(found, indices), getattr(expected, indices))


def test_sorted_atrous_skips_all_blocks_except_the_diagonal():
    length, rate = 8 * BLOCK, 8
    rule = masks.atrous(rate)
    assert find_blocks(rule, rate, length, length, CPU)[-1].sparsity() == 100 * (
        1 - 1 / rate
    )
    assert find_blocks(rule, 1, length, length, CPU)[-1].sparsity() == 0


def test_blocks_are_found_once_and_never_as_n_squared_entries():
    largest = 0

    def rule(i, j):
        nonlocal largest
        visible = (i - j).abs() <= 9
        largest = max(largest, visible.numel())
        return visible

    length = 20 * BLOCK
    first = find_blocks(rule, 1, length, length, CPU)
    assert largest == BLOCK * length
    assert find_blocks(rule, 1, length, length, CPU) is first


def test_blocks_found_in_inference_mode_can_be_used_in_training():
    with torch.inference_mode():
        rows, columns, blocks = find_blocks(masks.local(3), 2, 9, 9, CPU)
    assert not any(
        x.is_inference() for x in (*rows, *columns, blocks.kv_indices, blocks.q_indices)
    )


def test_sorted_and_restored_with_the_gradient_in_order():
    rows, columns, _ = find_blocks(masks.atrous(3), 3, 5, 7, CPU)
    x = torch.randn(2, 7, 3, dtype=torch.float64, requires_grad=True)
    assert columns.sort(x)[0].tolist() == x[0, [0, 3, 6, 1, 4, 2, 5]].tolist()
    assert rows.sort(x[:, 2:])[0].tolist() == x[0, [3, 6, 4, 2, 5]].tolist()
    assert torch.equal(columns.restore(columns.sort(x)), x)
    assert gradcheck(columns.sort, x)
    assert gradcheck(columns.restore, x)


def two_calls(length=7):
    """Scores, values and masks of two calls, with queries that are fully masked in either or both."""
    generator = torch.Generator().manual_seed(0)
    score, value = (
        torch.randn(2, length, n, generator=generator, dtype=torch.float64)
        for n in (length, 3)
    )
    near = masks.dense(masks.local(1), length)
    near[[2, 4]] = False
    far = masks.dense(lambda i, j: (i - j).abs() > 3, length)
    far[4] = False
    return score.requires_grad_(), value.requires_grad_(), near, far


def merged(score, value, near, far):
    found = []
    for mask in (near, far):
        scores = score.masked_fill(~mask, -torch.inf)
        lse = scores.logsumexp(-1, keepdim=True)
        finite = lse.masked_fill(lse == -torch.inf, 0)
        found += [(scores - finite).exp() @ value, lse]
    return merge(*found)


def test_merged_calls_are_one_softmax_with_its_gradient_even_where_all_is_masked():
    score, value, near, far = two_calls()
    expected = (
        score.masked_fill(~(near | far), -torch.inf).softmax(-1).nan_to_num() @ value
    )
    torch.testing.assert_close(merged(score, value, near, far), expected)
    assert gradcheck(merged, (score, value, near, far))


@pytest.mark.slow
@pytest.mark.compiled
@torch.no_grad()
def test_compiled_local(compiler):
    attention = FlexAttention(masks.local(40))
    equals_its_definition(attention, *sequence(300, 300, dtype=torch.float32))
    other = FlexAttention(masks.local(3))  # another radius is another kernel
    equals_its_definition(other, *sequence(300, 300, dtype=torch.float32))


@pytest.mark.compiled
@torch.no_grad()
def test_compiled_with_padding_and_the_last_queries_alone(compiler):
    query, key, value = sequence(150, 300, dtype=torch.float32)
    attention = FlexSparse(9, 7, causal=True)
    equals_its_definition(attention, query, key, value, padding(300))
    assert not attention(query, key, value, padding(300))[1].any()


@pytest.mark.slow
@pytest.mark.compiled
@torch.no_grad()
def test_compiled_atrous_in_half_precision(compiler):
    equals_its_definition(
        FlexAtrous(2, causal=True), *sequence(301, 301, dtype=torch.bfloat16), atol=2e-2
    )


@pytest.mark.slow
@pytest.mark.compiled
@torch.no_grad()
def test_in_a_compiled_model(compiler):
    model = MultiHeadAttention(32, 2, attention=FlexAttention(masks.local(5)))
    definition = copy.deepcopy(model)
    definition.attention = PatternAttention(masks.local(5))
    x = torch.randn(2, 40, 32)
    found = torch.compile(model, backend="aot_eager")(x, *model.project(x))
    torch.testing.assert_close(
        found, definition(x, *definition.project(x)), atol=1e-5, rtol=0
    )
    assert not any("flex" in name for name in model.state_dict())


@pytest.mark.parametrize(
    "build", [lambda: FlexAtrous(0), lambda: FlexSparse(0, 1), lambda: FlexSparse(1, 0)]
)
def test_a_radius_or_rate_below_1_is_an_error(build):
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        build()


@pytest.mark.parametrize("name", BUILD)
def test_more_queries_than_keys_are_an_error(name):
    with pytest.raises(
        ValueError, match="5 queries cannot be the last positions of 3 keys"
    ):
        BUILD[name](1, 1, False)(*sequence(5, 3))


@pytest.mark.parametrize("name", BUILD)
def test_a_gradient_on_a_cpu_is_an_error_that_names_the_alternatives(name):
    query, key, value = sequence(5, 5)
    with pytest.raises(NotImplementedError, match="LocalAttention"):
        BUILD[name](1, 1, False)(query, key, value.requires_grad_())
    with torch.no_grad(), plain():
        equals_its_definition(BUILD[name](1, 1, False), query, key, value)


def test_a_mask_of_another_shape_is_an_error():
    with pytest.raises(
        ValueError,
        match=r"mask of shape \(4, 5\) does not fit scores of shape \(2, 3, 5, 5\)",
    ):
        FlexAtrous(2)(*sequence(5, 5), torch.ones(4, 5).bool())


@pytest.mark.parametrize(("queries", "batch"), [(0, (2, 3)), (4, (0, 3))])
def test_no_queries_have_no_contexts(queries, batch):
    assert FlexAtrous(2)(*sequence(queries, 5, batch)).shape == (*batch, queries, 16)


PICKLED = sorted(set(BUILD) - {"nothing"})  # whose rule is a lambda


@pytest.mark.parametrize("name", PICKLED)
def test_saved_and_copied_by_value(name):
    attention, file = BUILD[name](2, 3, True), io.BytesIO()
    torch.save(attention, file)
    file.seek(0)
    for other in (torch.load(file, weights_only=False), copy.deepcopy(attention)):
        assert vars(other)["rule"] == attention.rule
        with plain():
            equals_its_definition(other, *sequence(9, 9))


def test_equal_rules_have_one_set_of_blocks():
    first, second = FlexSparse(3, 4).rule, FlexSparse(3, 4).rule
    assert first is not second
    assert find_blocks(first, 1, 9, 9, CPU) is find_blocks(second, 1, 9, 9, CPU)


@pytest.mark.parametrize("name", BUILD)
def test_with_positions_and_under_torch_func_it_is_the_definition(name):
    attention, (query, key, value) = BUILD[name](2, 3, True), sequence(9, 9)
    definition = PatternAttention(attention.rule)
    position = torch.tensor([4, 0, 7])
    found = attention(query[..., :3, :], key, value, None, position)
    expected = definition(query[..., :3, :], key, value, None, position)
    torch.testing.assert_close(found, expected)
    found = vmap(lambda q, k, v: attention(q, k, v))(query, key, value)
    torch.testing.assert_close(found, definition(query, key, value))


def test_where_pytorch_has_no_such_setting_its_own_limit_of_kernels_holds(monkeypatch):
    assert not isinstance(flex._compiler_settings(CPU), nullcontext)
    with flex._compiler_settings(CPU):
        assert torch._dynamo.config.recompile_limit == flex._KERNELS
    monkeypatch.setattr(torch._dynamo, "config", object())
    with flex._compiler_settings(CPU):
        pass
    monkeypatch.delattr(torch._dynamo, "config")
    with flex._compiler_settings(CPU):
        pass


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("sizes", "causal", "masked"),
    [
        ((300, 300), False, True),
        ((1024, 1024), True, False),
        ((150, 300), True, True),
        ((1, 300), False, False),
    ],
)
@pytest.mark.parametrize("name", BUILD)
def test_on_a_gpu_forward_and_backward_equal_the_definition(
    unchecked, name, causal, sizes, masked
):
    torch.compiler.reset()
    attention = BUILD[name](20, 16, causal)
    inputs = [
        x.requires_grad_() for x in sequence(*sizes, device="cuda", dtype=torch.float32)
    ]
    mask = padding(sizes[1], "cuda") if masked else None
    found = attention(*inputs, mask)
    gradient = torch.randn_like(found)
    wide = [x.detach().double().requires_grad_() for x in inputs]
    expected = PatternAttention(attention.rule)(*wide, mask)
    torch.testing.assert_close(found.double(), expected, atol=1e-3, rtol=0)
    pairs = zip(
        torch.autograd.grad(found, inputs, gradient),
        torch.autograd.grad(expected, wide, gradient.double()),
        strict=True,
    )
    for ours, theirs in pairs:
        torch.testing.assert_close(ours.double(), theirs, atol=5e-3, rtol=0)


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", BUILD)
def test_on_a_gpu_in_half_precision(unchecked, name, dtype):
    torch.compiler.reset()
    equals_its_definition(
        BUILD[name](20, 16, True),
        *sequence(1024, 1024, device="cuda", dtype=dtype),
        atol=2e-2,
    )


@pytest.mark.cuda
def test_on_a_gpu_65536_positions_need_no_n_squared_memory(unchecked):
    torch.compiler.reset()
    inputs = [
        torch.randn(
            1, 1, 65536, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True
        )
        for _ in range(3)
    ]
    torch.cuda.reset_peak_memory_stats()
    FlexSparse(64, 64)(*inputs).sum().backward()
    assert torch.cuda.max_memory_allocated() < 2**30  # a mask of n² bytes has 2³²
    assert all(x.grad.isfinite().all() for x in inputs)


@pytest.mark.cuda
@pytest.mark.parametrize("lengths", [[(300, 300), (150, 300)], [(256, 256), (77, 190)]])
@pytest.mark.parametrize("name", BY_DEVICE)
def test_on_a_gpu_every_pattern_chooses_it(unchecked, name, lengths):
    """At a second length, too, which has a kernel for all that follow."""
    torch.compiler.reset()
    attention = BY_DEVICE[name](20, 16, True)
    for sizes in lengths:
        inputs = [
            x.requires_grad_()
            for x in sequence(*sizes, device="cuda", dtype=torch.float32)
        ]
        mask = padding(sizes[1], "cuda")
        with patch.object(flex, "flex_kernel", wraps=flex.flex_kernel) as called:
            found = attention(*inputs, mask)
        assert called.call_count == len(attention.parts())
        wide = [x.detach().double().requires_grad_() for x in inputs]
        expected = PatternAttention(attention.rule)(*wide, mask)
        torch.testing.assert_close(found.double(), expected, atol=1e-3, rtol=0)
        upon = torch.randn_like(found)
        pairs = zip(
            torch.autograd.grad(found, inputs, upon),
            torch.autograd.grad(expected, wide, upon.double()),
            strict=True,
        )
        for ours, theirs in pairs:
            torch.testing.assert_close(ours.double(), theirs, atol=5e-3, rtol=0)


@pytest.mark.cuda
@pytest.mark.parametrize("name", BY_DEVICE)
def test_on_a_gpu_a_compiled_pattern_has_one_graph_for_all_lengths(unchecked, name):
    torch.compiler.reset()
    attention = BY_DEVICE[name](20, 16, True)
    compiled = torch.compile(attention, fullgraph=True)
    for n in range(100, 110):
        inputs = sequence(n, n, device="cuda", dtype=torch.float32)
        torch.testing.assert_close(
            compiled(*inputs),
            PatternAttention(attention.rule)(*inputs),
            atol=1e-3,
            rtol=0,
        )
