import pytest
import torch

from companion.attention import (
    CausalAttention,
    LocalAttention,
    MultiHeadAttention,
    PatternAttention,
    SinkAttention,
    SlidingWindowAttention,
    masks,
)
from tests.reference import xiao_2024
from tests.tiny import close, doubles

N, SIZE = 11, 6


@pytest.mark.parametrize(("window", "sinks"), [(1, 1), (3, 2), (2, 4), (20, 4)])
def test_a_query_attends_to_what_the_paper_keeps(window, sinks):
    rule = masks.dense(masks.sink_window(window, sinks), N)
    for i, row in enumerate(rule.tolist()):
        assert [j for j, allowed in enumerate(row) if allowed] == xiao_2024.kept(
            i, window, sinks
        )
    x = doubles(1, N, SIZE)
    close(
        SinkAttention(window, sinks)(x, x, x),
        PatternAttention(masks.sink_window(window, sinks))(x, x, x),
    )


@pytest.mark.parametrize("window", [2, 3, 20])
def test_a_window_is_local_attention_to_one_side(window):
    x = doubles(2, N, SIZE)
    close(
        SlidingWindowAttention(window)(x, x, x),
        LocalAttention(window - 1, causal=True)(x, x, x),
    )


def test_a_window_of_one_returns_the_values():
    x = doubles(2, N, SIZE)
    close(SlidingWindowAttention(1)(x, x, x), x)


@pytest.mark.parametrize(
    "attention",
    [SlidingWindowAttention(3), SlidingWindowAttention(1), SinkAttention(3, 2)],
)
@pytest.mark.parametrize("chunks", [[1] * N, [4, 1, 1, 3, 2], [N]])
@pytest.mark.parametrize("groups", [4, 2])
def test_decoding_with_a_bounded_cache_equals_one_pass(attention, chunks, groups):
    heads = MultiHeadAttention(24, 4, attention, key_value_heads=groups).double()
    x = doubles(2, N, 24)
    state, found = heads.start(x), []
    for part in x.split(chunks, 1):
        output, state = heads.extend(part, state)
        found.append(output)
        assert state.key.shape[-2] <= attention.sinks + attention.window - 1
    close(torch.cat(found, 1), heads(x, *heads.project(x)))
    assert state.seen.tolist() == [N, N]


def test_a_dense_cache_grows_and_a_window_does_not():
    x, sizes = doubles(1, 1, N, SIZE), {}
    for attention in (CausalAttention(), SinkAttention(3, 2)):
        _, state = attention.extend(x, x, x, attention.start(x, x))
        sizes[type(attention).__name__] = state.key.shape[-2]
    assert sizes == {"CausalAttention": N, "SinkAttention": 4}


def test_no_position_depends_on_later_ones_or_on_forgotten_ones():
    x = doubles(1, N, SIZE).requires_grad_()
    (gradient,) = torch.autograd.grad(SinkAttention(2, 1)(x, x, x)[0, 6].sum(), x)
    reached = (gradient[0] != 0).any(-1)
    assert reached.nonzero().flatten().tolist() == [0, 5, 6]


def test_a_continued_cache_is_independent_of_the_earlier_one():
    attention, x = SinkAttention(3, 1), doubles(1, 1, N, SIZE)
    _, state = attention.extend(*3 * [x[:, :, :5]], attention.start(x, x))
    before = [part.clone() for part in state]
    for new in (x[:, :, 5:6], x[:, :, 7:9]):
        attention.extend(new, new, new, state)
    assert all(torch.equal(a, b) for a, b in zip(state, before, strict=True))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("number", [0, -3])
def test_windows_and_sinks_below_one_are_errors(number):
    for build, name in [
        (lambda: SlidingWindowAttention(number), "window"),
        (lambda: SinkAttention(number), "window"),
        (lambda: SinkAttention(4, number), "sinks"),
        (lambda: masks.sink_window(4, number), "sinks"),
    ]:
        with pytest.raises(
            ValueError, match=f"{name} must be at least 1, not {number}"
        ):
            build()


@pytest.mark.usefixtures("unchecked")
def test_a_window_that_is_not_an_integer_is_an_error():
    with pytest.raises(TypeError, match=r"window must be an integer, not 2\.5"):
        SlidingWindowAttention(2.5)
