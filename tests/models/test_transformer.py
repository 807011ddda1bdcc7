"""The Transformer. That the future does not leak, that padding has no effect, and that searches,
precisions and gradients are right, is tested for all models in tests/contracts/test_decoders.py.
"""

import copy
import pickle

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from companion.attention import (
    Additive,
    Bilinear,
    Causal,
    CausalAttention,
    CausalLinearAttention,
    DeltaAttention,
    GatedDecayAttention,
    GatedDeltaAttention,
    LocalAttention,
    LocalM,
    MultiHeadAttention,
    PatternAttention,
    Rotary,
    ScaledDot,
    SinkAttention,
    SlidingWindowAttention,
    record_weights,
    rotate,
)
from companion.attention.masks import causal, dense, local, strided
from companion.decoding import greedy, tensors
from companion.layers import (
    FeedForward,
    LearnedPositionalEncoding,
    PostNorm,
    PreNorm,
    PreRMSNorm,
    Residual,
    SwiGLU,
)
from companion.models import (
    CausalTransformerLayer,
    EncoderDecoder,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
    share_embeddings,
)
from tests.attention.test_multihead import INSIDE, pairs
from tests.reference import scalars, vaswani_2017
from tests.tiny import MARKS, MODELS, SOURCE, TARGET, close, sentences, spread

SIZE, HEADS, HIDDEN = 12, 3, 7
SIZES = {"d_model": SIZE, "heads": HEADS, "d_ff": HIDDEN}
NORMS = [PostNorm, PreNorm]


def stack(
    layers=2,
    dropout=0.0,
    residual=PostNorm,
    attention=lambda: None,
    position=lambda: None,
):
    """A tiny Transformer; each layer has an attention of its own."""

    def build(layer):
        return layer(**SIZES, dropout=dropout, attention=attention(), residual=residual)

    encoder = TransformerEncoder(
        11,
        [build(TransformerEncoderLayer) for _ in range(layers)],
        dropout,
        position(),
        pad=0,
    )
    decoder = TransformerDecoder(
        11,
        [build(TransformerDecoderLayer) for _ in range(layers)],
        dropout,
        position(),
        pad=0,
    )
    return spread(EncoderDecoder(encoder, decoder))


def vectors(length, batch=3):
    torch.manual_seed(1)
    return torch.randn(batch, length, SIZE).double()


# The paper's equations


def test_the_model_equals_the_papers_equations():
    model = MODELS["transformer"]()
    logits = model(SOURCE, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        expected = vaswani_2017.logits(
            scalars.values(model), sentence.tolist(), TARGET[row].tolist(), heads=2
        )
        close(logits[row], expected)


def test_the_base_model_has_the_number_of_parameters_of_the_formula():
    with torch.device("meta"):
        model = Transformer(37000, 37000, pad=0)
    share_embeddings(model)
    d, d_ff = 512, 2048
    attention, feed_forward, norm = 4 * (d * d + d), 2 * d * d_ff + d_ff + d, 2 * d
    encoder_layer = attention + feed_forward + 2 * norm
    decoder_layer = 2 * attention + feed_forward + 3 * norm
    expected = 37000 * d + 6 * encoder_layer + 6 * decoder_layer
    assert sum(p.numel() for p in model.parameters()) == expected == 63_082_496
    assert {x.heads for x in model.modules() if isinstance(x, MultiHeadAttention)} == {
        8
    }
    assert [x.p for x in model.modules() if isinstance(x, nn.Dropout)] == [0.1] * (
        1 + 6 * 2 + 1 + 6 * 3
    )


def test_initial_embeddings_and_logits_have_a_variance_near_one():
    torch.manual_seed(0)
    model = Transformer(500, 500, layers=1, pad=0).eval()
    tokens = torch.randint(4, 500, (8, 16))
    assert model.encoder.embedding(tokens).std().item() == pytest.approx(1, rel=0.02)
    assert model.decoder.embedding.weight.std().item() == pytest.approx(
        512**-0.5, rel=0.02
    )
    assert model(tokens, tokens).std().item() == pytest.approx(1, rel=0.3)
    assert all(
        (part.embedding.weight[0] == 0).all() for part in (model.encoder, model.decoder)
    )


# Equal to PyTorch's


def as_torch(layer):
    """PyTorch's layer with our linear layers and norms; its attention has a copy of our weights."""
    decodes = isinstance(layer, TransformerDecoderLayer)
    kind = nn.TransformerDecoderLayer if decodes else nn.TransformerEncoderLayer
    pre = isinstance(layer.attention_residual, PreNorm)
    other = kind(SIZE, HEADS, HIDDEN, dropout=0.0, batch_first=True, norm_first=pre)
    other.self_attn = layer.attention.to_torch()
    other.linear1, other.linear2 = layer.feed_forward[0], layer.feed_forward[2]
    other.norm1, other.norm2 = (
        layer.attention_residual.norm,
        layer.feed_forward_residual.norm,
    )
    if decodes:
        other.multihead_attn = layer.source_attention.to_torch()
        other.norm2, other.norm3 = (
            layer.source_residual.norm,
            layer.feed_forward_residual.norm,
        )
    return other


def same_gradients(ours, twin, other):
    """Each parameter of ours has the gradient of the twin's, or of its copy in ``other``."""
    left = dict(ours.named_parameters())
    for name, parameter in twin.named_parameters():
        if parameter.grad is not None:
            close(left.pop(name).grad, parameter.grad)
    mine = [
        module for module in ours.modules() if isinstance(module, MultiHeadAttention)
    ]
    theirs = [
        module
        for module in other.modules()
        if isinstance(module, nn.MultiheadAttention)
    ]
    assert len(left) == 8 * len(mine)
    for attention, copied in zip(mine, theirs, strict=True):
        for parameter, _, gradient in pairs(attention, copied):
            close(parameter.grad, gradient)


@pytest.mark.parametrize("residual", NORMS)
@pytest.mark.parametrize("masked", [False, True])
def test_an_encoder_layer_equals_pytorchs(residual, masked):
    ours = spread(TransformerEncoderLayer(**SIZES, dropout=0.0, residual=residual))
    twin = copy.deepcopy(ours)
    other, x = as_torch(twin), vectors(7)
    words = (torch.arange(7) < torch.tensor([[7], [4], [1]])) if masked else None
    found = ours(x, None if words is None else words[:, None])
    expected = other(x, src_key_padding_mask=None if words is None else ~words)
    close(found, expected)
    found.sin().sum().backward()
    expected.sin().sum().backward()
    same_gradients(ours, twin, other)


@pytest.mark.parametrize("residual", NORMS)
def test_a_decoder_layer_equals_pytorchs(residual):
    ours = spread(TransformerDecoderLayer(**SIZES, dropout=0.0, residual=residual))
    twin = copy.deepcopy(ours)
    other, x, source = as_torch(twin), vectors(5), vectors(7) + 1
    words, before = torch.arange(7) < torch.tensor([[7], [4], [1]]), dense(causal(), 5)
    found, _ = ours(x, ours.start(source, words))
    expected = other(x, source, tgt_mask=~before, memory_key_padding_mask=~words)
    close(found, expected)
    found.sin().sum().backward()
    expected.sin().sum().backward()
    same_gradients(ours, twin, other)


@pytest.mark.parametrize("residual", NORMS)
def test_the_model_equals_pytorchs_which_has_a_final_norm_even_after_post_norm(
    residual,
):
    ours = stack(residual=residual)
    if residual is PostNorm:  # ours has no final norm, as in the paper
        ours.encoder.norm, ours.decoder.norm = (
            spread(nn.LayerNorm(SIZE), seed) for seed in (1, 2)
        )
    twin = copy.deepcopy(ours)
    other = nn.Transformer(SIZE, 2, 1, 1, HIDDEN, 0.0, batch_first=True)
    other.encoder.layers = nn.ModuleList(map(as_torch, twin.encoder.layers))
    other.decoder.layers = nn.ModuleList(map(as_torch, twin.decoder.layers))
    other.encoder.norm, other.decoder.norm = twin.encoder.norm, twin.decoder.norm
    embedded = [
        part.position(part.embedding(tokens))
        for part, tokens in [(twin.encoder, SOURCE), (twin.decoder, TARGET)]
    ]
    padding, future = SOURCE == 0, ~dense(causal(), TARGET.shape[1])
    states = other(
        *embedded,
        tgt_mask=future,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    found, expected = ours(SOURCE, TARGET), twin.decoder.output(states)
    close(found, expected)
    found.log_softmax(-1)[..., 4].sum().backward()
    expected.log_softmax(-1)[..., 4].sum().backward()
    same_gradients(ours, twin, other)


# Conversion


def theirs(kind, **options):
    options = {"batch_first": True, "dropout": 0.2} | options
    return spread(kind(SIZE, HEADS, HIDDEN, **options)).eval()


LAYERS = [nn.TransformerEncoderLayer, nn.TransformerDecoderLayer]
OURS = dict(zip(LAYERS, (CausalTransformerLayer, TransformerDecoderLayer), strict=True))
OPTIONS = {
    "post-norm": {},
    "pre-norm": {"norm_first": True},
    "no bias": {"bias": False},
    "gelu": {"activation": "gelu"},
    "a module": {"activation": nn.ELU()},
    "epsilon": {"layer_norm_eps": 0.1},
}


def outputs(ours, other):
    """Of a layer of ours and of PyTorch's, both causal."""
    x, source, before = vectors(5), vectors(7) + 1, dense(causal(), 5)
    if isinstance(other, nn.TransformerEncoderLayer):
        return ours(x), other(x, ~before)
    words = torch.arange(7) < torch.tensor([[7], [4], [1]])
    found = ours(x, ours.start(source, words))[0]
    return found, other(x, source, ~before, memory_key_padding_mask=~words)


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_a_layer_of_pytorchs_becomes_ours_and_comes_back(kind, options):
    other = theirs(kind, **options)
    ours = OURS[kind].from_torch(other)
    close(*outputs(ours, other))
    back = ours.to_torch()
    close(*outputs(ours, back))
    assert back.state_dict().keys() == other.state_dict().keys()
    for name, value in other.state_dict().items():
        assert torch.equal(back.state_dict()[name], value)
    for parameter in ours.parameters():
        parameter.data.zero_()  # all are copies
    assert all((p != 0).any() for x in (other, back) for p in x.parameters())
    dropouts = {k: m.p for k, m in other.named_modules() if isinstance(m, nn.Dropout)}
    assert dropouts == {
        k: m.p for k, m in back.named_modules() if isinstance(m, nn.Dropout)
    }
    assert back.self_attn.dropout == 0.2
    assert not back.training


@pytest.mark.parametrize("norm", [None, nn.LayerNorm(SIZE)])
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_stack_of_pytorchs_becomes_ours_and_comes_back(norm_first, norm):
    layer = theirs(nn.TransformerEncoderLayer, norm_first=norm_first)
    other = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
    other = spread(other.eval())
    ours = TransformerEncoder.from_torch(other, 11, pad=0)
    states, words = ours(SOURCE)
    embedded = ours.position(ours.embedding(SOURCE))
    for same in (other, ours.to_torch()):
        expected = same(embedded, src_key_padding_mask=~words)
        close(states[words], expected[words])


def test_a_converted_layer_may_have_another_attention():
    other = theirs(nn.TransformerEncoderLayer)
    ours = TransformerEncoderLayer.from_torch(other, LocalAttention(1))
    near = dense(local(1), 5)
    close(ours(vectors(5)), other(vectors(5), ~near))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer_of_another_kind_is_an_error(kind):
    another = theirs(LAYERS[kind is LAYERS[0]])
    with pytest.raises(TypeError, match=rf"from_torch needs nn\.{kind.__name__}, not"):
        OURS[kind].from_torch(another)


@pytest.mark.parametrize("kind", LAYERS)
def test_layers_that_cannot_be_converted_are_errors(kind):
    with pytest.raises(ValueError, match=f"this {kind.__name__} is sequence-first"):
        OURS[kind].from_torch(theirs(kind, batch_first=False))
    with pytest.raises(TypeError, match="activation must be ReLU or GELU, not <"):
        OURS[kind].from_torch(theirs(kind, activation=torch.tanh))
    gated = {"feed_forward": SwiGLU(SIZE, HIDDEN)}
    with pytest.raises(TypeError, match="to_torch needs FeedForward, not SwiGLU"):
        OURS[kind](SIZE, HEADS, **gated).to_torch()
    with pytest.raises(TypeError, match="PreNorm or PostNorm, not PreRMSNorm"):
        OURS[kind](SIZE, HEADS, HIDDEN, residual=PreRMSNorm).to_torch()


@pytest.mark.parametrize(
    "kind", [TransformerEncoderLayer, CausalTransformerLayer, TransformerDecoderLayer]
)
def test_a_layer_has_one_feed_forward_network(kind):
    network = SwiGLU(SIZE, HIDDEN)
    assert kind(SIZE, HEADS, feed_forward=network).feed_forward is network
    for both in ({}, {"d_ff": HIDDEN, "feed_forward": network}):
        with pytest.raises(ValueError, match=r"either d_ff, .* or another network"):
            kind(SIZE, HEADS, **both)


# Decoding token by token


KINDS = {
    "post-norm": {},
    "pre-norm": {"residual": PreNorm},
    "learned": {"position": lambda: LearnedPositionalEncoding(40, SIZE)},
}


@given(lengths=st.lists(st.integers(1, 9), min_size=1, max_size=4))
@pytest.mark.parametrize("kind", KINDS)
def test_tokens_in_pieces_of_any_length_give_the_logits_of_one_pass(kind, lengths):
    torch.manual_seed(0)
    model = stack(**KINDS[kind])
    target = torch.randint(3, 11, (3, sum(lengths)))
    state, found = model.start(SOURCE), []
    for piece in target.split(lengths, 1):
        logits, state = model.decoder.run(piece, state)
        found.append(logits)
    close(torch.cat(found, 1), model(SOURCE, target))


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", INSIDE)
def test_with_any_attention_pieces_give_the_logits_of_one_pass(name, grad):
    """Also with one that depends on the query's position: the queries are the last keys."""
    torch.set_grad_enabled(grad)
    model = stack(attention=lambda: Causal(INSIDE[name]()))
    target = torch.randint(3, 11, (3, 7))
    state, found = model.start(SOURCE), []
    for piece in target.split([1, 1, 3, 2], 1):
        logits, state = model.decoder.run(piece, state)
        found.append(logits)
    torch.set_grad_enabled(True)
    close(torch.cat(found, 1), model(SOURCE, target))


def test_a_step_computes_one_token_and_keeps_the_keys_of_all():
    model, lengths = stack(), []
    for layer in model.decoder.layers:
        layer.feed_forward.register_forward_hook(
            lambda module, inputs, output: lengths.append(output.shape)
        )
    model.decoder.output = nn.Linear(SIZE, 11).double()
    model.decoder.output.bias.data[2] = -1e9  # never <eos>
    found = greedy(model.step, model.start(SOURCE), 50, **MARKS)
    assert found.tokens.shape == (3, 50)
    assert set(lengths) == {(3, 1, SIZE)}
    state = model.start(SOURCE)
    for length in (1, 2, 3):
        state = model.step(TARGET[:, 0], state).state
        assert [layer.past.key.shape for layer in state] == [
            (3, HEADS, length, SIZE // HEADS)
        ] * 2


def test_a_token_beyond_the_learned_positions_is_an_error_with_the_numbers():
    model = stack(position=lambda: LearnedPositionalEncoding(7, SIZE))
    with pytest.raises(
        ValueError, match="positions 0 to 7 were requested, but the table has 7, 0 to 6"
    ):
        model(nn.functional.pad(SOURCE, (0, 1)), TARGET)
    state = model.start(SOURCE)
    for _ in range(7):
        state = model.step(TARGET[:, 0], state).state
    with pytest.raises(
        ValueError, match="positions 7 to 7 were requested, but the table has 7"
    ):
        model.step(TARGET[:, 0], state)


def masks_given_to(attention):
    """A list of the masks that an attention is called with."""
    given = []
    attention.register_forward_pre_hook(
        lambda module, inputs: given.append(inputs[3] if len(inputs) > 3 else None)
    )
    return given


def test_a_source_without_padding_needs_no_mask():
    model = stack(layers=1)
    given = masks_given_to(model.decoder.layers[0].source_attention)
    unpadded = SOURCE[[2, 2]]
    expected = model(SOURCE, TARGET)
    assert given.pop() is not None
    close(model(unpadded, TARGET[[2, 2]]), expected[[2, 2]])
    assert given == [None]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("mask", "error"),
    [
        (torch.ones(3, 5), TypeError),
        (torch.ones(3, 4, dtype=torch.bool), ValueError),
        (torch.ones(5, dtype=torch.bool), ValueError),
    ],
)
def test_a_mask_that_does_not_fit_the_source_is_an_error_even_if_it_masks_nothing(
    mask, error
):
    decoder = MODELS["transformer"]().decoder
    states = torch.randn(3, 5, decoder.embedding.embedding_dim)
    with pytest.raises(error, match="mask"):
        decoder.start(states, mask)


# What a decoder keeps


def forty_steps(attention):
    """The weights of the last step, the state after it, and the logits of all steps."""
    model, target = stack(attention=attention), torch.randint(3, 11, (3, 40))
    state, found = model.start(SOURCE), []
    for token in target.unbind(1):
        with record_weights(model.decoder) as maps:
            logits, state, _ = model.step(token, state)
        found.append(logits)
    close(torch.stack(found, 1), model(SOURCE, target))
    return maps, state


@pytest.mark.parametrize(
    ("attention", "attended"),
    [(lambda: SlidingWindowAttention(3), 3), (lambda: SinkAttention(3, sinks=1), 4)],
)
def test_with_a_window_the_cache_does_not_grow(attention, attended):
    """The last position in the window of a step has no place in that of the next one."""
    maps, state = forty_steps(attention)
    for number, layer in enumerate(state):
        (weights,) = maps[f"layers.{number}.attention.attention"]
        assert weights.shape == (3, HEADS, 1, attended)
        assert layer.past.key.shape == (3, HEADS, attended - 1, SIZE // HEADS)
        assert layer.past.seen.tolist() == [40, 40, 40]


def test_with_linear_attention_a_matrix_takes_the_place_of_the_cache():
    _, state = forty_steps(CausalLinearAttention)
    for layer in state:
        assert layer.past.S.shape == (3, HEADS, SIZE // HEADS, SIZE // HEADS)
        assert layer.past.z.shape == (3, HEADS, SIZE // HEADS)


@pytest.mark.parametrize(
    ("attention", "columns"),
    [(GatedDecayAttention, 1), (DeltaAttention, 0), (GatedDeltaAttention, 0)],
)
def test_forgetting_and_the_delta_rule_decode_from_a_matrix(attention, columns):
    _, state = forty_steps(attention)
    size = SIZE // HEADS
    for layer in state:
        assert layer.past.S.shape == (3, HEADS, size, size + columns)
        assert layer.past.seen.tolist() == [40, 40, 40]


def test_a_key_is_rotated_once_and_kept():
    forty_steps(lambda: Rotary(CausalAttention()))
    model = stack(layers=1, attention=lambda: Rotary(CausalAttention()))
    decoder, state = model.decoder, model.start(SOURCE)
    for token in TARGET.unbind(1):
        state = model.step(token, state).state
    x = decoder.position(decoder.embedding(TARGET))
    keys, _ = decoder.layers[0].attention.project(x)
    close(state[0].past.key, rotate(keys, torch.arange(TARGET.shape[1])))


@pytest.mark.parametrize("layer", [TransformerDecoderLayer, CausalTransformerLayer])
@pytest.mark.parametrize(
    "attention", [ScaledDot(), LocalAttention(2), PatternAttention(strided(2))]
)
def test_a_layer_that_decodes_refuses_attention_that_is_not_causal(layer, attention):
    message = f"^{layer.__name__} needs a causal attention, not {type(attention).__name__}: use"
    with pytest.raises(ValueError, match=message):
        layer(**SIZES, attention=attention)


# One embedding matrix


def test_the_output_is_the_decoders_embedding():
    model = stack()
    assert model.decoder.output.weight is model.decoder.embedding.weight
    assert model.encoder.embedding.weight is not model.decoder.embedding.weight


@pytest.mark.parametrize("shared", [False, True])
def test_copies_and_checkpoints_keep_the_ties(shared, tmp_path):
    model, other = stack(), stack()
    if shared:
        share_embeddings(model)
        share_embeddings(other)
    spread(other, seed=1)
    torch.save(model.state_dict(), tmp_path / "model.pt")
    other.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    for same in (model, copy.deepcopy(model), other):
        close(same(SOURCE, TARGET), model(SOURCE, TARGET))
        weights = [
            same.decoder.embedding.weight, same.decoder.output.weight, same.encoder.embedding.weight
        ]  # fmt: skip
        assert len(set(map(id, weights))) == (1 if shared else 2)
        counted = sum(p.numel() for p in same.parameters())
        alone = sum(
            p.numel()
            for part in (same.encoder, same.decoder)
            for p in part.parameters()
        )
        assert alone - counted == (11 * SIZE if shared else 0)


def test_vocabularies_of_different_sizes_cannot_be_shared():
    with pytest.raises(ValueError, match=r"\(11, 12\) and \(9, 12\) cannot be shared"):
        share_embeddings(Transformer(11, 9, SIZE, HEADS, HIDDEN, 1, pad=0))


# Dropout


def test_dropout_is_on_the_output_of_sub_layers_alone():
    x, words = vectors(5), torch.ones(3, 5, dtype=torch.bool)
    for layer in (TransformerEncoderLayer, TransformerDecoderLayer):
        for residual in NORMS:
            module = spread(layer(**SIZES, dropout=1.0, residual=residual))
            given = (
                (x,)
                if layer is TransformerEncoderLayer
                else (x, module.start(x, words))
            )
            found = module(*given)
            expected = x
            for name, norm in module.named_children():
                expected = (
                    norm.norm(expected)
                    if name.endswith("residual") and residual is PostNorm
                    else expected
                )
            close(found if layer is TransformerEncoderLayer else found[0], expected)


def test_dropout_is_on_the_sum_of_embedding_and_position():
    model, seen = stack(layers=1, dropout=1.0), []
    for part in (model.encoder, model.decoder):
        part.layers[0].register_forward_pre_hook(
            lambda module, inputs: seen.append(inputs[0])
        )
    model(SOURCE, TARGET)
    assert [x.shape[1] for x in seen] == [7, 5]
    assert all((x == 0).all() for x in seen)


def test_dropout_is_only_for_training():
    model = stack(dropout=0.3)
    assert not torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    model.eval()
    assert torch.equal(model(SOURCE, TARGET), model(SOURCE, TARGET))
    close(model(SOURCE, TARGET), stack()(SOURCE, TARGET))


# Custom layers


class Rescaled(Residual):
    """The sub-layer gets twice its input, and half its output is added."""

    def pre_norm(self, x):
        return 2 * x

    def post_norm(self, x, change):
        return x + change / 2

    def final_norm(self):
        return nn.Tanh()


def test_a_custom_residual():
    model, x = stack(residual=Rescaled), vectors(5)
    layer = model.encoder.layers[0]
    attended = x + layer.attention(2 * x, *layer.attention.project(2 * x)) / 2
    close(layer(x), attended + layer.feed_forward(2 * attended) / 2)
    assert isinstance(model.encoder.norm, nn.Tanh)
    states, _ = model.encoder(SOURCE)
    assert (states.abs() <= 1).all()
    close(
        model.step(TARGET[:, 0], model.start(SOURCE)).logits,
        model(SOURCE, TARGET)[:, 0],
    )


def test_the_last_layer_decides_the_final_norm():
    layers = [TransformerEncoderLayer(**SIZES, residual=residual) for residual in NORMS]
    assert isinstance(TransformerEncoder(11, layers).norm, nn.LayerNorm)
    assert isinstance(TransformerEncoder(11, layers[::-1]).norm, nn.Identity)
    layers = [TransformerDecoderLayer(**SIZES, residual=residual) for residual in NORMS]
    assert isinstance(TransformerDecoder(11, layers).norm, nn.LayerNorm)


def test_each_layer_may_have_another_attention():
    inside = [ScaledDot(), Additive(4, 4, 5), LocalM(Bilinear(4, 4), 1)]
    model = spread(
        TransformerEncoder(
            11,
            [
                TransformerEncoderLayer(**SIZES, dropout=0.0, attention=a)
                for a in inside
            ],
            0.0,
            pad=0,
        )
    )
    with record_weights(model) as maps:
        states, _ = model(SOURCE)
    close(states, model(SOURCE)[0])
    weights = [maps[f"layers.{i}.attention.attention"][0] for i in range(3)]
    assert all(x.shape == (3, HEADS, 7, 7) for x in weights)
    near = dense(lambda i, j: (i - j).abs() <= 1, 7)
    assert torch.equal(weights[2][0, 0] != 0, near & (SOURCE[0] != 0))


# Errors


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Transformer(11, 11, d_model=10, heads=4),
            "d_model = 10 is not divisible by 4 heads",
        ),
        (lambda: FeedForward(4, 0), "d_ff must be at least 1, not 0"),
        (lambda: TransformerDecoderLayer(0, 1, 1), "d_model must be at least 1, not 0"),
        (lambda: Transformer(0, 11), "vocabulary_size must be at least 1, not 0"),
    ],
)
def test_bad_sizes_are_errors(build, message):
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.parametrize("residual", NORMS)
@pytest.mark.usefixtures("unchecked")
def test_an_encoder_layer_compiles_as_one_graph(residual, device):
    torch.compiler.reset()
    layer = spread(TransformerEncoderLayer(**SIZES, dropout=0.0, residual=residual)).to(
        device
    )
    x, mask = vectors(7).to(device), (SOURCE != 0)[:, None].to(device)
    compiled = torch.compile(
        layer, fullgraph=True, backend="inductor" if device == "cuda" else "aot_eager"
    )
    torch.testing.assert_close(compiled(x, mask), layer(x, mask))
    torch.testing.assert_close(compiled(x), layer(x))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("strict", [False, True])
def test_the_exported_model_takes_any_batch_and_lengths_and_padding(strict):
    """It is traced with a source without padding, which needs no mask in eager mode."""
    model = stack().eval()
    batch, source_length, length = map(torch.export.Dim, ("b", "k", "n"))
    sizes = ({0: batch, 1: source_length}, {0: batch, 1: length})
    example = torch.full((3, 6), 5), torch.full((3, 4), 5)
    exported = torch.export.export(
        model, example, dynamic_shapes=sizes, strict=strict
    ).module()
    close(exported(SOURCE, TARGET), model(SOURCE, TARGET))
    close(exported(SOURCE[:2, :5], TARGET[:2]), model(SOURCE[:2, :5], TARGET[:2]))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_of_a_model_and_of_its_state_decode_the_same(copied):
    model = stack().eval()
    with torch.no_grad():
        state = model.start(SOURCE)
        for token in TARGET.unbind(1):
            state = model.step(token, state).state
        other, same = copied(model), copied(state)
        expected = model.step(TARGET[:, 1], state)
        found = other.step(TARGET[:, 1], same)
    close(found.logits, expected.logits)
    for x, y in zip(tensors(found.state), tensors(expected.state), strict=True):
        close(x, y)


def test_layers_at_different_positions_are_an_error():
    model = MODELS["transformer"]().eval()
    with torch.no_grad():
        first = model.start(SOURCE)
        second = model.step(TARGET[:, 0], first).state
        with pytest.raises(ValueError, match=r"are after \[0, 1\] positions"):
            model.step(TARGET[:, 1], (second[0], first[1]))
