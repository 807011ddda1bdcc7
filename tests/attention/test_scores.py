import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from companion.attention import (
    MLP,
    Additive,
    Bilinear,
    Concat,
    Cosine,
    Dot,
    HiddenDot,
    ScaledDot,
    record_weights,
)
from tests.reference import (
    graves_2014,
    luong_2015,
    pavlopoulos_2017,
    scalars,
    vaswani_2017,
    yang_2016,
)
from tests.tiny import close, spread

SCORES = {
    "dot": (Dot, luong_2015.dot_score, 3),
    "scaled dot": (ScaledDot, vaswani_2017.scaled_dot_score, 3),
    "cosine": (Cosine, graves_2014.cosine_score, 3),
    "bilinear": (lambda: Bilinear(3, 5), luong_2015.bilinear_score, 5),
    "concat": (lambda: Concat(3, 5, 7), luong_2015.concat_score, 5),
    "hidden dot": (lambda: HiddenDot(3), yang_2016.hidden_dot_score, 3),
    "hidden dot of two sizes": (
        lambda: HiddenDot(5, query_size=3),
        yang_2016.hidden_dot_score,
        5,
    ),
    "mlp of one layer": (lambda: MLP(3, 5, 7, layers=1), pavlopoulos_2017.mlp_score, 5),
    "mlp": (lambda: MLP(3, 5, 7), pavlopoulos_2017.mlp_score, 5),
    "mlp of four layers": (
        lambda: MLP(3, 5, 7, layers=4),
        pavlopoulos_2017.mlp_score,
        5,
    ),
}


def normal(*shape, dtype=torch.float64):
    return torch.randn(
        shape, dtype=dtype, generator=torch.Generator().manual_seed(sum(shape))
    )


@pytest.mark.parametrize(("build", "formula", "size"), SCORES.values(), ids=SCORES)
def test_scores_are_the_formula(build, formula, size):
    attention = spread(build())
    query, source = normal(2, 4, 3), normal(2, 6, size)
    scores = attention.score(query, attention.project(source)[0])
    parameters = scalars.values(attention)
    for b in range(2):
        close(
            scores[b],
            [
                [formula(parameters, q, s) for s in source[b].tolist()]
                for q in query[b].tolist()
            ],
        )


@pytest.mark.parametrize(("build", "formula", "size"), SCORES.values(), ids=SCORES)
def test_the_context_is_the_average_under_the_softmax_of_the_formula(
    build, formula, size
):
    attention = spread(build())
    query, source, mask = normal(1, 4, 3), normal(1, 6, size), normal(1, 4, 6) > 0
    mask[0, 1] = False
    found = attention(query, *attention.project(source), mask)
    parameters, keys = scalars.values(attention), source[0].tolist()
    for i, q in enumerate(query[0].tolist()):
        weights = scalars.softmax(
            [formula(parameters, q, k) for k in keys], mask[0, i].tolist()
        )
        close(found[0, i], scalars.context(weights, keys))


def test_concat_is_additive_with_its_two_matrices_concatenated():
    concat, additive = spread(Concat(3, 5, 7)), Additive(3, 5, 7).double()
    additive.W.weight.data, additive.U.weight.data = concat.W.weight.data.split(
        [3, 5], 1
    )
    additive.v.data = concat.v.data
    query, source = normal(2, 4, 3), normal(2, 6, 5)
    close(
        concat(query, *concat.project(source)),
        additive(query, *additive.project(source)),
    )


@pytest.mark.parametrize(
    "build", [lambda: Bilinear(3, 5), lambda: Concat(3, 5, 7), lambda: MLP(3, 5, 7)]
)
def test_the_source_is_projected_once_for_all_queries(build):
    attention = spread(build())
    query, source = normal(2, 4, 3), normal(2, 6, 5)
    key, value = attention.project(source)
    assert value is source
    source.fill_(torch.nan)  # from here on only the key is used
    assert attention.score(query, key).isfinite().all()


def test_the_variance_of_the_dot_product_grows_with_d_and_scaled_it_does_not():
    for d in (4, 64, 1024):
        query, key = torch.randn(2000, d), torch.randn(2000, d)
        assert Dot().score(query, key).var().item() == pytest.approx(d, rel=0.15)
        assert ScaledDot().score(query, key).var().item() == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16]
)
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
@pytest.mark.parametrize("shape", [None, (4, 6), (6,), (4, 1), (1, 6)])
def test_the_fused_scaled_dot_is_the_definition(dtype, batch, shape):
    query, key, value = (
        normal(*batch, *x, dtype=dtype).requires_grad_()
        for x in ((4, 3), (6, 3), (6, 5))
    )
    mask = None if shape is None else normal(*shape) > 0
    if shape in [(4, 6), (4, 1)]:
        mask[0] = False
    attention = ScaledDot()
    found, defined = (
        attention(query, key, value, mask),
        attention.weights(query, key, mask) @ value,
    )
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-2}.get(
        dtype, 6e-2
    )
    assert found.dtype == dtype
    torch.testing.assert_close(found, defined, atol=tolerance, rtol=tolerance)
    inputs = (query, key, value)
    gradients = [
        torch.autograd.grad(x.square().sum(), inputs) for x in (found, defined)
    ]
    torch.testing.assert_close(*gradients, atol=tolerance, rtol=tolerance)
    if shape in [(4, 6), (4, 1)]:
        assert torch.equal(found[..., 0, :], torch.zeros_like(found[..., 0, :]))


def test_the_fused_scaled_dot_computes_no_weights_unless_recorded(monkeypatch):
    attention, query, key = ScaledDot(), normal(4, 3), normal(6, 3)
    expected = attention(query, key, key)
    with record_weights(attention) as maps:
        close(attention(query, key, key), expected)
    close(maps[""][0], attention.weights(query, key))
    monkeypatch.setattr(attention, "weights", None)
    close(attention(query, key, key), expected)


@pytest.mark.parametrize("batch", [(), (3,), (3, 2)])
@pytest.mark.parametrize("mask", [None, (64,), (1, 64), (64, 64)])
def test_the_fused_scaled_dot_saves_no_tensor_of_the_scores_size(batch, mask):
    query, key, value = (normal(*batch, 64, 8).requires_grad_() for _ in range(3))
    mask = None if mask is None else normal(*mask) > 0
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: saved.append(x) or x, lambda x: x
    ):
        ScaledDot()(query, key, value, mask)
    own = 0 if mask is None else mask.numel()
    assert saved
    assert max(x.untyped_storage().nbytes() / x.itemsize for x in saved) <= max(
        query.numel(), own
    )


@pytest.mark.parametrize("attention", [Dot(), ScaledDot(), Cosine()])
@pytest.mark.parametrize("query", [(1, 4, 3), (4, 3)])
@pytest.mark.usefixtures("unchecked")
def test_one_query_broadcasts_to_every_source(attention, query):
    query, key, mask = normal(*query), normal(2, 6, 3), normal(2, 1, 6) > -1
    expected = [
        attention(query.reshape(4, 3), key[b], key[b], mask[b]) for b in range(2)
    ]
    close(attention(query, key, key, mask), torch.stack(expected))


@pytest.mark.parametrize("precision", ["float16", "bfloat16", "autocast"])
@pytest.mark.parametrize(
    "attention",
    [Dot(), ScaledDot(), Cosine(90.0), Bilinear(16, 16), Additive(16, 16, 16)],
    ids=lambda attention: type(attention).__name__,
)
def test_scores_with_a_standard_deviation_of_30_are_not_rounded(attention, precision):
    """In bfloat16, a score of 100 would be rounded to a multiple of 1/2."""
    dtype = torch.bfloat16 if precision == "autocast" else getattr(torch, precision)
    query, key = (normal(2, n, 16, dtype=dtype) for n in (50, 60))
    attention = copy.deepcopy(attention).double()
    if isinstance(attention, Additive):
        attention.W = nn.Identity()
        attention.v.data = (10 * normal(16, dtype=dtype)).double()
    else:
        scores = attention.score(query.double(), key.double())
        query = query * (1 if isinstance(attention, Cosine) else 30 / scores.std())
    query = query.to(dtype)
    expected = attention.weights(query.double(), key.double())
    attention = attention.to(torch.float32 if precision == "autocast" else dtype)
    with torch.autocast("cpu", torch.bfloat16, enabled=precision == "autocast"):
        found = attention.weights(query, key)
    assert found.dtype == dtype
    half_unit = torch.finfo(dtype).eps / 2
    torch.testing.assert_close(found.double(), expected, atol=1e-4, rtol=half_unit)


@pytest.mark.parametrize("size", [0.3, 30.0, 100.0])
def test_in_float16_weights_are_those_of_the_fused_kernel(size):
    x, value = (normal(1, 9, n, dtype=torch.float16) for n in (128, 5))
    attention, x = ScaledDot(), size * x
    fused = attention(x, x, value)
    context, weights = attention.attend(x, x, value)
    with record_weights(attention) as maps:
        recorded = attention(x, x, value)
    assert torch.equal(maps[""][0], weights)
    for found in (context, recorded):
        torch.testing.assert_close(found, fused, atol=4e-3, rtol=4e-3)


@given(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3))
def test_cosine_does_not_depend_on_norms(a, b):
    query, key = normal(4, 3), normal(6, 3)
    close(Cosine().score(a * query, b * key), Cosine().score(query, key))


@pytest.mark.parametrize(
    "transform", [lambda f: f, torch.func.vmap], ids=["plain", "vmap"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_cosine_of_norms_whose_squares_over_or_underflow(dtype, transform):
    largest = 3e4 if dtype == torch.float16 else 1e38
    sizes = torch.tensor([largest, 1 / largest, 1e-25, 1.0, 0.0])[:, None].to(dtype)
    ones = torch.ones(1, 5, 4, dtype=dtype)
    query = (ones * sizes).requires_grad_()
    scores = transform(Cosine(2.0).score)(query, ones)
    nonzero = (sizes != 0).float()
    torch.testing.assert_close(scores[0], 2 * nonzero.expand(5, 5))
    (gradient,) = torch.autograd.grad(scores.sum(), query)
    assert gradient.isfinite().all()


def test_cosine_of_usual_norms_is_the_quotient_bit_by_bit():
    for dtype in (torch.float32, torch.float64):
        query, key = normal(2, 9, 7, dtype=dtype), normal(2, 8, 7, dtype=dtype)
        query[0, 0] *= 1e-30  # the others are unchanged by it
        units = [x / x.norm(dim=-1, keepdim=True) for x in (query, key)]
        found = Cosine().score(query, key)
        assert torch.equal(found[:, 1:], (units[0] @ units[1].mT)[:, 1:])


def test_cosine_of_parallel_opposite_and_orthogonal_vectors():
    key = torch.tensor([[6.0, 8.0], [-3.0, -4.0], [4.0, -3.0]])
    found = Cosine(strength=5.0).score(torch.tensor([[3.0, 4.0]]), key)
    torch.testing.assert_close(found, torch.tensor([[5.0, -5.0, 0.0]]))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16]
)
def test_cosine_is_safe_at_zero_vectors(dtype):
    query, key = normal(4, 3, dtype=dtype), normal(6, 3, dtype=dtype)
    query[1], key[2] = 0, 0
    query.requires_grad_()
    key.requires_grad_()
    scores = Cosine().score(query, key)
    assert scores.isfinite().all()
    assert not scores[1].any()
    assert not scores[:, 2].any()
    scores.sum().backward()
    for x, zero in ((query, 1), (key, 2)):
        assert x.grad.isfinite().all()
        assert not x.grad[zero].any()
        assert x.grad.any(-1).sum() == len(x) - 1


@pytest.mark.parametrize("strength", [0.0, -1.0, float("nan"), float("inf")])
def test_a_strength_that_is_not_finite_and_above_zero_is_an_error(strength):
    with pytest.raises(
        ValueError, match=f"strength must be finite and above 0, not {strength}"
    ):
        Cosine(strength)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("strength", ["3", None])
def test_a_strength_that_is_not_a_number_is_an_error(strength):
    with pytest.raises(TypeError, match="not supported between instances"):
        Cosine(strength)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("attention", [Dot(), ScaledDot(), Cosine()])
def test_query_and_key_of_different_size_are_an_error(attention):
    query, key = normal(4, 3), normal(6, 5)
    for call in (attention.score, attention.weights, lambda q, k: attention(q, k, k)):
        with pytest.raises((ValueError, RuntimeError), match=r"3.*5"):
            call(query, key)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Bilinear(0, 5), "query_size must be at least 1, not 0"),
        (lambda: Bilinear(3, -1), "key_size must be at least 1, not -1"),
        (lambda: Concat(3, 5, 0), "size must be at least 1, not 0"),
        (lambda: MLP(3, 0, 7), "key_size must be at least 1, not 0"),
        (lambda: MLP(3, 5, 7, layers=0), "layers must be at least 1, not 0"),
        (lambda: HiddenDot(0), "size must be at least 1, not 0"),
        (lambda: HiddenDot(3, 0), "query_size must be at least 1, not 0"),
    ],
)
def test_sizes_below_one_are_an_error(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "build", [lambda: Bilinear(3, 5), lambda: Concat(3, 5, 7), lambda: MLP(3, 5, 7)]
)
def test_a_key_that_was_not_projected_is_an_error(build):
    with pytest.raises((ValueError, RuntimeError), match=r"[37].*5"):
        build().score(torch.randn(4, 3), torch.randn(6, 5))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["3", None, 2.5, True])
@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda size: Bilinear(size, 5), "query_size"),
        (lambda size: Bilinear(3, size), "key_size"),
        (lambda size: Concat(3, 5, size), "size"),
        (lambda size: MLP(3, 5, 7, layers=size), "layers"),
        (lambda size: HiddenDot(size), "size"),
    ],
)
def test_sizes_that_are_not_integers_are_an_error(build, name, size):
    with pytest.raises(TypeError, match=f"{name} must be an integer, not {size!r}"):
        build(size)


def test_a_hidden_dot_of_two_sizes_refuses_a_query_of_the_sources_size():
    attention = HiddenDot(5, query_size=3)
    key, _ = attention.project(torch.randn(6, 5))
    with pytest.raises(RuntimeError, match="4x5 and 3x6"):
        attention.score(torch.randn(4, 5), key)


BUILDS = {
    "concat": (lambda: Concat(3, 5, 7), lambda: nn.Linear(8, 7, bias=False)),
    "mlp": (
        lambda: MLP(3, 5, 7, layers=2),
        lambda: (nn.Linear(3, 7), nn.Linear(5, 7, bias=False), nn.Linear(7, 7)),
    ),
}


@pytest.mark.parametrize(("build", "layers"), BUILDS.values(), ids=BUILDS)
def test_v_is_initialised_last_and_can_be_reset_alone(build, layers):
    torch.manual_seed(0)
    attention = build()
    torch.manual_seed(0)
    layers()
    expected = torch.empty(7).uniform_(-(7**-0.5), 7**-0.5)
    assert torch.equal(attention.v, expected)
    before = attention.W.weight.clone()
    attention.reset_parameters()
    assert not torch.equal(attention.v, expected)
    assert torch.equal(attention.W.weight, before)
