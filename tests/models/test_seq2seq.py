import math

import pytest
import torch
from torch import nn

from companion.attention import Additive
from companion.layers import ResetBeforeGRU, reverse
from companion.models import (
    BahdanauDecoder,
    BahdanauEncoder,
    ChoDecoder,
    ChoEncoder,
    EncoderDecoder,
    LSTMEncoder,
    SutskeverDecoder,
    SutskeverEncoder,
)
from tests.layers.test_gru import run_alone
from tests.reference import cho_2014, scalars, searches, sutskever_2014
from tests.tiny import (
    MODELS,
    SOURCE,
    TARGET,
    TARGET_WORDS,
    bahdanau,
    cho,
    close,
    lstm,
    sentences,
    spread,
    sutskever,
)

PAIRS = [
    (cho, cho_2014.logits),
    (lstm, sutskever_2014.logits_in_source_order),
    (sutskever, sutskever_2014.logits),
]
WHOLE = torch.tensor(
    [[1, 4, 3, 4, 2], [1, 3, 2, 0, 0], [1, 2, 0, 0, 0]]
)  # from <bos> to <eos>


@pytest.mark.parametrize(("build", "expected"), PAIRS)
def test_each_model_is_its_papers(build, expected):
    model = build()
    logits = model(SOURCE, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        close(
            logits[row],
            expected(scalars.values(model), sentence.tolist(), TARGET[row].tolist()),
        )


# Cho's pair


def test_cho_has_no_attention():
    model = cho()
    step = model.step(torch.tensor([1, 1, 1]), model.start(SOURCE))
    assert step.weights is None
    assert [x.shape for x in step.state] == [(3, 4), (3, 5)]


def test_cho_reads_the_same_vector_at_every_time_step():
    model = cho()
    before = model.start(SOURCE)
    after = model.step(torch.tensor([1, 3, 4]), before).state
    assert torch.equal(before.context, after.context)
    assert not torch.allclose(before.hidden, after.hidden)


def test_the_output_is_conditioned_on_the_decoders_new_state():
    model, calls = cho(), []
    model.decoder.output.register_forward_pre_hook(
        lambda module, inputs: calls.append(inputs)
    )
    state = model.start(SOURCE)
    after = model.step(torch.tensor([1, 3, 4]), state).state
    hidden, _, context = calls[0]
    close(hidden[:, 0], after.hidden)
    close(context[:, 0], state.context)


def test_half_of_a_hidden_size_that_is_odd_is_an_error_unless_the_maxout_size_is_given():
    decoder = ChoDecoder(5, 3, hidden_size=7, context_size=4, maxout_size=3)
    assert decoder.output.W.in_features == 3
    assert ChoDecoder(5, 3, 8, 4).output.W.in_features == 4
    state = decoder.start(torch.randn(3, 4))
    assert decoder(TARGET, state).shape == (*TARGET.shape, 5)
    with pytest.raises(ValueError, match=r"even.* 7"):
        ChoDecoder(5, 3, hidden_size=7, context_size=4)


def test_cho_can_be_given_a_gru_that_resets_before_the_matrix():
    encoder = spread(ChoEncoder(11, 3, 4, gru=ResetBeforeGRU, pad=0))
    decoder = spread(ChoDecoder(5, 3, 6, 4, gru=ResetBeforeGRU))
    state, logits = decoder.start(*encoder(SOURCE)), []
    forced = decoder(TARGET, state)
    for row, sentence in enumerate(sentences(SOURCE)):
        read = run_alone(encoder.rnn, encoder.embedding(sentence))
        last = torch.tensor(read[-1], dtype=torch.float64)
        close(state.context[row], encoder.V(last).tanh())
    for token in TARGET.unbind(1):
        step = decoder.step(token, state)
        logits, state = [*logits, step.logits], step.state
    close(torch.stack(logits, 1), forced)


def test_a_vector_of_another_size_is_an_error():
    with pytest.raises(RuntimeError, match=r"cannot be multiplied \(2x6 and 4x8\)"):
        ChoDecoder(5, 3, hidden_size=8, context_size=4).start(torch.randn(2, 6))


# Sutskever's pair


def test_reversal_is_the_only_difference_of_the_two_encoders():
    forwards, backwards = lstm(), sutskever()
    backwards.load_state_dict(forwards.state_dict())
    for found, expected in zip(
        backwards.encoder(SOURCE), forwards.encoder(reverse(SOURCE, pad=0)), strict=True
    ):
        assert torch.equal(found, expected)
    assert not torch.allclose(backwards(SOURCE, TARGET), forwards(SOURCE, TARGET))


def test_every_layer_of_the_decoder_starts_from_the_encoders_final_state():
    model = sutskever()
    state = model.start(SOURCE)
    assert [x.shape for x in state] == [(3, 2, 4), (3, 2, 4)]
    for row, sentence in enumerate(sentences(SOURCE)):
        vectors = model.encoder.embedding(sentence.flip(0))
        _, (hidden, cell) = model.encoder.rnn(vectors)
        close(state.hidden[row], hidden)
        close(state.cell[row], cell)


@pytest.mark.parametrize("layers", [1, 3])
def test_any_number_of_layers(layers):
    torch.manual_seed(0)
    model = EncoderDecoder(
        SutskeverEncoder(11, 3, 4, layers, pad=0), SutskeverDecoder(5, 3, 4, layers)
    ).double()
    expected = sutskever_2014.logits(
        scalars.values(model), SOURCE[1, :2].tolist(), TARGET[1].tolist()
    )
    close(model(SOURCE, TARGET)[1], expected)


def test_an_lstm_of_one_layer_has_dropout_on_its_embeddings_alone():
    torch.manual_seed(0)
    encoder = SutskeverEncoder(
        11, 8, 4, layers=1, dropout=0.5, pad=0
    )  # a warning of PyTorch's would fail the test
    assert not torch.allclose(encoder(SOURCE)[0], encoder(SOURCE)[0])


def test_dropout_is_between_the_layers_too():
    torch.manual_seed(0)
    encoder, decoder = (
        LSTMEncoder(11, 8, 4, dropout=0.5, pad=0),
        SutskeverDecoder(5, 8, 4, dropout=0.5),
    )
    for module in (encoder, decoder):
        module.dropout.p = 0.0
    once, twice = encoder(SOURCE), encoder(SOURCE)
    assert torch.equal(once.hidden[:, 0], twice.hidden[:, 0])
    assert not torch.allclose(once.hidden[:, 1], twice.hidden[:, 1])
    assert not torch.allclose(decoder(TARGET, once), decoder(TARGET, once))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(3, 2, 5), (3, 1, 4), (3, 3, 4)])
def test_a_decoder_that_is_not_built_as_its_encoder_is_an_error(shape):
    decoder, fitting = SutskeverDecoder(5, 3, 4), torch.zeros(3, 2, 4)
    for states in ((torch.zeros(shape), fitting), (fitting, torch.zeros(shape))):
        with pytest.raises(RuntimeError, match=r"size \(2, 3, 4\), got"):
            decoder(TARGET, decoder.start(*states))


@pytest.mark.parametrize("build", [LSTMEncoder, SutskeverEncoder, SutskeverDecoder])
@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((0, 3, 4), "vocabulary_size must be at least 1, not 0"),
        ((5, 0, 4), "size must be at least 1, not 0"),
        ((5, 3, -1), "hidden_size must be at least 1, not -1"),
        ((5, 3, 4, 0), "layers must be at least 1, not 0"),
    ],
)
def test_sizes_below_one_are_errors(build, sizes, message):
    with pytest.raises(ValueError, match=message):
        build(*sizes)


# Any pair


def test_the_decoder_starts_from_all_that_the_encoder_returns():
    model = bahdanau()
    whole, parts = model.start(SOURCE), model.decoder.start(*model.encoder(SOURCE))
    close(whole.hidden, parts.hidden)
    close(whole.memory.key, parts.memory.key)
    assert torch.equal(whole.memory.mask, SOURCE != 0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("build", [bahdanau, cho, lstm, sutskever])
@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        (SOURCE, TARGET[:2], r"target of shape \(2, 5\) does not fit 3 source"),
        (SOURCE, TARGET[:, :0], r"target of shape \(3, 0\) has no token"),
        (SOURCE[:, :0], TARGET, r"\(3, 0\) has no words"),
        (SOURCE[:0], TARGET[:0], r"\(0, 7\) has no words"),
        (SOURCE.flip(1), TARGET, r"rows \[0, 1\] .*padding before a word"),
        (SOURCE[0], TARGET, r"source needs a shape \(batch, length\), not \(7,\)"),
        (SOURCE, TARGET[0], r"target needs a shape \(batch, length\), not \(5,\)"),
        (SOURCE[:2], TARGET, r"target of shape \(3, 5\) does not fit 2 source"),
        (SOURCE * 2, TARGET, "to 20.* 11 entries"),
        (SOURCE, TARGET * 2, "to 8.* 5 entries"),
    ],
)
def test_what_is_no_batch_of_pairs_is_an_error(build, source, target, message):
    with pytest.raises(ValueError, match=message):
        build()(source, target)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("build", [bahdanau, cho, lstm, sutskever])
def test_tokens_that_are_no_integers_are_an_error(build):
    for source, target, name in (
        (SOURCE.float(), TARGET, "source"),
        (SOURCE, TARGET.float(), "target"),
    ):
        message = f"a {name} must hold integers, not torch.float32"
        with pytest.raises(TypeError, match=message):
            build()(source, target)


def test_dropout_is_in_training_only():
    torch.manual_seed(0)
    encoder, decoder = (
        ChoEncoder(11, 8, 4, dropout=0.5, pad=0),
        ChoDecoder(5, 8, 6, 4, dropout=0.5),
    )
    state = decoder.start(*encoder(SOURCE))
    assert not torch.allclose(encoder(SOURCE)[0], encoder(SOURCE)[0])
    assert not torch.allclose(decoder(TARGET, state), decoder(TARGET, state))
    assert torch.equal(decoder.eval()(TARGET, state), decoder(TARGET, state))
    assert torch.equal(encoder.eval()(SOURCE)[0], encoder(SOURCE)[0])


# The log-probability of a pair


@pytest.mark.usefixtures("unchecked")
def test_tokens_of_log_prob_may_be_integers_of_32_bits():
    model = MODELS["transformer"]()
    found = model.log_prob(SOURCE.int(), WHOLE.int(), pad=0)
    torch.testing.assert_close(found, model.log_prob(SOURCE, WHOLE, pad=0))


@pytest.mark.parametrize(("build", "logits"), PAIRS)
def test_log_prob_is_that_of_the_product_of_the_probabilities_of_the_tokens(
    build, logits
):
    model = build()
    found = model.log_prob(SOURCE, WHOLE, pad=0)
    for row, (source, target) in enumerate(
        zip(sentences(SOURCE), sentences(WHOLE), strict=True)
    ):
        before, words = target[:-1].tolist(), target[1:].tolist()
        scores = logits(scalars.values(model), source.tolist(), before)
        product = math.prod(
            scalars.softmax(each)[word]
            for each, word in zip(scores, words, strict=True)
        )
        assert found[row].item() == pytest.approx(math.log(product), abs=1e-10)


@pytest.mark.parametrize("build", [bahdanau, cho, sutskever])
def test_the_probabilities_of_all_sentences_sum_to_one(build):
    model = build()
    getattr(model.decoder.output, "W", model.decoder.output).bias.data[
        0
    ] = -torch.inf  # never padding
    space = [
        words for words in searches.all_sentences(TARGET_WORDS, 4) if 0 not in words
    ]
    targets = torch.tensor([[1, *words, *[0] * (4 - len(words))] for words in space])
    log_probs = model.log_prob(SOURCE[:1].expand(len(space), -1), targets, pad=0)
    assert log_probs.exp().sum().item() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("build", [bahdanau, cho, lstm, sutskever])
def test_padding_changes_neither_log_prob_nor_its_gradient(build):
    model = build()
    found = model.log_prob(SOURCE, WHOLE, pad=0)
    padded = model.log_prob(
        nn.functional.pad(SOURCE, (0, 2)), nn.functional.pad(WHOLE, (0, 3)), pad=0
    )
    close(padded, found)
    parameters = list(model.parameters())
    gradients = [torch.autograd.grad(x.sum(), parameters) for x in (padded, found)]
    for one, other in zip(*gradients, strict=True):
        close(one, other)


@pytest.mark.parametrize("how", ["bfloat16", "autocast"])
def test_log_prob_is_summed_in_32_bits(how):
    # not LSTMs, which oneDNN lacks in bfloat16 on older processors
    model = cho().to(torch.float32 if how == "autocast" else torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16, enabled=how == "autocast"):
        found = model.log_prob(SOURCE, WHOLE, pad=0)
        logits = model(SOURCE, WHOLE[:, :-1])
    assert logits.dtype == torch.bfloat16
    assert found.dtype == torch.float32
    words = logits.double().log_softmax(-1).gather(-1, WHOLE[:, 1:, None]).squeeze(-1)
    expected = (words * (WHOLE[:, 1:] != 0)).sum(1)
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-6)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        (WHOLE[:2], "3 sources and 2 targets do not make pairs"),
        (
            WHOLE[:, :1],
            r"rows \[0, 1, 2\] of targets of shape \(3, 1\) are not two tokens or",
        ),
        (WHOLE[:, :0], r"rows \[0, 1, 2\] .* \(3, 0\)"),
        (WHOLE * torch.tensor([[1], [0], [1]]), r"rows \[1\] .* \(3, 5\)"),
        (WHOLE * (torch.arange(5) != 2), r"rows \[0\] .* \(3, 5\)"),
        (WHOLE * (torch.arange(5) < 1), r"rows \[0, 1, 2\] .* \(3, 5\)"),
    ],
)
def test_a_target_that_is_not_whole_has_no_log_prob(target, message):
    with pytest.raises(ValueError, match=message):
        sutskever().log_prob(SOURCE, target, pad=0)


def test_without_padding_every_token_after_the_first_counts():
    model = sutskever()
    target = torch.tensor([[0, 4, 0], [0, 0, 0], [3, 0, 1]])
    logits = model(SOURCE, target[:, :-1])
    expected = logits.log_softmax(-1).gather(-1, target[:, 1:, None]).sum((1, 2))
    close(model.log_prob(SOURCE, target), expected)
    with pytest.raises(ValueError, match=r"rows \[0, 1, 2\] .* are not two tokens"):
        model.log_prob(SOURCE, target[:, :1])


# The sizes of the best-known tutorials on Multi30k (bentrevett/pytorch-seq2seq, notebooks 1 to 3)

GERMAN, ENGLISH, EMBEDDING, HIDDEN = 7853, 5893, 256, 512


def parameters(*modules):
    """How many numbers they learn."""
    return sum(p.numel() for module in modules for p in module.parameters())


def test_the_lstm_has_the_tutorials_number_of_parameters():
    with torch.device("meta"):
        encoder = SutskeverEncoder(GERMAN, EMBEDDING, HIDDEN, pad=0)
        decoder = SutskeverDecoder(ENGLISH, EMBEDDING, HIDDEN)
    assert parameters(encoder, decoder) == 13_898_501


def test_the_gru_differs_from_the_tutorial_in_v_and_in_the_deep_output_alone():
    with torch.device("meta"):
        encoder = ChoEncoder(GERMAN, EMBEDDING, HIDDEN, pad=0)
        decoder = ChoDecoder(ENGLISH, EMBEDDING, HIDDEN, context_size=HIDDEN)
        theirs = nn.Linear(
            EMBEDDING + HIDDEN + HIDDEN, ENGLISH
        )  # all the output layer that there is
    ours = parameters(encoder.V, decoder.V, decoder.output)
    assert parameters(encoder, decoder) - ours + parameters(theirs) == 14_219_781


def test_bahdanau_differs_from_the_tutorial_in_start_score_and_output_alone():
    with torch.device("meta"):
        encoder = BahdanauEncoder(GERMAN, EMBEDDING, HIDDEN, pad=0)
        attention = Additive(HIDDEN, 2 * HIDDEN, HIDDEN)
        decoder = BahdanauDecoder(ENGLISH, EMBEDDING, HIDDEN, 2 * HIDDEN, attention)
        theirs = [
            nn.Linear(
                2 * HIDDEN, HIDDEN
            ),  # the first state: from both directions, ours from the backward
            nn.Linear(
                HIDDEN + 2 * HIDDEN, HIDDEN
            ),  # the score: W and U in one, with a bias
            nn.Linear(HIDDEN, 1, bias=False),  # and v
            nn.Linear(
                EMBEDDING + HIDDEN + 2 * HIDDEN, ENGLISH
            ),  # the output: no hidden layer
        ]
    ours = parameters(decoder.W_s, attention, decoder.output)
    assert parameters(encoder, decoder) - ours + parameters(*theirs) == 20_518_405
    assert (
        parameters(theirs[1], theirs[2]) - parameters(attention) == HIDDEN
    )  # the bias is all


@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda: BahdanauEncoder(11, 3, 0), "hidden_size"),
        (lambda: BahdanauEncoder(11, 0, 5, pad=0), "embedding_size"),
        (lambda: ChoEncoder(11, 3, 0), "hidden_size"),
        (lambda: ChoDecoder(11, 3, 4, 0), "context_size"),
    ],
)
def test_sizes_below_one_are_errors_with_their_names(build, name):
    with pytest.raises(ValueError, match=f"^{name} must be at least 1, not 0"):
        build()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["3", None, 2.5])
@pytest.mark.parametrize(
    ("build", "name"),
    [
        (lambda size: BahdanauEncoder(11, 3, size), "hidden_size"),
        (lambda size: ChoEncoder(size, 3, 4), "vocabulary_size"),
        (lambda size: ChoDecoder(11, 3, size, 4), "hidden_size"),
        (lambda size: ChoDecoder(11, 3, 4, size), "context_size"),
        (lambda size: SutskeverEncoder(11, 3, 4, size), "layers"),
        (lambda size: SutskeverDecoder(11, size, 4), "embedding_size"),
    ],
)
def test_sizes_that_are_no_integers_are_errors_with_their_names(build, name, size):
    with pytest.raises(TypeError, match=f"^{name} must be an integer, not {size!r}"):
        build(size)
