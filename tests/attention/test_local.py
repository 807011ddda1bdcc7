"""Location, local-m and local-p against the paper's equations, and the cost of a window."""

import io

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from companion.attention import (
    Additive,
    Bilinear,
    DenseSynthesizer,
    Dot,
    GumbelSoftmax,
    LocalM,
    LocalP,
    Location,
    PatternAttention,
    RandomSynthesizer,
    masked_softmax,
    record_weights,
)
from companion.attention.masks import causal, dense, local
from tests.reference import luong_2015, scalars
from tests.tiny import close, spread

SIZE = 3


def sampled(queries, keys, batch=2):
    torch.manual_seed(0)
    kind = {"dtype": torch.float64}
    query, source = (
        torch.randn(batch, queries, SIZE, **kind),
        torch.randn(batch, keys, SIZE, **kind),
    )
    return query, source


def with_centres(attention, centres):
    """The same attention with these centres."""
    attention.centre = lambda query, lengths, position=None: torch.tensor(
        centres, dtype=query.dtype
    )
    return attention


def local_p(radius, score=None):
    return spread(LocalP(score or Bilinear(SIZE, SIZE), radius, SIZE))


# Equal to the paper's loops
@given(
    queries=st.integers(1, 9),
    keys=st.integers(1, 9),
    radius=st.integers(1, 11),
    padding=st.integers(0, 4),
)
@pytest.mark.parametrize("kind", ["m", "p"])
def test_weights_and_contexts_are_the_papers(kind, queries, keys, radius, padding):
    score = luong_2015.bilinear_score
    if kind == "m":
        attention = spread(LocalM(Bilinear(SIZE, SIZE), radius))
        expected_weights = luong_2015.local_m_weights(score, radius)
    else:
        attention = local_p(radius)
        expected_weights = luong_2015.local_p_weights(score, radius)
    query, source = sampled(queries, keys)
    padded = nn.functional.pad(source, (0, 0, 0, padding), value=9.0)
    mask = (torch.arange(keys + padding) < keys)[None, None]
    key, value = attention.project(padded)
    position = torch.arange(queries)
    weights = attention.weights(query, key, mask, position)
    contexts = attention(query, key, value, mask, position)
    parameters = scalars.values(attention)
    for b in range(2):
        for t in range(queries):
            expected = expected_weights(
                parameters, query[b, t].tolist(), source[b].tolist(), t
            )
            close(weights[b, t], expected + [0.0] * padding)
            close(contexts[b, t], scalars.context(expected, source[b].tolist()))


def test_the_centre_of_local_p_is_a_fraction_of_each_sequences_own_length():
    attention = local_p(radius=2)
    query, source = sampled(queries=4, keys=9)
    lengths = torch.tensor([9, 4])
    mask = torch.arange(9) < lengths[:, None, None]
    centre = attention.centre(query, mask.sum(-1))
    for b, length in enumerate(lengths):
        expected = [
            luong_2015.predicted_centre(
                scalars.values(attention), q.tolist(), int(length)
            )
            for q in query[b]
        ]
        close(centre[b], expected)
        key, value = attention.project(source[b, :length])
        close(
            attention(query, *attention.project(source), mask)[b],
            attention(query[b], key, value),
        )


@pytest.mark.parametrize("shape", [(1,), (2, 1, 1), (1, 4, 1), (9,), (2, 4, 9)])
def test_a_mask_of_any_allowed_shape_that_masks_nothing_changes_nothing(shape):
    attention = local_p(radius=2)
    query, source = sampled(queries=4, keys=9)
    key, _ = attention.project(source)
    found = attention.weights(query, key, torch.ones(shape, dtype=torch.bool))
    close(found, attention.weights(query, key))


def test_by_default_the_queries_of_local_m_are_the_last_positions_of_the_keys():
    attention = LocalM(Dot(), 2)
    query, source = sampled(queries=4, keys=9)
    last = torch.arange(5, 9)
    close(
        attention(query, source, source), attention(query, source, source, None, last)
    )


@pytest.mark.parametrize("batched", [False, True])
def test_positions_reach_local_m_by_name_while_weights_are_recorded(batched):
    attention = LocalM(Dot(), 2)
    query, source = sampled(queries=4, keys=9)
    position = torch.tensor([[5, 5, 2, 8], [0, 1, 2, 3]] if batched else [5, 5, 2, 8])
    with record_weights(attention) as maps:
        context = attention(query, source, source, query_position=position)
    close(context, attention(query, source, source, None, position))
    close(maps[""][0], attention.weights(query, source, None, position))
    rows = position.expand(2, 4)
    for b in range(2):
        for t in range(4):
            expected = (torch.arange(9) - rows[b, t]).abs() <= 2
            assert torch.equal(maps[""][0][b, t] > 0, expected)


def test_local_m_is_its_scores_under_a_band():
    attention, radius = LocalM(Additive(SIZE, SIZE, 5), 2).double(), 2
    query, source = sampled(queries=8, keys=6)
    key, value = attention.project(source)
    position = torch.arange(8)
    band = dense(local(radius), 8, 6)
    close(
        attention.weights(query, key, None, position),
        masked_softmax(attention.score(query, key), band),
    )
    context, weights = attention.attend(query, key, value, None, position)
    close(context, attention.attention(query, key, value, band))
    close(attention(query, key, value, None, position), context)
    close(weights @ value, context)


# The window


@pytest.mark.parametrize(
    ("centre", "expected"),
    [
        (0.0, [0, 1, 2]),
        (0.4, [0, 1, 2]),
        (3.0, [1, 2, 3, 4, 5]),
        (3.4, [2, 3, 4, 5]),
        (3.6, [2, 3, 4, 5]),
        (6.0, [4, 5, 6]),
        (6.7, [5, 6]),
        (8.0, [6]),
        (8.1, []),
        (50.0, []),
    ],
)
def test_the_window_at_both_ends_and_between_two_positions(centre, expected):
    query, source = sampled(queries=1, keys=7, batch=1)
    attention = with_centres(LocalM(Dot(), 2), [[centre]])
    weights = attention.weights(query, source)[0, 0]
    assert weights.nonzero().flatten().tolist() == expected
    close(weights.sum(), float(bool(expected)))
    close(attention(query, source, source), weights[None, None] @ source)


def test_beyond_the_source_the_context_of_local_m_is_zero():
    attention = LocalM(Dot(), 2)
    query, source = (x.requires_grad_() for x in sampled(queries=9, keys=4))
    context = attention(query, source, source, None, torch.arange(9))
    assert ((context == 0).all(-1) == (torch.arange(9) > 5)).all()
    context.square().sum().backward()
    assert (query.grad[:, 6:] == 0).all()
    assert source.grad.isfinite().all()


@pytest.mark.parametrize("position", [-3, 6, 10**6, 2**40])
def test_a_position_away_from_the_source_has_an_empty_window(position):
    query, source = sampled(queries=1, keys=4)
    for weights in (
        LocalM(Dot(), 2).weights(query, source, None, torch.tensor([position])),
        with_centres(local_p(2, Dot()), [[float(position)]] * 2).weights(query, source),
    ):
        assert not weights.any()


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("build", ["m", "p"])
def test_a_query_that_is_not_finite_has_a_context_of_nan_as_in_dot_attention(
    number, build
):
    query, source = sampled(queries=3, keys=9)
    attention = LocalM(Dot(), 2) if build == "m" else local_p(2, Dot())
    query[0, 1] = number
    assert Dot()(query, source, source)[0, 1].isnan().all()
    for context in (
        attention(query, source, source),
        attention.attend(query, source, source)[0],
        attention.weights(query, source) @ source,
    ):
        assert context[0, 1].isnan().all()
        assert context[1].isfinite().all()
        assert context[0, [0, 2]].isfinite().all()


@pytest.mark.parametrize("radius", [5, 6, 100, 10**6])
def test_a_radius_beyond_the_source_includes_all_of_it(radius):
    query, source = sampled(queries=5, keys=5)
    close(LocalM(Dot(), radius)(query, source, source), Dot()(query, source, source))
    attention = local_p(radius, Dot())
    distance = torch.arange(5) - attention.centre(query, 5)[..., None]
    gaussian = torch.exp(-(distance**2) / (2 * (radius / 2) ** 2))
    close(attention.weights(query, source), Dot().weights(query, source) * gaussian)


def test_the_gaussian_comes_after_the_softmax():
    attention = local_p(radius=3)
    query, source = sampled(queries=6, keys=9)
    key, _ = attention.project(source)
    weights, distance = (
        attention.weights(query, key),
        torch.arange(9) - attention.centre(query, 9)[..., None],
    )
    window = distance.abs() <= 3
    logarithm = -2 * (distance / 3).square()
    scores = attention.score(query, key)
    close(weights, masked_softmax(scores, window) * logarithm.exp())
    assert not torch.allclose(
        weights, masked_softmax(scores + logarithm, window), atol=0.01
    )
    assert (weights.sum(-1) < 1).all()


def test_the_gradient_reaches_the_centre_through_the_gaussian():
    attention = local_p(radius=3)
    query, source = sampled(queries=6, keys=9)
    attention(query, *attention.project(source)).square().sum().backward()
    assert attention.W_p.weight.grad.abs().sum() > 0
    assert attention.v_p.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_the_centre_distinguishes_neighbours_in_a_long_source(dtype):
    attention = LocalP(Dot(), 4, SIZE).to(dtype)
    query = torch.linspace(-1, 1, 50, dtype=dtype)[:, None].expand(50, SIZE)[None]
    assert attention.centre(query, 2048).dtype == torch.float32
    position = torch.tensor([[2046, 2047]])
    centre = LocalM(Dot(), 4).centre(query[:, :2], 2048, position)
    assert centre.tolist() == [[2046.0, 2047.0]]
    assert (
        attention(query, *[torch.randn(1, 2048, SIZE, dtype=dtype)] * 2).dtype == dtype
    )


# The cost


class Counting(Dot):
    """Counts the keys that are scored."""

    scored = 0

    def score(self, query, key):
        result = super().score(query, key)
        self.scored += result.numel()
        return result


@pytest.mark.parametrize(
    "build", [lambda s: LocalM(s, 3), lambda s: LocalP(s, 3, SIZE)], ids=["m", "p"]
)
def test_no_more_keys_are_scored_in_a_longer_source(build):
    counts = []
    for keys in (7, 70, 700):
        score = Counting()
        attention = build(score).double()
        query, source = sampled(queries=5, keys=keys)
        attention(query, source, source)
        attention.weights(query, source)
        counts.append(score.scored)
    assert counts == [2 * 2 * 5 * 7] * 3


def memory(x):
    """The address of a tensor's storage."""
    return x.untyped_storage().data_ptr() if isinstance(x, torch.Tensor) else None


class Sizes(TorchDispatchMode):
    """Records the size of each tensor that PyTorch computes, views of inputs excepted."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        given = {memory(x) for x in tree_leaves(args)}
        self.found += [
            x.numel()
            for x in tree_leaves(result)
            if memory(x) and memory(x) not in given
        ]
        return result


@pytest.mark.parametrize(
    "build", [LocalM, lambda s, r: LocalP(s, r, SIZE)], ids=["m", "p"]
)
@pytest.mark.parametrize("scattered", [False, True])
def test_a_context_computes_nothing_that_grows_with_the_source(build, scattered):
    attention, sizes = build(Dot(), 3).double(), []
    for keys in (70, 700):
        query, source = sampled(queries=5, keys=keys)
        key, value = attention.project(
            source.mT.contiguous().mT if scattered else source
        )
        with Sizes() as computed:
            attention(query, key, value)
        sizes.append(computed.found)
    assert sizes[0] == sizes[1]


# Location


def test_location_depends_on_the_query_alone():
    attention = spread(Location(SIZE, 9))
    query, source = sampled(queries=4, keys=6)
    weights = attention.weights(query, source)
    for b in range(2):
        for t in range(4):
            parameters = scalars.values(attention)
            close(
                weights[b, t],
                luong_2015.location_weights(
                    parameters, query[b, t].tolist(), [None] * 6, t
                ),
            )
    close(attention.weights(query, torch.zeros_like(source)), weights)


def test_location_scores_sources_up_to_its_maximum_length():
    attention = Location(SIZE, 6).double()
    query, source = sampled(queries=4, keys=6)
    assert attention(query, source, source).shape == (2, 4, SIZE)
    query, source = sampled(queries=4, keys=7)
    with pytest.raises(
        ValueError,
        match="source has 7 positions, but location attention has scores for 6",
    ):
        attention(query, source, source)


# Errors


@pytest.mark.parametrize("radius", [0, -1])
def test_a_radius_below_one_is_an_error(radius):
    for build in (lambda: LocalM(Dot(), radius), lambda: LocalP(Dot(), radius, SIZE)):
        with pytest.raises(
            ValueError, match=f"radius must be at least 1, not {radius}"
        ):
            build()


@pytest.mark.parametrize(
    ("inner", "name"),
    [
        (lambda: Location(SIZE, 9), "Location"),
        (lambda: LocalM(Dot(), 2), "LocalM"),
        (lambda: LocalP(Dot(), 2, SIZE), "LocalP"),
        (lambda: RandomSynthesizer(9), "Random"),
        (lambda: DenseSynthesizer(SIZE, 9), "Dense"),
        (lambda: PatternAttention(causal()), "PatternAttention"),
        (lambda: GumbelSoftmax(Location(SIZE, 9)), "Location"),
    ],
)
def test_scores_that_depend_on_positions_cannot_be_used_in_a_window(inner, name):
    for build in (lambda: LocalM(inner(), 2), lambda: LocalP(inner(), 2, SIZE)):
        with pytest.raises(
            TypeError, match=rf"Local[MP] cannot use \w*{name}\w*, which depends on"
        ):
            build()


@pytest.mark.usefixtures("unchecked")
def test_bad_sizes_are_errors():
    with pytest.raises(ValueError, match="max_length must be at least 1, not 0"):
        Location(SIZE, 0)
    with pytest.raises(ValueError, match="query_size must be at least 1, not 0"):
        LocalP(Dot(), 2, 0)
    with pytest.raises(ValueError, match="hidden_size must be at least 1, not 0"):
        LocalP(Dot(), 2, SIZE, 0)
    for build in (lambda: LocalM(Dot(), 2.5), lambda: LocalP(Dot(), 2.5, SIZE)):
        with pytest.raises(TypeError, match=r"radius must be an integer, not 2\.5"):
            build()
    with pytest.raises(TypeError, match="query_size must be an integer, not '3'"):
        LocalP(Dot(), 2, "3")


@pytest.mark.usefixtures("unchecked")
def test_bad_positions_of_local_m_are_errors():
    attention = LocalM(Dot(), 2)
    query, source = sampled(queries=5, keys=4)
    with pytest.raises(ValueError, match=r"5 queries .* 4 keys: give their query_pos"):
        attention(query, source, source)
    with pytest.raises(TypeError, match=r"must hold integers, not torch\.float32"):
        attention(query, source, source, None, torch.arange(5.0))
    with pytest.raises(ValueError, match=r"query_position of shape \(4,\)"):
        attention(query, source, source, None, torch.arange(4))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("attention", [LocalM(Dot(), 2), LocalP(Dot(), 2, SIZE)])
def test_inputs_of_other_batches_or_lengths_are_errors(attention):
    attention, (query, source) = attention.double(), sampled(queries=3, keys=4)
    with pytest.raises(RuntimeError, match=r"length 3 .* to \[2\]"):
        attention(query, sampled(1, 4, batch=3)[1], source)
    with pytest.raises(ValueError, match="4 keys but 3 values"):
        attention(query, source, source[:, :3])
    with pytest.raises(ValueError, match="nothing to attend to"):
        attention(query[:, :0], source[:, :0], source[:, :0])


def test_a_mask_of_the_batch_that_would_fit_as_queries_is_an_error():
    for attention in (LocalM(Dot(), 2), LocalP(Dot(), 2, SIZE).double()):
        query, source = sampled(queries=2, keys=4)
        with pytest.raises(ValueError, match=r"write mask\[:, None\]"):
            attention(query, source, source, torch.ones(2, 4).bool())


# Parameters


def test_the_predictor_of_the_centre_need_not_be_square():
    attention = spread(LocalP(Dot(), 2, SIZE, hidden_size=5))
    assert attention.W_p.weight.shape == (5, SIZE)
    assert attention.v_p.shape == (5,)
    query, _ = sampled(queries=4, keys=9)
    expected = luong_2015.predicted_centre(
        scalars.values(attention), query[0, 1].tolist(), 9
    )
    close(attention.centre(query, 9)[0, 1], expected)


def test_reset_initialises_v_p_again_and_within_its_bound():
    attention = LocalP(Dot(), 2, SIZE, hidden_size=400)
    before = attention.v_p.detach().clone()
    attention.reset_parameters()
    assert not torch.equal(attention.v_p, before)
    assert 0.9 / 20 < attention.v_p.abs().max() <= 1 / 20


@pytest.mark.parametrize(
    "attention", [Location(SIZE, 9), LocalM(Dot(), 2), LocalP(Dot(), 2, SIZE)]
)
def test_saved_and_loaded_it_is_the_same(attention):
    file = io.BytesIO()
    torch.save(attention, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    query, source = (x.float() for x in sampled(queries=4, keys=9))
    assert torch.equal(loaded(query, source, source), attention(query, source, source))


@pytest.mark.parametrize("attention", [LocalM(Dot(), 2), LocalP(Dot(), 2, 3)])
@pytest.mark.usefixtures("unchecked")
def test_one_query_attends_to_every_source_of_a_batch(attention):
    attention, query, key = (
        attention.double(),
        torch.randn(1, 5, 3).double(),
        torch.randn(2, 7, 3).double(),
    )
    expected = attention(query.expand(2, -1, -1), key, key)
    close(attention(query, key, key), expected)
    close(attention.weights(query, key) @ key, expected)
    mask = torch.arange(7) < torch.tensor([[[7]], [[4]]])
    close(
        attention(query, key, key, mask),
        attention(query.expand(2, -1, -1), key, key, mask),
    )


def test_in_16_bits_centres_are_still_computed_in_32():
    torch.manual_seed(0)
    attention, query = LocalP(Dot(), 2, 64), torch.randn(1, 4000, 64)
    with torch.autocast("cpu", torch.bfloat16):
        centres = attention.centre(query, 2000)
    assert centres.dtype == torch.float32
    assert len(centres.unique()) > 3900


@pytest.mark.parametrize("attention", [LocalM(Dot(), 2), LocalP(Dot(), 2, 4)])
def test_attend_reads_no_value_outside_the_window(attention):
    query, key, value = (torch.randn(1, n, 4) for n in (1, 50, 50))
    position = torch.tensor([25])
    weights = attention.weights(query, key, None, position)
    window = weights[0, 0].nonzero().flatten()
    value[0, : window[0] - 1] = value[0, window[-1] + 2 :] = torch.nan
    context, again = attention.attend(query, key, value, None, position)
    assert context.isfinite().all()
    assert torch.equal(again, weights)
