import re
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from companion.attention import (
    MLP,
    Additive,
    AlignedQuestionAttention,
    Bilinear,
    CausalAttention,
    Concat,
    DenseSynthesizer,
    Dot,
    FactorizedDense,
    FactorizedRandom,
    FixedRandom,
    GumbelSoftmax,
    HiddenDot,
    LocalM,
    LocalP,
    Location,
    LocationSensitive,
    Mixture,
    MultiHeadAttention,
    QueryKeyNorm,
    RandomSynthesizer,
    Rotary,
    ScaledDot,
    SelfAttention,
    SmoothLocationSensitive,
    record_weights,
)
from companion.models import CausalTransformerLayer, TransformerDecoderLayer
from tests.contracts import test_attention as test_contract
from tests.reference import scalars, vaswani_2017
from tests.tiny import close, doubles, spread

QUERIES, KEYS = 5, 7
SIZE, HEADS, SOURCE = 12, 3, 13
HEAD = SIZE // HEADS
#: Built for one head: those that know sizes with those of a head, the others as for the contract.
INSIDE = {name: row.build for name, row in test_contract.MECHANISMS.items()} | {
    "additive": lambda: Additive(HEAD, HEAD, 5),
    "gumbel": lambda: GumbelSoftmax(Additive(HEAD, HEAD, 5)).eval(),
    "location": lambda: LocationSensitive(HEAD, HEAD, 5, channels=2, width=3),
    "smooth location": lambda: SmoothLocationSensitive(
        HEAD, HEAD, 5, channels=2, width=3
    ),
    "bilinear": lambda: Bilinear(HEAD, HEAD),
    "concat": lambda: Concat(HEAD, HEAD, 5),
    "hidden dot": lambda: HiddenDot(HEAD),
    "hidden dot of two sizes": lambda: HiddenDot(HEAD, query_size=HEAD),
    "mlp": lambda: MLP(HEAD, HEAD, 5, layers=3),
    "aligned": lambda: AlignedQuestionAttention(HEAD, 5),
    "dense": lambda: DenseSynthesizer(HEAD, KEYS),
    "factorized dense": lambda: FactorizedDense(HEAD, 2, 4),
    "random": lambda: RandomSynthesizer(KEYS),
    "fixed random": lambda: FixedRandom(KEYS),
    "factorized random": lambda: FactorizedRandom(KEYS, 2),
    "mixture": lambda: Mixture(
        ScaledDot(), DenseSynthesizer(HEAD, KEYS), RandomSynthesizer(KEYS)
    ),
    "luong location": lambda: Location(HEAD, KEYS),
    "local-m": lambda: LocalM(Bilinear(HEAD, HEAD), 2),
    "local-p": lambda: LocalP(Bilinear(HEAD, HEAD), 2, HEAD),
    "yarn": lambda: Rotary(ScaledDot(), frequencies=[1.0, 0.03]),
    "query-key norm": lambda: QueryKeyNorm(HEAD, ScaledDot()),
    "query-key norm, rotary": lambda: QueryKeyNorm(HEAD, Rotary(ScaledDot())),
}


def build(attention=None, **sizes):
    sizes = {"d_model": SIZE, "heads": HEADS, "source_size": SOURCE} | sizes
    return spread(MultiHeadAttention(attention=attention, **sizes))


def inputs(batch=(2,), source_size=SOURCE):
    torch.manual_seed(1)
    kind = {"dtype": torch.float64}
    return torch.randn(*batch, QUERIES, SIZE, **kind), torch.randn(
        *batch, KEYS, source_size, **kind
    )


def some_mask(batch=(2,)):
    """Each query may attend to some keys, and the very first to none."""
    mask = torch.rand(*batch, QUERIES, KEYS) < 0.6
    mask[..., 1] = True
    mask[(0,) * len(batch)][0] = False
    return mask


def call(attend, query, source, mask=None):
    return attend(query, *attend.project(source), mask)


# The paper's equations
@given(
    heads=st.integers(1, 4),
    size=st.integers(1, 3),
    keys=st.integers(1, 5),
    seed=st.integers(0, 9),
)
def test_output_equals_the_papers_equations(heads, size, keys, seed):
    torch.manual_seed(seed)
    attend = build(d_model=heads * size, heads=heads, source_size=2)
    query, source = torch.randn(3, heads * size).double(), torch.randn(keys, 2).double()
    mask = torch.rand(3, keys) < 0.7
    expected = vaswani_2017.multi_head(
        scalars.values(attend), query.tolist(), source.tolist(), heads, mask.tolist()
    )
    close(call(attend, query, source, mask), expected)


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_any_attention_inside_equals_a_loop_over_heads(name, batch):
    attend = build(INSIDE[name]())
    query, source = inputs(batch)
    mask = some_mask(batch)
    contexts, weights = [], []
    for head in range(HEADS):
        own = slice(head * HEAD, (head + 1) * HEAD)
        gated = HEAD + attend.attention.gates
        keys = attend.W_K(source)[..., head * gated : (head + 1) * gated]
        key, _ = attend.attention.project(keys)
        weights.append(attend.attention.weights(attend.W_Q(query)[..., own], key, mask))
        contexts.append(weights[-1] @ attend.W_V(source)[..., own])
    expected = attend.W_O(torch.cat(contexts, -1))
    close(call(attend, query, source, mask), expected)
    close(
        attend.weights(query, attend.project(source)[0], mask), torch.stack(weights, -3)
    )
    with record_weights(attend) as maps:
        close(call(attend, query, source, mask), expected)
    (found,) = maps["attention"]
    close(found, torch.stack(weights, -3))


# Equal to PyTorch's


def pairs(ours, other):
    """Each of our parameters, PyTorch's, which may be part of a packed one, and its gradient."""
    projections = (ours.W_Q, ours.W_K, ours.W_V)
    if other.in_proj_weight is None:
        weights = [
            (p, p.grad)
            for p in (other.q_proj_weight, other.k_proj_weight, other.v_proj_weight)
        ]
    else:
        weights = list(
            zip(
                other.in_proj_weight.chunk(3),
                other.in_proj_weight.grad.chunk(3),
                strict=True,
            )
        )
    found = [
        (linear.weight, *both)
        for linear, both in zip(projections, weights, strict=True)
    ]
    found.append((ours.W_O.weight, other.out_proj.weight, other.out_proj.weight.grad))
    if other.in_proj_bias is not None:
        biases = zip(
            other.in_proj_bias.chunk(3), other.in_proj_bias.grad.chunk(3), strict=True
        )
        found += [
            (linear.bias, *both)
            for linear, both in zip(projections, biases, strict=True)
        ]
        found.append((ours.W_O.bias, other.out_proj.bias, other.out_proj.bias.grad))
    return found


@pytest.mark.parametrize("source_size", ["self", SIZE, SOURCE])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_output_weights_and_gradients_equal_pytorchs(source_size, bias, padded, masked):
    query, source = inputs((2,), SIZE if source_size == "self" else source_size)
    source = query if source_size == "self" else source
    kinds = {} if source_size == "self" else {"kdim": source_size, "vdim": source_size}
    other = spread(
        nn.MultiheadAttention(SIZE, HEADS, bias=bias, batch_first=True, **kinds)
    )
    ours = MultiHeadAttention.from_torch(other)
    keys = source.shape[1]
    padding = (
        torch.arange(keys) < torch.tensor([[keys], [keys - 2]]) if padded else None
    )
    allowed = torch.rand(QUERIES, keys) < 0.6 if masked else None
    if masked:
        allowed[:, 0] = True  # PyTorch's gives NaN where everything is masked
    mask = None
    for part in (padding[:, None] if padded else None, allowed):
        if part is not None:
            mask = part if mask is None else mask & part
    mine, theirs = [
        [
            x.clone().requires_grad_()
            for x in ([query] if source_size == "self" else [query, source])
        ]
        for _ in range(2)
    ]
    found = call(ours, mine[0], mine[-1], mask)
    expected, weights = other(
        theirs[0],
        theirs[-1],
        theirs[-1],
        key_padding_mask=None if padding is None else ~padding,
        attn_mask=None if allowed is None else ~allowed,
        average_attn_weights=False,
    )
    close(found, expected)
    close(ours.weights(query, ours.project(source)[0], mask), weights)
    found.square().sum().backward()
    expected.square().sum().backward()
    for parameter, value, gradient in pairs(ours, other):
        assert torch.equal(parameter, value)
        close(parameter.grad, gradient)
    for x, y in zip(mine, theirs, strict=True):
        close(x.grad, y.grad)


@pytest.mark.parametrize("source_size", [SIZE, SOURCE])
def test_conversion_to_pytorch_and_back_keeps_all_weights(source_size):
    ours = build(source_size=source_size)
    other = ours.to_torch()
    query, source = inputs((2,), source_size)
    close(other(query, source, source)[0], call(ours, query, source))
    back = MultiHeadAttention.from_torch(other).state_dict()
    assert back.keys() == ours.state_dict().keys()
    for name, value in ours.state_dict().items():
        assert torch.equal(value, back[name])
    ours.W_Q.weight.data.zero_()  # must not change PyTorch's module, a copy
    assert (MultiHeadAttention.from_torch(other).W_Q.weight != 0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kdim": 7, "vdim": 5}, "one size, not 7 and 5"),
        ({"add_bias_kv": True}, "add_bias_kv is True, add_zero_attn is False"),
        ({"add_zero_attn": True}, "add_bias_kv is False, add_zero_attn is True"),
        ({"batch_first": False}, "sequence-first, and ours has the batch first"),
    ],
)
def test_options_of_pytorchs_that_ours_lacks_are_errors(options, message):
    options = {"batch_first": True} | options
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(SIZE, HEADS, **options))


@pytest.mark.parametrize("kind", [MultiHeadAttention, SelfAttention])
@pytest.mark.parametrize("training", [True, False])
def test_conversion_keeps_options_and_takes_another_attention(kind, training):
    other = nn.MultiheadAttention(SIZE, HEADS, 0.2, bias=False, batch_first=True)
    ours = kind.from_torch(other.train(training), CausalAttention())
    assert type(ours) is kind
    assert type(ours.attention) is CausalAttention
    for back in (ours, ours.to_torch()):
        assert [name for name, _ in back.named_parameters() if "bias" in name] == []
        assert back.training is training
    assert ours.attention.dropout == ours.to_torch().dropout == 0.2
    assert kind(SIZE, HEADS).to_torch().dropout == 0


def test_to_torch_refuses_another_scale():
    with pytest.raises(ValueError, match=r"the scale 1/√d, not 0\.1"):
        MultiHeadAttention(SIZE, HEADS, scale=0.1).to_torch()


@pytest.mark.parametrize("name", ["dot", "additive", "local", "atrous", "sparse"])
def test_to_torch_refuses_other_attentions(name):
    with pytest.raises(
        TypeError, match=f"needs ScaledDot, not {type(INSIDE[name]()).__name__}"
    ):
        build(INSIDE[name]()).to_torch()


# Self-attention


@pytest.mark.parametrize("groups", [None, 1])
@pytest.mark.parametrize("name", ["scaled dot", "local", "rotary", "linear"])
def test_self_attention_is_multi_head_attention_of_one_sequence(name, groups):
    options = {"bias": False, "key_value_heads": groups}
    ours = spread(SelfAttention(SIZE, HEADS, INSIDE[name](), **options))
    other = spread(MultiHeadAttention(SIZE, HEADS, INSIDE[name](), **options))
    x, mask = inputs()[0], some_mask()[..., :QUERIES]
    close(ours(x), call(other, x, x))
    close(ours(x, mask), call(other, x, x, mask))
    close(ours(x, mask=mask[:, :1]), call(other, x, x, mask[:, :1]))
    assert ours.state_dict().keys() == {f"W_{x}.weight" for x in "QKVO"}


def test_causal_self_attention_decodes():
    attend, x = spread(SelfAttention(SIZE, HEADS, CausalAttention())), inputs()[0]
    first, state = attend.extend(x[:, :3], attend.start(x))
    second, state = attend.extend(x[:, 3:], state)
    close(torch.cat([first, second], 1), attend(x))
    moved = x.clone()
    moved[:, 3:] += 1
    assert torch.equal(attend(moved)[:, :3], attend(x)[:, :3])


# Scale and dropout


@pytest.mark.parametrize("scale", [0.3, 1.0])
def test_the_scale_replaces_that_of_the_dot_products(scale):
    attend, plain, (query, source) = build(scale=scale), build(), inputs()
    plain.W_Q.weight.data *= scale * HEAD**0.5
    plain.W_Q.bias.data *= scale * HEAD**0.5
    close(call(attend, query, source), call(plain, query, source))
    key, _ = attend.project(source)
    close(attend.weights(query, key), plain.weights(query, key))
    x = inputs()[0]
    attend = SelfAttention(SIZE, HEADS, CausalAttention(scale), bias=False).double()
    steps, state = [], attend.start(x)
    for n in range(QUERIES):
        step, state = attend.extend(x[:, n : n + 1], state)
        steps.append(step)
    close(torch.cat(steps, 1), attend(x))
    with record_weights(attend):
        close(attend(x), torch.cat(steps, 1))
    with pytest.raises(ValueError, match="give the scale to the attention"):
        MultiHeadAttention(SIZE, HEADS, ScaledDot(), scale=scale)


WITHOUT_DROPOUT = {"linear", "linear, relu", "decay", "delta"}
WITHOUT_DROPOUT |= {"gated decay", "gated delta"}
RANDOM = {"gumbel"}  # in training, even without dropout


@pytest.mark.parametrize(
    "name", [*sorted(set(INSIDE) - WITHOUT_DROPOUT - RANDOM), "causal"]
)
def test_dropout_drops_weights_of_any_attention_in_training_alone(name):
    """A value of 1 at one position makes each output a weight: 0, or twice what it was."""
    torch.manual_seed(0)
    inside = CausalAttention() if name == "causal" else INSIDE[name]()
    attend = spread(MultiHeadAttention(SIZE, HEADS, inside, dropout=0.5))
    keys = QUERIES if name == "causal" else KEYS
    query = doubles(200, QUERIES, SIZE)
    key, _ = attend.project(doubles(200, keys, SIZE, seed=1))
    queries = attend.W_Q(query).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    value = torch.eye(keys).double().expand(200, HEADS, keys, keys)
    expected = attend.eval().attention(queries, key, value)
    attend.train()
    for found in (
        attend.attention(queries, key, value),
        attend.attention.weights(queries, key),
        attend.attention.attend(queries, key, value)[0],
    ):
        close(found[found != 0], 2 * expected[found != 0])
        dropped = (found == 0) & (expected.abs() > 1e-12)
        share = dropped.sum() / (expected.abs() > 1e-12).sum()
        assert 0.45 < share < 0.55
    with record_weights(attend) as maps:
        context = attend.attention(queries, key, value)
    close(context, maps["attention"][0])
    close(attend.eval().attention(queries, key, value), expected)


@pytest.mark.parametrize("inside", [CausalAttention, lambda: Rotary(CausalAttention())])
def test_decoding_in_training_drops_weights_too(inside):
    attend, x = SelfAttention(SIZE, HEADS, inside(), dropout=0.9), torch.randn(2, 9, 12)
    found, _ = attend.extend(x, attend.start(x))
    assert not torch.allclose(found, attend.eval()(x))
    close(attend.extend(x, attend.start(x))[0].double(), attend(x).double())


@pytest.mark.parametrize("kind", [ScaledDot, CausalAttention])
def test_dropout_is_that_of_the_fused_kernel(kind):
    """Whose random numbers differ from those of the definition."""
    query = torch.randn(1, 2, 5, 8)
    attend = kind(dropout=0.5)
    torch.manual_seed(1)
    found = attend(query, query, query)
    torch.manual_seed(1)
    expected = nn.functional.scaled_dot_product_attention(
        query, query, query, dropout_p=0.5, is_causal=kind is CausalAttention
    )
    assert torch.equal(found, expected)


def test_dropout_leaves_the_initialisation_and_zero_leaves_the_random_numbers():
    plain, other = build(), build(dropout=0.0, attention=ScaledDot(dropout=0.3))
    assert other.attention.dropout == 0
    assert [p.shape for p in plain.parameters()] == [
        p.shape for p in other.parameters()
    ]
    torch.manual_seed(0)
    call(other.train(), *inputs())
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    inputs()
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.parametrize("name", sorted(WITHOUT_DROPOUT))
def test_an_attention_without_weights_refuses_dropout(name):
    with pytest.raises(TypeError, match="no weights that could be dropped"):
        MultiHeadAttention(SIZE, HEADS, INSIDE[name](), dropout=0.1)
    MultiHeadAttention(SIZE, HEADS, INSIDE[name](), dropout=0.0)


@pytest.mark.parametrize("dropout", [-0.1, 1, float("nan")])
def test_impossible_dropouts_are_errors(dropout):
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1"):
        MultiHeadAttention(SIZE, HEADS, dropout=dropout)


@pytest.mark.parametrize("build", [lambda x: LocalM(x, 2), lambda x: GumbelSoftmax(x)])
def test_what_uses_scores_alone_refuses_an_attention_with_dropout(build):
    with pytest.raises(TypeError, match="weights that are not the softmax"):
        build(ScaledDot(dropout=0.1))


# Calls as PyTorch's


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("key_padding_mask", r"write mask=~key_padding_mask\[:, None\] \(True = may"),
        ("attn_mask", r"write mask=~attn_mask\[None\] \(True = may attend"),
        ("is_causal", r"use an attention that is causal, as CausalAttention\(\)"),
        ("need_weights", "attend and record_weights"),
    ],
)
@pytest.mark.parametrize("kind", ["attention", "multi-head", "self"])
def test_arguments_of_pytorchs_are_translated(kind, name, advice):
    x = torch.randn(1, 3, 4)
    call = {
        "attention": partial(ScaledDot(), x, x, x),
        "multi-head": partial(MultiHeadAttention(4, 2), x, *2 * [x[:, None]]),
        "self": partial(SelfAttention(4, 2), x),
    }[kind]
    with pytest.raises(TypeError, match=f"has no argument {name}: {advice}"):
        call(**{name: None})
    with pytest.raises(TypeError, match=r"has no argument colour$"):
        call(colour=1)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", [CausalAttention, ScaledDot])
@pytest.mark.parametrize(
    "build",
    [
        lambda x: MultiHeadAttention(8, 2, x),
        lambda x: Rotary(x),
        lambda x: CausalTransformerLayer(8, 2, 32, attention=x),
        lambda x: TransformerDecoderLayer(8, 2, 32, attention=x),
    ],
)
def test_a_class_where_an_attention_is_meant_is_an_error_that_shows_one(build, kind):
    message = rf"the class {kind.__name__}: write an instance, as {kind.__name__}\(\)"
    with pytest.raises(TypeError, match=message):
        build(kind)


def test_a_language_model_that_is_not_causal_names_the_attention_that_is():
    with pytest.raises(ValueError, match="not ScaledDot: use CausalAttention"):
        CausalTransformerLayer(8, 2, 32, attention=ScaledDot())


# The mask


@pytest.mark.parametrize("batch", [(2,), (4, 2)])
@pytest.mark.parametrize(
    "axes", ["k", "1k", "qk", "b1k", "b11", "1q1", "b1qk", "bhqk", "1hqk", "bh1k"]
)
def test_a_mask_broadcasts_over_batch_and_heads(batch, axes):
    """With one axis more than the queries, a mask has one for the heads."""
    attend, (query, source) = build(), inputs(batch)
    sizes = {"h": (HEADS,), "q": (QUERIES,), "k": (KEYS,), "1": (1,), "b": batch}
    shape = [n for axis in axes for n in sizes[axis]]
    if len(axes) > 2 and "b" not in axes:
        shape = [1] * (len(batch) - 1) + shape
    mask = torch.rand(shape) < 0.6
    per_head = len(shape) == len(batch) + 3
    full = mask if per_head or len(shape) < 3 else mask.unsqueeze(-3)
    full = full.expand(*batch, HEADS, QUERIES, KEYS)
    found = attend.weights(query, attend.project(source)[0], mask)
    assert torch.equal(found != 0, full)
    close(call(attend, query, source, mask), call(attend, query, source, full))


def test_a_source_mask_without_an_axis_for_queries_is_an_error():
    """Where the batch is as large as the number of queries, it would fit by chance."""
    attend, (query, source) = build(), inputs((QUERIES,))
    mask = torch.ones(QUERIES, KEYS, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"mask\[:, None\]"):
        call(attend, query, source, mask)
    call(attend, query, source, mask[:, None])


def test_query_positions_reach_the_attention_inside():
    attend, (query, source) = build(LocalM(Dot(), 1)), inputs()
    positions = torch.tensor([[0, 1, 2, 3, 4], [6, 5, 4, 3, 2]])
    key, value = attend.project(source)
    found = attend.weights(query, key, None, positions)
    for row, own in enumerate(positions):
        visible = (own[:, None] - torch.arange(KEYS)).abs() <= 1
        assert torch.equal(found[row] != 0, visible.expand(HEADS, QUERIES, KEYS))
        one, kv = query[[row]], (key[[row]], value[[row]])
        close(
            attend(query, key, value, None, positions)[[row]],
            attend(one, *kv, None, own),
        )


def test_masked_keys_have_no_influence_and_get_no_gradient():
    attend, (query, source) = build(), inputs()
    mask = torch.tensor([True, True, False, True, False, False, True])
    other = source.clone()
    other[:, ~mask] = 100 * torch.randn(2, 3, SOURCE).double()
    source.requires_grad_()
    output = call(attend, query, source, mask)
    assert torch.equal(output, call(attend, query, other, mask))
    output.square().sum().backward()
    assert torch.equal((source.grad != 0).any(-1), mask.expand(2, KEYS))


def test_output_is_the_bias_where_everything_is_masked():
    attend, (query, source) = build(), [x.requires_grad_() for x in inputs()]
    mask = torch.ones(2, QUERIES, KEYS).bool()
    mask[1] = False
    output = call(attend, query, source, mask)
    assert torch.equal(output[1], attend.W_O.bias.expand(QUERIES, -1))
    output.square().sum().backward()
    assert (query.grad[1] == 0).all()
    assert (source.grad[1] == 0).all()
    assert all(p.grad.isfinite().all() for p in attend.parameters())


@pytest.mark.parametrize(
    ("shape", "scores"),
    [
        ((), "2, 5, 7"),
        ((KEYS + 1,), "2, 5, 7"),
        ((QUERIES,), "2, 5, 7"),
        ((3, QUERIES, KEYS), "2, 5, 7"),
        ((2, HEADS + 1, QUERIES, KEYS), "2, 3, 5, 7"),
    ],
)
def test_a_mask_that_does_not_fit_is_an_error_with_the_numbers(shape, scores):
    attend, (query, source) = build(), inputs()
    message = re.escape(f"{shape} does not fit scores of shape ({scores})")
    with pytest.raises(ValueError, match=message):
        call(attend, query, source, torch.ones(shape, dtype=torch.bool))
    with pytest.raises(ValueError, match=message):
        attend.weights(
            query, attend.project(source)[0], torch.ones(shape, dtype=torch.bool)
        )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("attention", [None, INSIDE["additive"]()])
def test_a_mask_that_is_not_boolean_is_an_error(attention):
    with pytest.raises(
        TypeError, match=r"True = may attend, the opposite.*torch\.float64"
    ):
        call(build(attention), *inputs(), torch.zeros(QUERIES, KEYS).double())


# Sizes


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"heads": 5}, "d_model = 12 is not divisible by 5 heads"),
        ({"heads": 5, "d_k": 3}, "d_model = 12 is not divisible by 5 heads"),
        ({"heads": 0}, "heads must be at least 1, not 0"),
        ({"d_model": 0}, "d_model must be at least 1, not 0"),
        ({"source_size": 0}, "source_size must be at least 1, not 0"),
        ({"d_k": 0}, "d_k must be at least 1, not 0"),
        ({"d_v": 0}, "d_v must be at least 1, not 0"),
    ],
)
def test_bad_sizes_are_errors(sizes, message):
    with pytest.raises(ValueError, match=message):
        build(**sizes)


def test_inputs_of_another_size_than_announced_are_errors_with_the_numbers():
    attend, (query, source) = build(), inputs()
    with pytest.raises(RuntimeError, match="x13 and 12x"):
        call(attend, source, source)
    with pytest.raises(RuntimeError, match="x12 and 13x"):
        call(attend, query, query)
    with pytest.raises(ValueError, match="no key"):
        call(attend, query, source[:, :0])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("heads", "shape"), [(1, (1, 5, 12)), (3, (1, 5, 12)), (3, (1, 1, 5, 4))]
)
def test_keys_that_are_not_of_its_heads_are_errors_with_the_numbers(heads, shape):
    attend, (query, _) = build(heads=heads), inputs((1,))
    key = query.new_zeros(shape)  # two of the three would broadcast
    message = re.escape(
        f"shape {shape} do not fit {heads} heads and a query of shape (1, 5, 12): key and"
    )
    with pytest.raises(ValueError, match=message):
        attend(query, key, key)
    with pytest.raises(ValueError, match=message):
        attend.weights(query, key)


@pytest.mark.parametrize("sizes", [{"d_k": 2}, {"d_v": 5}, {"d_k": 2, "d_v": 5}])
def test_keys_and_values_may_have_sizes_of_their_own(sizes):
    attend, (query, source) = build(**sizes), inputs()
    d_k, d_v = sizes.get("d_k", HEAD), sizes.get("d_v", HEAD)
    key, value = attend.project(source)
    assert key.shape == (2, HEADS, KEYS, d_k)
    assert value.shape == (2, HEADS, KEYS, d_v)
    contexts = []
    for head in range(HEADS):
        q, k = (linear(x).unflatten(-1, (HEADS, d_k))[..., head, :]
                for linear, x in ((attend.W_Q, query), (attend.W_K, source)))  # fmt: skip
        v = attend.W_V(source).unflatten(-1, (HEADS, d_v))[..., head, :]
        contexts.append((q @ k.mT / d_k**0.5).softmax(-1) @ v)
    close(attend(query, key, value), attend.W_O(torch.cat(contexts, -1)))
    with pytest.raises(ValueError, match="to_torch needs heads whose keys, and values"):
        attend.to_torch()


def test_with_both_sizes_given_heads_need_not_divide_d_model():
    query, source = inputs()
    assert call(build(heads=5, d_k=2, d_v=3), query, source).shape == query.shape


def test_sizes_of_heads_leave_the_default_as_it_is():
    plain, given = build(), build(d_k=HEAD, d_v=HEAD)
    assert [(n, p.shape) for n, p in plain.named_parameters()] == [
        (n, p.shape) for n, p in given.named_parameters()
    ]


def test_initialisation_has_zero_biases_and_keeps_the_variance():
    torch.manual_seed(0)
    attend = MultiHeadAttention(512, 8)
    assert all(
        (p == 0).all() for name, p in attend.named_parameters() if name.endswith("bias")
    )
    key, value = attend.project(torch.randn(1, 64, 512))
    assert key.std().item() == pytest.approx(1, rel=0.1)
    assert value.std().item() == pytest.approx(1, rel=0.1)


# Devices


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16", "autocast"])
def test_every_device_and_precision(device, precision):
    torch.manual_seed(0)
    attend, (query, source), mask = (
        MultiHeadAttention(SIZE, HEADS, None, SOURCE).double(),
        inputs(),
        some_mask(),
    )
    expected = call(attend, query, source, mask).detach()
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    attend.to(device, dtype)
    with torch.autocast(device, torch.bfloat16, enabled=precision == "autocast"):
        found = call(
            attend, query.to(device, dtype), source.to(device, dtype), mask.to(device)
        )
    assert found.dtype == (torch.bfloat16 if precision == "autocast" else dtype)
    tolerance = {"float64": 1e-10, "float32": 1e-4}.get(precision, 5e-2)
    torch.testing.assert_close(
        found.double().cpu(), expected, atol=tolerance, rtol=tolerance
    )
    found.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in attend.parameters())


@pytest.mark.compiled
@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.usefixtures("unchecked")
def test_it_compiles_into_one_graph(device):
    torch.compiler.reset()
    caller = test_contract.Caller(build()).to(device)
    query, source, mask = (x.to(device) for x in (*inputs(), some_mask()))
    compiled = torch.compile(
        caller, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager"
    )
    torch.testing.assert_close(
        compiled(query, source, mask), caller(query, source, mask)
    )
