import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from attention_course.training import next_token_loss
from companion.attention import (
    ALiBi,
    AtrousAttention,
    CacheRotary,
    CausalAttention,
    CausalLinearAttention,
    DecayAttention,
    DeltaAttention,
    GatedAttention,
    GatedDecayAttention,
    GatedDeltaAttention,
    LatentAttention,
    LocalAttention,
    PatternAttention,
    QueryKeyNorm,
    Rotary,
    SinkAttention,
    SlidingWindowAttention,
    SparseAttention,
)
from companion.attention.masks import causal, strided
from companion.decoding import (
    DecoderStep,
    beam_search,
    generate,
    greedy,
    map_state,
    sample,
    tensors,
)
from companion.layers import NoPositionalEncoding, PreNorm
from companion.losses import token_loss
from companion.models import (
    CausalTransformerLayer,
    LanguageModel,
    TransformerEncoderLayer,
)
from tests.tiny import MARKS, close, spread

TOKENS = torch.randint(1, 11, (2, 7), generator=torch.Generator().manual_seed(0))


def layer(attention, size=8):
    return CausalTransformerLayer(size, 2, 13, 0.0, attention, PreNorm)


def model(*attentions):
    torch.manual_seed(0)
    return LanguageModel(11, [layer(attention) for attention in attentions]).double()


def test_logits_are_one_row_for_every_position():
    assert model(LocalAttention(2, causal=True))(TOKENS).shape == (2, 7, 11)


def test_no_position_depends_on_later_ones():
    reader = model(
        AtrousAttention(2, causal=True), PatternAttention(causal(), causal=True)
    )
    before, changed = reader(TOKENS), TOKENS.clone()
    changed[:, 4] = changed[:, 4] % 10 + 1
    differs = (reader(changed) != before).any(-1)
    assert differs[:, 4:].all()
    assert not differs[:, :4].any()


def test_logits_depend_on_the_order_of_the_tokens():
    reader = model(PatternAttention(causal(), causal=True))
    assert not torch.allclose(
        reader(TOKENS)[:, -1], reader(TOKENS[:, [1, 0, 2, 3, 4, 5, 6]])[:, -1]
    )


def test_the_output_of_the_last_layer_is_normalised():
    reader = model(LocalAttention(1, causal=True))
    with torch.no_grad():
        reader.norm.weight.zero_()
    assert torch.equal(reader(TOKENS), reader.output.bias.expand(2, 7, 11))


@pytest.mark.usefixtures("unchecked")
def test_layers_of_an_encoder_which_attend_to_later_positions_are_an_error():
    encoders = [TransformerEncoderLayer(8, 2, 13)]
    with pytest.raises(
        TypeError, match="needs CausalTransformerLayer, not Transformer"
    ):
        LanguageModel(11, encoders)
    with pytest.raises(TypeError, match="not the class CausalTransformerLayer: write"):
        LanguageModel(11, [CausalTransformerLayer])


def test_the_loss_is_the_cross_entropy_of_the_next_token():
    reader = model(LocalAttention(2, causal=True))
    loss = next_token_loss(reader, TOKENS)
    plain = cross_entropy(
        reader(TOKENS)[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten(), reduction="sum"
    )
    assert loss.count == 12
    torch.testing.assert_close(loss.total, plain)


def test_padding_has_no_loss():
    reader = model(LocalAttention(2, causal=True))
    padded = torch.cat([TOKENS, torch.zeros(2, 3, dtype=torch.int64)], 1)
    loss, plain = next_token_loss(reader, padded), next_token_loss(reader, TOKENS)
    assert loss.count == plain.count
    torch.testing.assert_close(loss.total, plain.total)


# Generation

ATTENTIONS = {
    "causal": CausalAttention,
    "local": lambda: LocalAttention(2, causal=True),
    "atrous": lambda: AtrousAttention(2, causal=True),
    "sparse": lambda: SparseAttention(1, 3, causal=True),
    "strided": lambda: PatternAttention(strided(3), causal=True),
    "rotary": lambda: Rotary(CausalAttention()),
    "rotary window": lambda: Rotary(SinkAttention(2, 1)),
    "rotary in the cache": lambda: CacheRotary(SlidingWindowAttention(2)),
    "ALiBi": lambda: ALiBi(2),
    "window": lambda: SlidingWindowAttention(2),
    "window of one": lambda: SlidingWindowAttention(1),
    "sinks": lambda: SinkAttention(2, 1),
    "linear": lambda: CausalLinearAttention(chunk=2),
    "rotary linear": lambda: Rotary(CausalLinearAttention()),
    "latent": lambda: LatentAttention(8, 2, 3, 2),
    "gated": lambda: GatedAttention(8, 2, Rotary(CausalAttention())),
    "norm": lambda: QueryKeyNorm(4, Rotary(CausalAttention())),
    "decay": lambda: DecayAttention([0.9, 0.6], chunk=2),
    "gated decay": lambda: GatedDecayAttention(chunk=2),
    "delta": lambda: DeltaAttention(chunk=2),
    "gated delta": lambda: GatedDeltaAttention(chunk=2),
}
BOUNDED = (
    "local",
    "window",
    "window of one",
    "sinks",
    "rotary window",
    "rotary in the cache",
)
MATRICES = ("decay", "gated decay", "delta", "gated delta")
WITHOUT_CACHE = ("linear", "rotary linear", *MATRICES)
BOS, EOS = 1, 2


@pytest.fixture(params=ATTENTIONS)
def reader(request):
    layers = [layer(ATTENTIONS[request.param]()) for _ in range(2)]
    model = spread(LanguageModel(11, layers)).eval()
    model.output.bias.data[0] = -1e9  # never padding
    return model


@pytest.mark.parametrize("length", [0, 1, 4])
@pytest.mark.parametrize("grad", [False, True])
def test_steps_after_a_prompt_give_the_logits_of_one_pass(reader, length, grad):
    prompt, following = TOKENS[:, :length], TOKENS[:, length:]
    with torch.set_grad_enabled(grad):
        state, found = reader.start(prompt), []
        for token in following.unbind(1):
            logits, state, weights = reader.step(token, state)
            assert weights is None
            found.append(logits)
    close(torch.stack(found, 1), reader(TOKENS)[:, length:])


def test_a_prompt_gives_the_state_of_its_tokens_stepwise():
    """With sinks, positions in the cache are not those of one pass over the text."""
    reader = model(*(CacheRotary(SinkAttention(2, 1)) for _ in range(2)))
    at_once = reader.start(TOKENS)
    state = reader.start(TOKENS[:, :0])
    for token in TOKENS.unbind(1):
        state = reader.step(token, state).state
    for a, b in zip(tensors(at_once), tensors(state), strict=True):
        close(a, b)


def test_a_step_computes_one_position(request, reader):
    state, lengths = reader.start(TOKENS), []
    reader.output.register_forward_hook(
        lambda module, inputs, output: lengths.append(output.shape[1])
    )
    state = reader.step(TOKENS[:, 0], state).state
    assert lengths == [1]
    assert [int(torch.as_tensor(layer.seen).max()) for layer in state] == [8, 8]
    name = request.node.callspec.params["reader"]
    if name not in (*BOUNDED, *WITHOUT_CACHE):
        assert [cache.key.shape[-2] for cache in state] == [8, 8]


def test_greedy_search_takes_the_most_probable_token_after_the_prompt(reader):
    found = greedy(reader.step, reader.start(TOKENS), 6, **MARKS).tokens
    for prompt, tokens in zip(TOKENS, found, strict=True):
        text = [*prompt.tolist(), BOS]
        for token in tokens.tolist():
            if text[-1] == EOS:
                assert token == 0
                continue
            text.append(int(reader(torch.tensor([text]))[0, -1].argmax()))
            assert token == text[-1]


def test_every_search_generates_and_scores_by_the_model(reader):
    generator = torch.Generator().manual_seed(0)
    found = [
        greedy(reader.step, reader.start(TOKENS[:, :0]), 5, **MARKS),
        sample(
            reader.step, reader.start(TOKENS[:, :0]), 5, generator=generator, **MARKS
        ),
        map_state(
            lambda x: x[:, 0],
            beam_search(reader.step, reader.start(TOKENS[:, :0]), 5, 3, **MARKS),
        ),
    ]
    for hypotheses in found:
        for tokens, log_prob in zip(
            hypotheses.tokens, hypotheses.log_probs, strict=True
        ):
            tokens = tokens[tokens != 0]
            text = torch.cat([torch.tensor([BOS]), tokens[:-1]])
            log_probs = reader(text[None])[0].log_softmax(-1)
            close(log_prob, log_probs.gather(-1, tokens[:, None]).sum())


def test_a_step_leaves_the_given_state_as_it_is(reader):
    state = reader.start(TOKENS)
    with torch.no_grad():
        for token in TOKENS.unbind(1):
            before = [x.clone() for x in tensors(state)]
            first = reader.step(token, state)
            other = reader.step(token % 10 + 1, state)
            again = reader.step(token, state)
            for x, y in zip(tensors(state), before, strict=True):
                assert torch.equal(x, y)
            for x, y in zip(tensors(first.state), tensors(again.state), strict=True):
                assert torch.equal(x, y)
            assert not torch.equal(first.logits, other.logits)
            state = first.state


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("prompt", [torch.ones(2, 3), torch.ones(2, 3).bool()])
def test_a_prompt_that_is_not_integers_is_an_error(reader, prompt):
    with pytest.raises(TypeError, match="must hold integers"):
        reader.start(prompt)


@pytest.mark.parametrize("attention", [CausalAttention(), SlidingWindowAttention(3)])
def test_layers_at_different_positions_are_an_error(attention):
    reader = model(attention, attention)
    with torch.no_grad():
        first = reader.start(TOKENS)
        second = reader.step(TOKENS[:, 0], first).state
        with pytest.raises(ValueError, match=r"are after \[7, 8\] positions"):
            reader.step(TOKENS[:, 0], (second[0], first[1]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(3,), (2, 1)])
def test_a_step_refuses_tokens_that_do_not_fit_the_state(reader, shape):
    message = rf"tokens of shape \({shape[0]},.* do not fit a state of 2 sentences"
    with pytest.raises(ValueError, match=message):
        reader.step(torch.ones(shape, dtype=torch.long), reader.start(TOKENS))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(5,), (2, 5, 1)])
def test_tokens_that_are_no_batch_of_texts_are_an_error_without_positions_too(shape):
    reader = LanguageModel(
        11, [layer(Rotary(CausalAttention()))], NoPositionalEncoding()
    )
    with pytest.raises(ValueError, match=r"\(batch, length, features\), not"):
        reader(torch.ones(shape, dtype=torch.long))


# Prompts of different lengths

PROMPTS = [[3, 9, 4], [7], [5, 5, 8, 2, 10, 3, 6], [4, 6]]


class Recurrent(nn.Module):
    """A language model without attention, of which only a state is known."""

    def __init__(self):
        super().__init__()
        self.embedding, self.cell = nn.Embedding(11, 8), nn.GRUCell(8, 8)
        self.output = nn.Linear(8, 11)

    def start(self, tokens):
        state = self.output.weight.new_zeros(len(tokens), 8)
        for token in tokens.unbind(1):
            state = self.step(token, state).state
        return state

    def step(self, token, state):
        state = self.cell(self.embedding(token), state)
        return DecoderStep(self.output(state), state, state[:, :3].softmax(-1))


def written(found):
    """Tokens, log-probabilities and weights of each sentence, without padding."""
    weights = [None] * len(found.tokens) if found.weights is None else found.weights
    for tokens, log_prob, attended in zip(
        found.tokens, found.log_probs, weights, strict=True
    ):
        count = int((tokens != 0).sum())
        kept = None if attended is None else attended[:count]
        yield tokens[:count].tolist(), log_prob, kept


def assert_as_alone(model, **options):
    together = generate(model, PROMPTS, 6, pad=0, **options)
    for prompt, found in zip(PROMPTS, written(together), strict=True):
        ((tokens, log_prob, weights),) = written(
            generate(model, [prompt], 6, pad=0, **options)
        )
        assert found[0] == tokens
        close(found[1], log_prob)
        if weights is not None:
            close(found[2], weights)
    return together.tokens


def test_each_prompt_is_continued_as_if_it_were_alone(reader):
    tokens = assert_as_alone(reader)
    assert tokens.shape == (4, 6)
    for prompt, found in zip(PROMPTS, tokens.tolist(), strict=True):
        for length in range(6):
            text = torch.tensor([prompt + found[:length]])
            assert reader(text)[0, -1].argmax() == found[length]


@pytest.mark.parametrize("seed", range(5))
def test_a_recurrent_model_continues_each_prompt_as_if_it_were_alone(seed):
    model = spread(Recurrent(), seed)
    model.output.bias.data[0] = -1e9  # never padding
    assert_as_alone(model)
    endless = generate(model, PROMPTS, 6).tokens.tolist()
    end = endless[0][1]
    tokens = assert_as_alone(model, eos=end).tolist()
    for row, whole in zip(tokens, endless, strict=True):
        count = whole.index(end) + 1 if end in whole else 6
        assert row == whole[:count] + [0] * (len(row) - count)


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
def test_prompts_may_be_tensors_of_any_integers_or_one_batch(device):
    reader = model(CausalAttention()).to(device)
    expected = generate(reader, TOKENS.tolist(), 3)
    mixed = [TOKENS[0].short(), TOKENS[1].tolist()]
    for prompts in (TOKENS, list(TOKENS), TOKENS.int(), mixed):
        assert torch.equal(generate(reader, prompts, 3).tokens, expected.tokens)
    assert not expected.log_probs.is_inference()


def test_an_end_in_a_prompt_ends_nothing():
    reader = model(CausalAttention())
    reader.output.bias.data[10] = -1e9  # in prompts alone
    prompts = [[10, *prompt, 10, 3] for prompt in PROMPTS]
    expected = generate(reader, prompts, 4).tokens
    assert torch.equal(generate(reader, prompts, 4, eos=10).tokens, expected)


def test_tokens_are_sampled_as_by_a_search():
    reader, prompt = model(CausalAttention()), [7, 3, 9]
    options = {"temperature": 2.0, "top_k": 9, "top_p": 0.9, "eos": 2, "pad": 0}
    for seed in range(5):
        seeded = [torch.Generator().manual_seed(seed) for _ in range(2)]
        found = generate(reader, [prompt], 6, generator=seeded[0], **options)
        state = reader.start(torch.tensor([prompt[:-1]]))
        expected = sample(
            reader.step, state, 6, bos=prompt[-1], generator=seeded[1], **options
        )
        assert torch.equal(found.tokens, expected.tokens)
        close(found.log_probs, expected.log_probs)


def test_what_all_prompts_have_is_read_in_one_pass():
    reader, lengths = model(CausalAttention()), []
    reader.output.register_forward_hook(
        lambda module, inputs, output: lengths.append(output.shape[1])
    )
    generate(reader, [[3] * 9, [4] * 11], 5)
    assert lengths == [8, *[1] * (11 - 9 + 5)]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("prompts", "error", "message"),
    [
        ([], ValueError, "one prompt or more"),
        ([[3], [], [4, 5], []], ValueError, "prompt 1 is empty"),
        (TOKENS[:, :0], ValueError, "prompt 0 is empty"),
        ([3, 4], ValueError, r"one row of tokens, not of shape \(\)"),
        (TOKENS[None], ValueError, r"one row of tokens, not of shape \(2, 7\)"),
        (TOKENS.float(), TypeError, "tokens of a prompt must hold integers"),
        ([[3], [True]], TypeError, "tokens of a prompt must hold integers"),
        ([[3, 11]], ValueError, "tokens run from 11 to 11"),
        ([[3], [3, -1]], ValueError, "tokens run from -1 to"),
    ],
)
def test_what_are_no_prompts_is_an_error(prompts, error, message):
    with pytest.raises(error, match=message):
        generate(model(CausalAttention()), prompts, 3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("length", "options", "message"),
    [
        (0, {}, "^length must be at least 1, not 0"),
        (3, {"temperature": -1.0}, "temperature must be finite and above 0"),
        (3, {"top_p": 0.9}, "temperature must be finite and above 0, not 0"),
    ],
)
def test_options_that_cannot_be_meant_are_errors(length, options, message):
    with pytest.raises(ValueError, match=message):
        generate(model(CausalAttention()), PROMPTS, length, **options)


# Tokens of one's own


@pytest.mark.parametrize("name", ["causal", "sinks", "linear", "rotary"])
def test_bytes_train_and_generate_token_0_included(name):
    torch.manual_seed(0)
    text = torch.tensor(list(b"\0All\0you need\0\0is."))
    reader = LanguageModel(256, [layer(ATTENTIONS[name](), 32) for _ in range(2)])
    optimizer = torch.optim.Adam(reader.parameters(), 0.01)
    for _ in range(50):
        optimizer.zero_grad()
        token_loss(reader(text[None, :-1]), text[None, 1:]).total.backward()
        assert reader.embedding.weight.grad[0].any()
        optimizer.step()
    found = generate(reader.eval(), [text[:1], text[:6], text[:3]], 11).tokens
    expected = torch.stack([text[1:12], text[6:17], text[3:14]])
    assert torch.equal(found, expected)
    assert (found == 0).any(1).all()
