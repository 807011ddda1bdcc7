import pytest
import torch
from torch.nn.functional import cross_entropy

from attention_course.training import next_token_loss
from companion.attention import (
    ALiBi,
    AtrousAttention,
    CacheRotary,
    CausalAttention,
    CausalLinearAttention,
    LocalAttention,
    PatternAttention,
    QueryKeyNorm,
    Rotary,
    SinkAttention,
    SlidingWindowAttention,
    SparseAttention,
)
from companion.attention.masks import causal, strided
from companion.decoding import beam_search, greedy, map_state, sample, tensors
from companion.layers import NoPositionalEncoding, PreNorm
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
    "norm": lambda: QueryKeyNorm(4, Rotary(CausalAttention())),
}
BOUNDED = (
    "window",
    "window of one",
    "sinks",
    "rotary window",
    "rotary in the cache",
)
WITHOUT_CACHE = ("linear", "rotary linear")
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
@pytest.mark.parametrize("shape", [(5,), (2, 5, 1)])
def test_tokens_that_are_no_batch_of_texts_are_an_error_without_positions_too(shape):
    reader = LanguageModel(
        11, [layer(Rotary(CausalAttention()))], NoPositionalEncoding()
    )
    with pytest.raises(ValueError, match=r"\(batch, length, features\), not"):
        reader(torch.ones(shape, dtype=torch.long))
