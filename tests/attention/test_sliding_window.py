import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from companion.attention import (
    CacheRotary,
    CausalAttention,
    LocalAttention,
    MultiHeadAttention,
    PatternAttention,
    Rotary,
    SinkAttention,
    SlidingWindowAttention,
    WindowCache,
    masks,
    record_weights,
)
from companion.attention.kernels.merging import MergedAttention
from companion.decoding import map_state
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


@given(st.integers(1, 70), st.integers(1, 90), st.integers(0, 40), st.booleans())
def test_a_window_is_its_definition_and_local_attention_to_one_side(
    window, queries, more, padded
):
    keys = queries + more
    query, key, value = (
        doubles(2, n, SIZE).requires_grad_() for n in (queries, keys, keys)
    )
    mask = torch.arange(keys) < torch.tensor([[[keys]], [[keys - 3]]])
    inputs = query, key, value, mask if padded else None
    gradient = doubles(2, queries, SIZE)
    attention = SlidingWindowAttention(window)
    others = [PatternAttention(masks.sliding_window(window))]
    others += [LocalAttention(window - 1, causal=True)] if window > 1 else []
    context = attention(*inputs)
    ours = torch.autograd.grad(context, inputs[:3], gradient)
    for other in others:
        expected = other(*inputs)
        close(context, expected)
        theirs = torch.autograd.grad(expected, inputs[:3], gradient)
        for a, b in zip(ours, theirs, strict=True):
            close(a, b)


def test_a_window_of_one_returns_the_values():
    x = doubles(2, N, SIZE)
    close(SlidingWindowAttention(1)(x, x, x), x)


@pytest.mark.parametrize(
    "attention",
    [
        SlidingWindowAttention(3),
        SlidingWindowAttention(1),
        SinkAttention(3, 2),
        SinkAttention(2, 20),
        LocalAttention(2, causal=True),
    ],
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
        assert type(state) is attention.state_type is WindowCache
        assert state.key.shape[-2] <= attention.sinks + attention.before
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


def after(attention, length, batch=2):
    """The state after some positions of one text, with the text."""
    x = doubles(batch, 2, 30, SIZE)
    _, state = attention.extend(*3 * [x[:, :, :length]], attention.start(x, x))
    return x, state


STATES = [
    SlidingWindowAttention(3),
    SlidingWindowAttention(6),
    LocalAttention(3, causal=True),
    SinkAttention(3, 1),
    SinkAttention(2, 2),
    SinkAttention(4, 3),
]


@pytest.mark.parametrize("own", STATES)
@pytest.mark.parametrize("other", STATES)
@pytest.mark.parametrize("length", [1, 3, 9])
@pytest.mark.parametrize("wrap", [lambda x: x, Rotary])
def test_a_state_of_another_window_continues_exactly_or_is_refused(
    own, other, length, wrap
):
    """It is refused where it has dropped what the other window needs, also when reordered."""
    x, state = after(wrap(own), length)
    state = map_state(lambda part: part[[1, 0]], state)
    rows = x[[1, 0]]
    new = rows[:, :, length : length + 2]
    dropped = length > own.sinks + own.before
    if dropped and (own.sinks < other.sinks or own.before < other.before):
        needed = rf"first {other.sinks} and the last {other.before} .*"
        kept = rf"first {own.sinks} and the last {own.before}$"
        with pytest.raises(ValueError, match=needed + kept):
            wrap(other).extend(new, new, new, state)
        return
    found, longer = wrap(other).extend(new, new, new, state)
    assert longer.key.shape[-2] <= other.sinks + other.before
    whole = rows[:, :, : length + 2]
    close(found, wrap(other)(whole, whole, whole)[:, :, length:])


def test_positions_in_the_cache_need_the_window_that_kept_it_too():
    _, state = after(CacheRotary(SinkAttention(3, 1)), 9)
    new = doubles(2, 2, 1, SIZE)
    with pytest.raises(ValueError, match=r"first 1 and the last 4 .* the last 2$"):
        CacheRotary(SinkAttention(5, 1)).extend(new, new, new, state)


@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))]
)
@pytest.mark.parametrize("attention", [SlidingWindowAttention(6), SinkAttention(4, 2)])
def test_a_copied_state_continues_and_is_as_small(attention, duplicate):
    x, state = after(attention, 25)
    for n in range(25, 28):
        new = x[:, :, n : n + 1]
        other = duplicate(state)
        held = other.key.untyped_storage().nbytes() / other.key.nbytes
        assert held <= 6 / 5  # at most one position more than the cache
        expected, state = attention.extend(new, new, new, state)
        found, _ = attention.extend(new, new, new, other)
        close(found, expected)


@pytest.mark.parametrize(
    "attention",
    [SlidingWindowAttention(3), SinkAttention(3, 1), LocalAttention(2, causal=True)],
)
@pytest.mark.parametrize("groups", [4, 2])
def test_a_step_needs_no_tiles_no_mask_and_no_copies_for_shared_heads(
    attention, groups, monkeypatch
):
    monkeypatch.setattr(MergedAttention, "apply", None)
    monkeypatch.setattr(masks, "for_scores", None)
    heads = MultiHeadAttention(24, 4, attention, key_value_heads=groups)
    x = torch.randn(2, N, 24)
    state = heads.start(x)
    for part in x.split(1, 1):
        before, (_, state) = state, heads.extend(part, state)
    monkeypatch.undo()
    assert before.key.shape[-2] == state.key.shape[-2] == attention.sinks + 2
    with record_weights(heads) as maps:
        heads.extend(x[:, -1:], before)
    (weights,) = maps["attention"]
    assert weights.shape == (2, 4, 1, attention.sinks + 3)
    assert (weights > 0).all()


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
