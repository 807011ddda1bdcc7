"""Our attentions in PyTorch's layers, and in models of ``transformers`` if it is installed."""

import copy
import sys

import pytest
import torch
from torch import nn

from companion.attention import (
    Additive,
    ALiBi,
    AtrousAttention,
    Causal,
    CausalAttention,
    Cosine,
    DeltaAttention,
    LocalAttention,
    MultiHeadAttention,
    PatternAttention,
    PerHead,
    ScaledDot,
    SlidingWindowAttention,
    masks,
)
from companion.interop import TorchMultiheadAttention, register
from tests.tiny import close, doubles, spread

SIZE, HEADS, QUERIES, KEYS = 12, 4, 5, 7
PADDING = torch.arange(KEYS) >= torch.tensor([[7], [4], [2]])  # True = masked
PAIRS = torch.arange(KEYS) > torch.arange(QUERIES)[:, None]


def additive(mask):
    return torch.zeros(mask.shape).double().masked_fill(mask, -torch.inf)


MASKS = {
    "none": {},
    "padding": {"key_padding_mask": PADDING},
    "pairs": {"attn_mask": PAIRS},
    "causal": {"attn_mask": PAIRS, "is_causal": True},
    "both": {"key_padding_mask": PADDING, "attn_mask": PAIRS},
    "added": {"key_padding_mask": additive(PADDING), "attn_mask": additive(PAIRS)},
    "of each head": {"attn_mask": PAIRS.repeat(3 * HEADS, 1, 1).roll(1, 0)},
}
OPTIONS = {
    "plain": {},
    "no bias": {"bias": False},
    "source": {"kdim": 9, "vdim": 9},
    "sequence-first": {"batch_first": False},
}
WANTED = [
    {"need_weights": False},
    {"need_weights": True},
    {"average_attn_weights": False},
]


def same(found, expected):
    (output, weights), (wanted, theirs) = found, expected
    close(output, wanted)
    assert (weights is None) == (theirs is None)
    if weights is not None:
        close(weights, theirs)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_it_equals_pytorchs(options, mask):
    other = spread(
        nn.MultiheadAttention(SIZE, HEADS, **{"batch_first": True} | options)
    )
    ours = TorchMultiheadAttention.from_torch(other)
    inputs = (
        doubles(3, QUERIES, SIZE),
        *(doubles(3, KEYS, other.kdim, seed=x) for x in (1, 2)),
    )
    if not other.batch_first:
        inputs = [x.transpose(0, 1) for x in inputs]
    for wanted in WANTED:
        call = MASKS[mask] | wanted
        same(ours(*inputs, **call), other(*inputs, **call))


@pytest.mark.parametrize("mask", [x for x in MASKS if x != "of each head"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_one_sequence_without_a_batch_equals_pytorchs(batch_first, mask):
    other = spread(nn.MultiheadAttention(SIZE, HEADS, batch_first=batch_first))
    ours = TorchMultiheadAttention.from_torch(other)
    inputs = doubles(QUERIES, SIZE), *(doubles(KEYS, SIZE, seed=x) for x in (1, 2))
    call = dict(MASKS[mask])
    if "key_padding_mask" in call:
        call["key_padding_mask"] = call["key_padding_mask"][1]
    for wanted in WANTED:
        same(ours(*inputs, **call, **wanted), other(*inputs, **call, **wanted))


def test_one_sequence_with_padding_in_a_layer_of_pytorchs():
    layer = spread(nn.TransformerEncoderLayer(SIZE, HEADS, batch_first=True)).eval()
    x, padding = doubles(KEYS, SIZE), PADDING[1]
    expected = layer(x, src_key_padding_mask=padding)
    layer.self_attn = TorchMultiheadAttention.from_torch(layer.self_attn)
    close(layer(x, src_key_padding_mask=padding), expected)


@pytest.mark.parametrize(
    "mask",
    [
        {"attn_mask": torch.zeros(HEADS, QUERIES, KEYS).bool()},  # read as of each head
        {"attn_mask": torch.zeros(2, 2, QUERIES, KEYS).bool()},
        {"key_padding_mask": torch.zeros(HEADS, 1, KEYS).bool()},
        {"attn_mask": torch.zeros(QUERIES, KEYS, dtype=torch.uint8)},
        {"key_padding_mask": torch.zeros(HEADS, KEYS, dtype=torch.long)},
    ],
)
def test_masks_that_pytorch_refuses_are_errors(mask):
    other = spread(nn.MultiheadAttention(SIZE, HEADS, batch_first=True))
    ours = TorchMultiheadAttention.from_torch(other)
    key = doubles(HEADS, KEYS, SIZE)
    inputs = doubles(HEADS, QUERIES, SIZE), key, key
    with pytest.raises((AssertionError, RuntimeError)):
        other(*inputs, **mask)
    with pytest.raises(
        (TypeError, ValueError), match=r"mask (needs the shape|must be boolean)"
    ):
        ours(*inputs, **mask)


def test_it_is_built_and_initialised_as_pytorchs():
    torch.manual_seed(0)
    other = nn.MultiheadAttention(SIZE, HEADS, 0.3, False, kdim=9, vdim=9)
    torch.manual_seed(0)
    ours = TorchMultiheadAttention(SIZE, HEADS, 0.3, False, kdim=9, vdim=9)
    x, source = torch.randn(QUERIES, 2, SIZE), torch.randn(KEYS, 2, 9)
    expected = other.eval()(x, source, source)[0]
    torch.testing.assert_close(ours.eval()(x, source, source)[0], expected)
    assert ours.inner.attention.dropout == 0.3
    assert not ours.batch_first
    with pytest.raises(ValueError, match="none may be added"):
        TorchMultiheadAttention(SIZE, HEADS, add_zero_attn=True)


def test_any_attention_may_be_inside():
    other = spread(nn.MultiheadAttention(SIZE, HEADS, batch_first=True))
    ours = TorchMultiheadAttention.from_torch(other, LocalAttention(1))
    x = doubles(3, QUERIES, SIZE)
    near = masks.dense(masks.local(1), QUERIES)
    close(ours(x, x, x)[0], other(x, x, x, attn_mask=~near)[0])
    causal = TorchMultiheadAttention.from_torch(other, CausalAttention())
    later = ~masks.dense(masks.causal(), QUERIES)
    close(causal(x, x, x, is_causal=True)[0], other(x, x, x, attn_mask=later)[0])


def test_a_query_without_keys_gets_the_bias():
    ours, x = spread(TorchMultiheadAttention(SIZE, HEADS)), doubles(QUERIES, SIZE)
    everything = torch.ones(QUERIES, QUERIES, dtype=torch.bool)
    output, weights = ours(x, x, x, attn_mask=everything)
    close(output, ours.out_proj.bias.expand(QUERIES, -1))
    assert (weights == 0).all()


@pytest.mark.parametrize("name", ["key_padding_mask", "attn_mask"])
def test_masks_that_add_other_numbers_are_errors(name):
    ours, x = spread(TorchMultiheadAttention(SIZE, HEADS)), doubles(QUERIES, 1, SIZE)
    mask = torch.zeros(1 if name == "key_padding_mask" else QUERIES, QUERIES)
    mask[0, 1] = -3
    with pytest.raises(ValueError, match=rf"rows \[0\] of {name} .* other than 0 and"):
        ours(x, x, x, **{name: mask})
    with pytest.raises(ValueError, match="is_causal needs the causal attn_mask"):
        ours(x, x, x, is_causal=True)


# In PyTorch's layers


def encoder(layers=2, **options):
    layer = nn.TransformerEncoderLayer(SIZE, HEADS, 9, 0.0, **options)
    return spread(nn.TransformerEncoder(layer, layers, enable_nested_tensor=False))


def replaced(model, attention=None):
    """A copy with our attention in all layers."""
    model = copy.deepcopy(model)
    for layer in model.layers:
        for name in ("self_attn", "multihead_attn"):
            if hasattr(layer, name):
                theirs = getattr(layer, name)
                inside = copy.deepcopy(attention)
                ours = TorchMultiheadAttention.from_torch(theirs, inside)
                setattr(layer, name, ours)
    return model


FAST = pytest.mark.parametrize("fast", [True, False])


@FAST
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("mask", ["none", "padding", "causal", "both"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_pytorchs_encoder_computes_the_same_with_ours(
    batch_first, mask, training, fast
):
    """In evaluation, without gradients, PyTorch's layers have a fused path."""
    theirs = encoder(batch_first=batch_first).train(training)
    ours, x = replaced(theirs), doubles(3, KEYS, SIZE)
    later = ~masks.dense(masks.causal(), KEYS)
    call = {
        "none": {},
        "padding": {"src_key_padding_mask": PADDING},
        "causal": {"mask": later, "is_causal": True},
        "both": {"mask": later, "src_key_padding_mask": PADDING},
    }[mask]
    x = x if batch_first else x.transpose(0, 1)
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with torch.set_grad_enabled(training):
            found, expected = ours(x, **call), theirs(x, **call)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    close(found, expected)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_pytorchs_encoder_may_pack_its_batch_where_all_layers_are_its_own():
    layer = nn.TransformerEncoderLayer(SIZE, HEADS, 9, 0.0, batch_first=True)
    theirs = spread(nn.TransformerEncoder(layer, 2)).eval()
    ours, x = replaced(theirs), doubles(3, KEYS, SIZE)
    with torch.no_grad():
        expected = theirs(x, src_key_padding_mask=PADDING)
        found = ours(x, src_key_padding_mask=PADDING)
        close(found[~PADDING], expected[~PADDING])
        theirs.layers[1] = ours.layers[1]
        with pytest.raises(ValueError, match="enable_nested_tensor=False"):
            theirs(x, src_key_padding_mask=PADDING)
        theirs.use_nested_tensor = False
        found = theirs(x, src_key_padding_mask=PADDING)
        close(found[~PADDING], expected[~PADDING])


def test_pytorchs_decoder_computes_the_same_with_ours():
    layer = nn.TransformerDecoderLayer(SIZE, HEADS, 9, 0.0, batch_first=True)
    theirs = spread(nn.TransformerDecoder(layer, 2)).eval()
    x, source = doubles(3, QUERIES, SIZE), doubles(3, KEYS, SIZE, seed=1)
    later = ~masks.dense(masks.causal(), QUERIES)
    call = {"tgt_mask": later, "memory_key_padding_mask": PADDING}
    close(replaced(theirs)(x, source, **call), theirs(x, source, **call))


def test_a_local_encoder_of_pytorchs():
    theirs = encoder(batch_first=True)
    near, x = masks.dense(masks.local(2), KEYS), doubles(3, KEYS, SIZE)
    close(replaced(theirs, LocalAttention(2))(x), theirs(x, mask=~near))


@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
def test_pytorchs_encoder_with_ours_compiles_into_one_graph():
    torch.compiler.reset()
    ours, x = replaced(encoder(batch_first=True)).eval(), doubles(3, KEYS, SIZE)
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    found = compiled(x, src_key_padding_mask=PADDING)
    close(found, ours(x, src_key_padding_mask=PADDING))


# In models of transformers


def test_without_transformers_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ModuleNotFoundError, match=r"attention-companion\[all\]"):
        register("local64", LocalAttention(64))


CONFIG = {
    "vocab_size": 31,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "initializer_range": 0.5,
}
TOKENS = torch.randint(31, (3, 9), generator=torch.Generator().manual_seed(0))
WORDS = {
    "all": torch.ones(3, 9, dtype=torch.int64),
    "padded right": (torch.arange(9) < torch.tensor([[9], [6], [2]])).long(),
    "padded left": (torch.arange(9) >= torch.tensor([[0], [3], [7]])).long(),
}


@pytest.fixture
def build():
    """A tiny model of transformers with large weights, so that a mistake shows."""
    library = pytest.importorskip("transformers")

    def build(kind="Llama", groups=2, **options):
        torch.manual_seed(0)
        config = getattr(library, f"{kind}Config")
        options = CONFIG | {"num_key_value_heads": groups} | options
        return getattr(library, f"{kind}ForCausalLM")(config(**options)).eval()

    return build


@torch.no_grad()
def logits(model, name, words=None, **call):
    model.set_attn_implementation(name)
    return model(TOKENS, **{"attention_mask": words} | call).logits


def almost(found, expected, words=None):
    words = torch.ones_like(TOKENS) if words is None else words
    kept = words.bool()
    torch.testing.assert_close(found[kept], expected[kept], atol=2e-5, rtol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("words", [None, *WORDS])
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("kind", [ScaledDot, CausalAttention])
def test_dense_attention_is_that_of_transformers(build, kind, groups, words):
    register("ours", kind())
    model, words = build(groups=groups), WORDS.get(words)
    almost(logits(model, "ours", words), logits(model, "eager", words), words)


WINDOWS = {
    "local": lambda: LocalAttention(3),
    "causal local": lambda: LocalAttention(3, causal=True),
    "window": lambda: SlidingWindowAttention(4),
    "rule": lambda: PatternAttention(masks.local(3)),
}


@pytest.mark.slow
@pytest.mark.parametrize("words", [None, *WORDS])
@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_is_that_of_a_model_with_sliding_windows(build, name, words):
    theirs, ours, words = build("Mistral", sliding_window=4), build(), WORDS.get(words)
    ours.load_state_dict(theirs.state_dict())
    register("ours", WINDOWS[name]())
    expected = logits(theirs, "eager", words)
    almost(logits(ours, "ours", words), expected, words)
    register("dense", ScaledDot())  # the window is in the model's own mask
    almost(logits(theirs, "dense", words), expected, words)
    assert not torch.allclose(logits(ours, "dense", words), expected, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dense", *WINDOWS, "atrous", "alibi"])
def test_cached_decoding_equals_the_whole(build, name):
    others = {
        "dense": ScaledDot,
        "atrous": lambda: AtrousAttention(2),
        "alibi": lambda: ALiBi(4, causal=False),
    }
    register("ours", (WINDOWS | others)[name]())
    model, found, cache = build(), [], None
    whole = logits(model, "ours")
    with torch.no_grad():
        for tokens in TOKENS.split([4, 1, 3, 1], 1):
            step = model(tokens, past_key_values=cache, use_cache=True)
            found.append(step.logits)
            cache = step.past_key_values
    almost(torch.cat(found, 1), whole)


@pytest.mark.slow
def test_padding_on_the_left_does_not_change_what_is_generated(build):
    register("ours", LocalAttention(3))
    model, words = build(), WORDS["padded left"]
    model.set_attn_implementation("ours")
    options = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0}
    found = model.generate(TOKENS, attention_mask=words, **options)[:, 9:]
    for row, tokens, kept in zip(found, TOKENS, words.bool(), strict=True):
        alone = tokens[kept][None]
        ones = torch.ones_like(alone)
        expected = model.generate(alone, attention_mask=ones, **options)
        assert torch.equal(row, expected[0, alone.shape[1] :])


@pytest.mark.slow
def test_a_static_cache_is_an_error_unless_positions_do_not_matter(build):
    model, static = build(), {"cache_implementation": "static", "disable_compile": True}
    options = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0} | static
    found = []
    for name, attention in (("eager", None), ("dense", ScaledDot())):
        if attention is not None:
            register(name, attention)
        model.set_attn_implementation(name)
        found.append(model.generate(TOKENS, **options))
    assert torch.equal(*found)
    register("ours", LocalAttention(3))
    model.set_attn_implementation("ours")
    with pytest.raises(ValueError, match=r"LocalAttention needs .* a static cache"):
        model.generate(TOKENS, attention_mask=WORDS["padded left"], **options)


@pytest.mark.slow
def test_scale_dropout_and_gradients_are_those_of_the_model(build):
    register("ours", ScaledDot())
    model = build(attention_dropout=0.5)
    for layer in model.model.layers:
        layer.self_attn.scaling *= 3
    almost(logits(model, "ours"), logits(model, "eager"))
    gradients = []
    for name in ("ours", "eager"):
        model.set_attn_implementation(name)
        model.zero_grad()
        model(TOKENS, labels=TOKENS).loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    for found, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(found, expected, atol=2e-4, rtol=2e-4)
    whole = logits(model, "ours")
    assert not torch.allclose(logits(model.train(), "ours"), whole, atol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        lambda: Causal(ScaledDot()),
        lambda: PerHead(*4 * [CausalAttention()]),
        lambda: Causal(PerHead(*4 * [Causal(ScaledDot())])),
    ],
)
def test_the_scale_of_the_model_reaches_what_is_wrapped(build, kind):
    register("ours", kind())
    model = build()
    for layer in model.model.layers:
        layer.self_attn.scaling *= 3
    almost(logits(model, "ours"), logits(model, "eager"))


@pytest.mark.slow
@pytest.mark.parametrize("words", ["all", "padded right"])
def test_attention_to_another_sequence_has_no_window(words):
    """A window at the end of the source would be no error of shapes, but none of any use."""
    library = pytest.importorskip("transformers")
    sizes = {"d_model": 16, "vocab_size": 31, "max_position_embeddings": 64}
    sizes |= {
        f"{part}_{name}": size
        for part in ("encoder", "decoder")
        for name, size in {"layers": 1, "attention_heads": 4, "ffn_dim": 24}.items()
    }
    torch.manual_seed(0)
    model = library.BartForConditionalGeneration(library.BartConfig(**sizes)).eval()
    call = {"attention_mask": WORDS[words], "decoder_input_ids": TOKENS[:, :4]}
    register("ours", LocalAttention(3))
    with pytest.raises(ValueError, match=r"LocalAttention needs .* another sequence"):
        logits(model, "ours", **call)
    register("dense", ScaledDot())
    found, expected = (logits(model, name, **call) for name in ("dense", "eager"))
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=2e-5)


@pytest.mark.slow
def test_what_cannot_be_registered_or_computed_is_an_error(build):
    with pytest.raises(ValueError, match="Additive has parameters, which would not"):
        register("ours", Additive(4, 4, 3))
    with pytest.raises(ValueError, match="DeltaAttention has gates, which the model"):
        register("ours", DeltaAttention())
    register("cosine", Cosine())
    assert logits(build(), "cosine").isfinite().all()
    register("ours", ScaledDot())
    layer, x = build().model.layers[0].self_attn, torch.randn(1, 4, 3, 4)
    library = pytest.importorskip("transformers")
    forward = library.AttentionInterface()["ours"]
    with pytest.raises(NotImplementedError, match="ours has no softcap"):
        forward(layer, x, x, x, None, softcap=30.0)


@pytest.mark.slow
def test_the_fast_kernel_computes_where_there_is_no_padding(build, monkeypatch):
    calls = []
    kernel = LocalAttention.tile_groups
    monkeypatch.setattr(
        LocalAttention,
        "tile_groups",
        lambda self, *lengths: calls.append(self.causal) or kernel(self, *lengths),
    )
    register("ours", LocalAttention(3))
    logits(build(), "ours")
    assert calls == [True, True]  # a layer each, under the causal rule and no mask


def test_multi_head_attention_takes_values_of_another_source():
    attend, x = spread(MultiHeadAttention(SIZE, HEADS)), doubles(2, 3, SIZE)
    key, value = attend.project(x, 2 * x)
    assert torch.equal(key, attend.project(x)[0])
    assert torch.equal(value, attend.project(2 * x)[1])
