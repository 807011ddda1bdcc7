import copy
import io
import math
import pickle

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

from attention_course.data.batching import Batch
from attention_course.training import free_running_loss
from companion.attention import record_weights
from companion.decoding import Memory, beam_search, greedy, map_state, sample, tensors
from companion.layers import (
    GatedConvolution,
    LearnedPositionalEncoding,
    WeightNormLinear,
    scale_gradient,
)
from companion.models import (
    ConvS2S,
    ConvS2SDecoder,
    ConvS2SDecoderLayer,
    ConvS2SEncoder,
    EncoderDecoder,
    convs2s,
)
from tests.reference import gehring_2017, scalars
from tests.tiny import MARKS, MODELS, SOURCE, TARGET, close, sentences, spread


@pytest.fixture
def model():
    return MODELS["convs2s"]()


@pytest.fixture
def normalised(monkeypatch):
    """The shapes of all weights that have been normalised since."""
    shapes, normalise = [], torch._weight_norm
    monkeypatch.setattr(
        torch,
        "_weight_norm",
        lambda v, g, dim: shapes.append(v.shape) or normalise(v, g, dim),
    )
    return shapes


def build(**sizes):
    return ConvS2S(
        **(
            {
                "source_vocabulary": 11,
                "target_vocabulary": 5,
                "embedding_size": 3,
                "hidden_size": 4,
            }
            | sizes
        ),
        pad=0,
    )


# The paper's equations


@pytest.mark.parametrize(("layers", "width"), [(1, 1), (1, 3), (2, 3), (3, 5)])
@pytest.mark.parametrize("padding", [0, 3])
@pytest.mark.parametrize("scale", [1.0, math.sqrt(0.5)], ids=["paper", "code"])
def test_the_whole_model_is_the_papers_and_with_a_scale_the_authors_code(
    layers, width, padding, scale
):
    sizes = {"layers": layers, "width": width, "max_length": 16}
    model = spread(build(**sizes, dropout=0.0, sum_scale=scale))
    with record_weights(model) as maps:
        logits = model(nn.functional.pad(SOURCE, (0, padding)), TARGET)
    weights = [maps[f"decoder.layers.{layer}.attention"][0] for layer in range(layers)]
    for row, sentence in enumerate(sentences(SOURCE)):
        expected = gehring_2017.teacher_forced(
            scalars.values(model), sentence.tolist(), TARGET[row].tolist(), scale
        )
        close(logits[row], expected[0])
        close(torch.stack(weights)[:, row, :, : len(sentence)], expected[1])
        assert all((w[row, :, len(sentence) :] == 0).all() for w in weights)


def test_the_scale_of_sums_is_one_by_default():
    torch.manual_seed(0)
    model = build(layers=2, dropout=0.0).double()
    torch.manual_seed(0)
    scaled = build(layers=2, dropout=0.0, sum_scale=1.0).double()
    assert torch.equal(model(SOURCE, TARGET), scaled(SOURCE, TARGET))


def test_a_block_is_pytorchs_convolution_with_a_gate_and_a_residual_connection():
    torch.manual_seed(0)
    block, convolution = (
        GatedConvolution(3, 5, dropout=0.0).double(),
        nn.Conv1d(3, 6, 5).double(),
    )
    convolution.weight.data = block.convolution.weight.detach().unflatten(1, (3, 5))
    inputs, padded = torch.randn(2, 7, 3).double(), torch.randn(2, 11, 3).double()
    gated = nn.functional.glu(convolution(padded.mT) - convolution.bias[:, None], 1).mT
    close(block(inputs, padded), (gated + inputs) / math.sqrt(2))


def test_encoder_and_decoder_need_not_be_alike():
    encoder = ConvS2SEncoder(
        11,
        3,
        LearnedPositionalEncoding(16, 3),
        [GatedConvolution(4, 5), GatedConvolution(4, 3)],
        pad=0,
    )
    decoder = ConvS2SDecoder(
        5,
        3,
        LearnedPositionalEncoding(16, 3),
        [ConvS2SDecoderLayer(3, 7, width, dropout=0.0) for width in (4, 1, 2)],
    )
    model = spread(EncoderDecoder(encoder, decoder)).eval()
    expected, _ = gehring_2017.teacher_forced(
        scalars.values(model), SOURCE[2].tolist(), TARGET[2].tolist()
    )
    close(model(SOURCE, TARGET)[2], expected)


def test_the_embedding_and_positions_of_padding_do_not_matter(model):
    before = model(SOURCE, TARGET)[1]
    model.encoder.embedding.weight.data[0] = 1e3
    model.encoder.position.embedding.weight.data[2:] += (
        1e3  # the second sentence has two words
    )
    close(model(SOURCE, TARGET)[1], before)


# Layers that do not attend


def partly_attending(*attends):
    return ConvS2SDecoder(
        5,
        3,
        LearnedPositionalEncoding(16, 3),
        [ConvS2SDecoderLayer(3, 4, 3, dropout=0.0, attends=one) for one in attends],
        dropout=0.0,
    ).double()


def test_a_layer_that_does_not_attend_is_its_block():
    torch.manual_seed(0)
    layer = ConvS2SDecoderLayer(3, 4, 3, dropout=0.0, attends=False)
    x, before = torch.randn(2, 5, 4), torch.randn(2, 2, 4)
    source = Memory(torch.randn(2, 6, 3), torch.randn(2, 6, 3), None)
    output, last = layer(x, before, torch.randn(2, 5, 3), source)
    padded = torch.cat([before, x], 1)
    close(output, layer.block(x, padded))
    close(last, padded[:, -2:])
    assert {name.partition(".")[0] for name, _ in layer.named_parameters()} == {"block"}


def test_it_computes_what_a_layer_does_whose_context_is_zero():
    torch.manual_seed(0)
    partly, whole = partly_attending(True, False), partly_attending(True, True)
    whole.load_state_dict(partly.state_dict(), strict=False)
    nn.init.zeros_(whole.layers[1].W_c.g)
    z, e = torch.randn(2, 3, 7, 3).double()
    mask = SOURCE != 0
    states = [decoder.start(z, e, mask) for decoder in (partly, whole)]
    close(partly(TARGET, states[0]), whole(TARGET, states[1]))


@pytest.mark.parametrize("attends", [(True, False, False), (True, False, True)])
def test_the_gradient_is_divided_by_the_number_of_attending_layers(attends):
    decoder = partly_attending(*attends)
    z = torch.randn(3, 7, 3).double().requires_grad_()
    key = decoder.start(z, torch.zeros_like(z), SOURCE != 0).memory.key
    key.sum().backward()
    close(z.grad, torch.full_like(z, 1 / sum(attends)))


def test_a_decoder_that_never_attends_is_an_error():
    with pytest.raises(ValueError, match="at least one of the layers must attend"):
        partly_attending(False, False)


# The receptive field


@pytest.mark.parametrize(("layers", "width"), [(6, 5), (3, 3), (2, 1)])
def test_the_receptive_field_follows_from_layers_and_width(layers, width):
    torch.manual_seed(0)
    field = layers * (width - 1) + 1
    blocks = [GatedConvolution(4, width, dropout=0.0) for _ in range(layers)]
    encoder = ConvS2SEncoder(
        11, 3, LearnedPositionalEncoding(64, 3), blocks, dropout=0.0, pad=0
    )
    layered = [ConvS2SDecoderLayer(3, 4, width, dropout=0.0) for _ in range(layers)]
    decoder = ConvS2SDecoder(
        11, 3, LearnedPositionalEncoding(64, 3), layered, dropout=0.0
    )
    tokens, embeddings = torch.randint(4, 11, (1, 51)), []
    for part in (encoder, decoder):
        part.embedding.register_forward_hook(
            lambda module, inputs, output: (
                embeddings.append(output) or output.retain_grad()
            )
        )
    states, embedded, mask = encoder(tokens)
    states[0, 25].sum().backward()
    logits = decoder(tokens, decoder.start(states.detach(), embedded.detach(), mask))
    logits[0, 40].sum().backward()
    around, past = [
        words.grad[0].abs().sum(-1).nonzero().flatten().tolist() for words in embeddings
    ]
    assert around == list(range(25 - field // 2, 25 + field // 2 + 1))
    assert past == list(range(41 - field, 41))
    assert len(around) == len(past) == field == {6: 25, 3: 7, 2: 1}[layers]


# The state


def test_the_state_holds_each_layers_last_inputs_and_none_for_a_width_of_one(model):
    before = model.start(SOURCE).before
    assert [x.shape for x in before] == [(3, 2, 4)] * 2
    assert all((x == 0).all() for x in before)
    alone = build(layers=2, width=1).start(SOURCE).before
    assert [x.shape for x in alone] == [(3, 0, 4)] * 2


def test_teacher_forcing_goes_on_from_any_state(model):
    state = model.step(
        TARGET[:, 1], model.step(TARGET[:, 0], model.start(SOURCE)).state
    ).state
    assert state.position.tolist() == [2, 2, 2]
    close(model.decoder(TARGET[:, 2:], state), model(SOURCE, TARGET)[:, 2:])


def test_sentences_that_have_read_different_numbers_of_tokens_have_their_own_positions(
    model,
):
    start = model.start(SOURCE)
    later = model.step(TARGET[:, 0], start).state
    rows = zip(tensors(start), tensors(later), strict=True)
    joined = iter([torch.cat([x[:1], y[2:]]) for x, y in rows])
    mixed = map_state(lambda _: next(joined), start)
    step = model.step(torch.tensor([4, 4]), mixed)
    close(step.logits[:1], model.step(torch.full((3,), 4), start).logits[:1])
    close(step.logits[1:], model.step(torch.full((3,), 4), later).logits[2:])


def test_a_step_computes_one_position(model):
    lengths = []
    for layer in model.decoder.layers:
        layer.block.convolution.register_forward_hook(
            lambda module, inputs, output: lengths.append(output.shape[1])
        )
    greedy(model.step, model.start(SOURCE), 6, **MARKS)
    assert set(lengths) == {1}


SEARCHES = {
    "greedy": greedy,
    "sample": sample,
    "beam": lambda *given, **marks: beam_search(*given, width=2, **marks),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_a_search_normalises_each_weight_once_and_the_next_one_anew(
    search, model, normalised
):
    state = model.start(SOURCE)
    normalised.clear()
    search(model.step, state, 6, **MARKS)
    assert len(normalised) == weights_of(model.decoder)
    model.decoder.output.g.data.zero_()  # no version of PyTorch's changes by .data
    model.decoder.output.bias.data.zero_()
    found = search(model.step, model.start(SOURCE), 1, **MARKS)
    uniform = torch.full_like(found.log_probs, 1 / 5)  # over the five tokens
    close(found.log_probs.exp(), uniform)


@torch.no_grad()
def test_a_loss_without_gradients_normalises_each_weight_of_the_decoder_once(
    model, normalised
):
    free_running_loss(model, Batch(SOURCE, TARGET))
    assert len(normalised) == weights_of(model)


@torch.no_grad()
def test_the_source_is_encoded_by_the_weights_as_they_are(model):
    before = model.start(SOURCE).memory.key
    model.encoder.to_embedding.g.data.mul_(2)
    model.encoder.to_embedding.bias.data.mul_(2)
    close(model.start(SOURCE).memory.key, 2 * before)


@torch.no_grad()
def test_teacher_forcing_never_takes_the_weights_of_a_search(model):
    state = model.start(SOURCE)
    model.step(TARGET[:, 0], state)
    model.decoder.output.g.data.mul_(2)
    found, expected = (
        model.decoder(TARGET, state),
        rebuilt(model).decoder(TARGET, state),
    )
    assert torch.equal(found, expected)


@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("compiled_start", [False, True])
def test_a_compiled_training_step_between_two_searches_is_noticed(
    model, compiled_start
):
    torch.compiler.reset()
    optimizer = torch.optim.Adam(model.parameters(), 0.1, fused=True)

    start = model.start
    if compiled_start:
        start = torch.compile(start, fullgraph=True, backend="eager")

    @torch.no_grad()
    def search():
        return model.step(TARGET[:, 0], start(SOURCE)).logits

    before = search()
    torch.compile(model, fullgraph=True, backend="eager")(
        SOURCE, TARGET
    ).square().sum().backward()
    optimizer.step()
    with torch.no_grad():
        expected = rebuilt(model)(SOURCE, TARGET)
        close(model(SOURCE, TARGET), expected)
    close(search(), expected[:, 0])
    assert not torch.allclose(before, expected[:, 0])


@torch.no_grad()
def test_a_copy_made_after_a_search_searches_with_its_own_weights(model):
    def size():
        torch.save(model, file := io.BytesIO())
        return len(file.getvalue())

    fresh = size()
    before = model.step(TARGET[:, 0], model.start(SOURCE)).logits
    assert size() == fresh
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.decoder.output.g.mul_(2)
        close(
            other.step(TARGET[:, 0], other.start(SOURCE)).logits,
            rebuilt(other)(SOURCE, TARGET)[:, 0],
        )
    assert torch.equal(model.step(TARGET[:, 0], model.start(SOURCE)).logits, before)


def rebuilt(model):
    """The same model with the same parameters, but never used."""
    other = MODELS["convs2s"]()
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    return other


def weights_of(module):
    """How many normalised weights a module has."""
    return sum(isinstance(part, WeightNormLinear) for part in module.modules())


# Scaling


@pytest.mark.parametrize("layers", [1, 4])
def test_the_gradient_of_the_encoders_states_is_divided_by_the_layers_and_that_of_its_embeddings_is_not(
    layers, monkeypatch
):
    torch.manual_seed(0)
    model = build(layers=layers, dropout=0.0).double()

    def gradients():
        encoded = [
            x.detach().requires_grad_() if x.is_floating_point() else x
            for x in model.encoder(SOURCE)
        ]
        model.decoder(TARGET, model.decoder.start(*encoded)).square().sum().backward()
        return encoded[0].grad, encoded[1].grad

    states, words = gradients()
    monkeypatch.setattr(convs2s, "scale_gradient", lambda x, scale: x)
    plain_states, plain_words = gradients()
    close(states * layers, plain_states)
    close(words, plain_words)


def test_scaling_a_gradient_changes_no_number():
    x = torch.randn(100, requires_grad=True)
    y = scale_gradient(x, 1 / 3)
    assert torch.equal(x, y)
    y.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((100,), 1 / 3))


@pytest.mark.parametrize("layers", [1, 2])
def test_gradients_are_right(layers):
    model = spread(build(layers=layers, dropout=0.0, max_length=8))
    part = (
        "" if layers == 1 else "decoder."
    )  # with one layer, nothing is scaled in the encoder either
    parameters = {
        name: x for name, x in model.named_parameters() if name.startswith(part)
    }
    target = torch.tensor([[1, 4, 3], [1, 3, 4]])

    def logits(*values):
        given = dict(zip(parameters, values, strict=True))
        return functional_call(model, given, (SOURCE[:2, :5], target))

    assert gradcheck(logits, tuple(parameters.values()), fast_mode=True)


# Initialisation


def test_blocks_start_with_the_papers_variance():
    torch.manual_seed(0)
    block = GatedConvolution(100, 5, dropout=0.2)
    assert block.convolution.weight.std().item() == pytest.approx(
        math.sqrt(4 * 0.8 / 500), rel=0.02
    )
    assert (block.convolution.bias == 0).all()


def test_every_layer_but_the_embeddings_is_normalised():
    model = build()
    assert not any(isinstance(x, nn.Linear | nn.Conv1d) for x in model.modules())
    assert weights_of(model) == 20 * 3 + 20 + 5


def test_layers_whose_inputs_have_dropout_start_with_smaller_weights():
    torch.manual_seed(0)
    model, dropped = (
        build(embedding_size=64, hidden_size=64, layers=2, width=1, dropout=0.6),
        {},
    )
    layers = {
        name: x for name, x in model.named_modules() if isinstance(x, WeightNormLinear)
    }
    for name, layer in layers.items():
        layer.register_forward_hook(
            lambda module, inputs, output, name=name: dropped.update(
                {name: (inputs[0] == 0).double().mean()}
            )
        )
    tokens = torch.full((2, 15), 4)
    model(tokens, tokens)
    for name, layer in layers.items():
        kind = name.split(".")[-1]
        fraction = 0.6 if kind in ("to_hidden", "convolution", "output") else 0
        gain = 4 if kind == "convolution" else 1
        assert dropped[name].item() == pytest.approx(fraction, abs=0.1 * fraction), name
        assert layer.weight.std().item() == pytest.approx(
            math.sqrt(gain * (1 - fraction) / 64), rel=0.1
        ), name


def test_the_papers_sizes_are_the_defaults():
    with torch.device("meta"):
        model = ConvS2S(9, 9, pad=0)
    blocks = [*model.encoder.blocks, *(layer.block for layer in model.decoder.layers)]
    assert [block.convolution.weight.shape for block in blocks] == [
        (1024, 512 * 3)
    ] * 40
    assert (
        model.encoder.embedding.embedding_dim
        == model.decoder.embedding.embedding_dim
        == 512
    )


def test_the_variance_of_a_deep_stack_neither_vanishes_nor_explodes():
    torch.manual_seed(0)
    blocks = [GatedConvolution(64, 3, dropout=0.0) for _ in range(20)]
    encoder = ConvS2SEncoder(
        50, 64, LearnedPositionalEncoding(20, 64), blocks, dropout=0.0, pad=0
    )
    states, embedded, _ = encoder(torch.randint(4, 50, (16, 20)))
    assert 0.2 < states.std() / embedded.std() < 2


def test_the_context_keeps_the_variance_of_one_token_where_all_weights_are_equal():
    torch.manual_seed(0)
    decoder = ConvS2SDecoder(
        5, 64, LearnedPositionalEncoding(1001, 64), [ConvS2SDecoderLayer(64, 64, 3)]
    )
    for length in (1, 10, 1000):
        source = torch.randn(1, length + 1, 64)
        mask = torch.arange(length + 1)[None] < length  # the last position is padding
        memory = decoder.start(source, torch.zeros_like(source), mask).memory
        context = memory.value[0, :length].mean(0)
        assert context.std().item() == pytest.approx(1, rel=0.4)


# Refusals


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"width": 4}, "width must be odd, so that it has a centre, not 4"),
        ({"width": 0}, "width must be at least 1, not 0"),
        ({"layers": 0}, "layers must be at least 1, not 0"),
        ({"sum_scale": 0.0}, r"sum_scale must be finite and above 0, not 0\.0"),
        ({"hidden_size": 0}, "size must be at least 1, not 0"),
        ({"embedding_size": 0}, "size must be at least 1, not 0"),
        ({"max_length": 0}, "max_length must be at least 1, not 0"),
    ],
)
def test_bad_sizes_are_errors(sizes, message):
    with pytest.raises(ValueError, match=message):
        build(**sizes)


def test_layers_that_do_not_fit_each_other_or_the_embeddings_are_errors():
    with pytest.raises(
        ValueError, match=r"layers of one size, but there are 2, of sizes \[4, 8\]"
    ):
        ConvS2SEncoder(
            11,
            3,
            LearnedPositionalEncoding(9, 3),
            [GatedConvolution(4, 3), GatedConvolution(8, 3)],
            pad=0,
        )
    with pytest.raises(
        ValueError, match=r"layers of one size, but there are 2, of sizes \[4, 8\]"
    ):
        ConvS2SDecoder(
            5,
            3,
            LearnedPositionalEncoding(9, 3),
            [ConvS2SDecoderLayer(3, 4, 3), ConvS2SDecoderLayer(3, 8, 3)],
        )
    with pytest.raises(ValueError, match="layers of one size, but there are 0"):
        ConvS2SDecoder(5, 3, LearnedPositionalEncoding(9, 3), [])
    with pytest.raises(
        ValueError,
        match=r"one sum_scale, but there are 2, of sum_scales \[1\.0, 0\.5\]",
    ):
        ConvS2SDecoder(
            5,
            3,
            LearnedPositionalEncoding(9, 3),
            [ConvS2SDecoderLayer(3, 4, 3, sum_scale=scale) for scale in (1.0, 0.5)],
        )


def test_beyond_the_table_of_positions_is_an_error_on_both_sides(model):
    with pytest.raises(
        ValueError, match="positions 0 to 16 were requested, but the table has 16"
    ):
        model(torch.full((1, 17), 4), TARGET[:1])
    with pytest.raises(
        ValueError, match="positions 0 to 16 were requested, but the table has 16"
    ):
        model(SOURCE[:1], torch.full((1, 17), 4))
    model.decoder.output.bias.data[2] = -1e9  # never <eos>
    with pytest.raises(
        ValueError, match="positions 16 to 16 were requested, but the table has 16"
    ):
        greedy(model.step, model.start(SOURCE), 17, **MARKS)


@pytest.mark.usefixtures("unchecked")
def test_a_target_for_other_sentences_is_an_error(model):
    with pytest.raises(ValueError, match=r"\(2, 5\) does not fit 3 source sentences"):
        model(SOURCE, TARGET[:2])


def test_an_encoder_of_another_size_is_an_error(model):
    other = ConvS2SEncoder(
        11, 6, LearnedPositionalEncoding(16, 6), [GatedConvolution(4, 3)], pad=0
    )
    with pytest.raises(ValueError, match=r"source need a shape \(b, k, 3\), not"):
        model.decoder.start(*other(SOURCE))


def test_a_fully_masked_source_gives_finite_logits_and_no_gradient(model):
    z, e = (
        torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True),
        torch.randn(2, 3, 3).double(),
    )
    state = model.decoder.start(z, e, torch.tensor([[True] * 3, [False] * 3]))
    logits = model.decoder.step(torch.tensor([1, 1]), state).logits
    logits.sum().backward()
    assert logits.isfinite().all()
    assert z.grad.isfinite().all()
    assert not z.grad[1].any()


@pytest.mark.parametrize(
    "build_part",
    [lambda: GatedConvolution(8, 3, dropout=1.0), lambda: build(dropout=1.0)],
)
def test_dropout_of_all_is_an_error_for_weights_that_are_normalised(build_part):
    with pytest.raises(ValueError, match=r"gain must be finite and above 0, not 0\.0"):
        build_part()


def test_a_changed_parameter_changes_the_next_step(model):
    token = TARGET[:, 0]
    with torch.no_grad():
        state = model.start(SOURCE)
        before = model.step(token, state).logits
        model.decoder.output.g.mul_(2)
        after = model.step(token, state).logits
    assert not torch.equal(before, after)
