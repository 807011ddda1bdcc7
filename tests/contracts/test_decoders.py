"""What every encoder–decoder guarantees. A new one is added with one row in ``tiny.MODELS``."""

import warnings

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.func import functional_call

from attention_course.data.vocabulary import pad
from companion.attention import record_weights
from companion.decoding import beam_search, greedy, map_state, tensors
from tests.conftest import slow_but
from tests.reference import searches
from tests.tiny import (
    ATTENTIVE,
    COMPILED,
    GLOBAL,
    GROWING,
    MARKS,
    MODELS,
    SOURCE,
    TARGET,
    TARGET_WORDS,
    close,
    sentences,
)


@pytest.fixture(params=MODELS)
def model(request):
    torch.manual_seed(0)
    return MODELS[request.param]()


def stepwise(model, source, target):
    """Logits and weights, one step at a time."""
    state, logits, weights = model.start(source), [], []
    for token in target.unbind(1):
        step = model.step(token, state)
        state = step.state
        logits.append(step.logits)
        weights.append(step.weights)
    return torch.stack(logits, 1), None if weights[0] is None else torch.stack(
        weights, 1
    )


def separate(leaves):
    """A hook that replaces a module's output by a leaf of the same value, appended to ``leaves``."""

    def hook(module, inputs, output):
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    return hook


def log_probs_of(model, source, written):
    """log p(sentence | source) of each sentence, all of them and all their words at once."""
    target = pad([[1, *sentence[:-1]] for sentence in written])
    log_probs = model(source.expand(len(written), -1), target).log_softmax(-1)
    return {
        sentence: sum(
            log_probs[row, t, token].item() for t, token in enumerate(sentence)
        )
        for row, sentence in enumerate(written)
    }


# Stepwise and teacher-forced


def test_stepwise_is_the_same_as_teacher_forced(model):
    close(stepwise(model, SOURCE, TARGET)[0], model(SOURCE, TARGET))


@pytest.mark.parametrize("name", ATTENTIVE)
def test_the_weights_of_the_steps_are_what_record_weights_records(name):
    model = MODELS[name]()
    _, expected = stepwise(model, SOURCE, TARGET)
    with record_weights(model) as maps:
        model(SOURCE, TARGET)
    close(torch.cat(maps["decoder.attention"], 1), expected)


@pytest.mark.parametrize("name", GLOBAL)
def test_weights_sum_to_one_over_the_tokens_of_the_source(name):
    _, weights = stepwise(MODELS[name](), SOURCE, TARGET)
    close(weights.sum(-1), torch.ones(TARGET.shape, dtype=torch.float64))
    assert (weights.transpose(1, 2)[SOURCE == 0] == 0).all()
    assert (weights.transpose(1, 2)[SOURCE != 0] > 0).all()


# Search


@pytest.mark.parametrize("max_length", [1, 7])
def test_a_beam_of_one_is_greedy(model, max_length):
    one = beam_search(model.step, model.start(SOURCE), max_length, 1, **MARKS)
    best = greedy(model.step, model.start(SOURCE), max_length, **MARKS)
    assert torch.equal(one.tokens[:, 0], best.tokens)
    close(one.log_probs[:, 0], best.log_probs)
    if best.weights is not None:
        close(one.weights[:, 0], best.weights)


def test_greedy_takes_the_most_probable_token_after_its_prefix(model):
    found = greedy(model.step, model.start(SOURCE), 6, **MARKS)
    for row, sentence in enumerate(sentences(SOURCE)):
        target, total = [1], 0.0
        while len(target) <= 6 and target[-1] != 2:
            log_prob, token = (
                model(sentence[None], torch.tensor([target]))[0, -1]
                .log_softmax(-1)
                .max(-1)
            )
            target.append(int(token))
            total += log_prob.item()
        assert found.tokens[row].tolist() == target[1:] + [0] * (
            found.tokens.shape[1] - len(target) + 1
        )
        assert found.log_probs[row].item() == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_beam_as_wide_as_the_space_is_exhaustive(model, penalty):
    space = list(searches.all_sentences(TARGET_WORDS, 3))
    found = beam_search(
        model.step, model.start(SOURCE), 3, len(space), penalty, **MARKS
    )
    for row, source in enumerate(sentences(SOURCE)):
        log_probs = log_probs_of(model, source, space)
        expected = searches.exhaustive(log_probs.__getitem__, TARGET_WORDS, 3, penalty)
        for rank, (sentence, log_prob) in enumerate(expected):
            assert found.log_probs[row, rank].item() == pytest.approx(
                log_prob, abs=1e-9
            )
            assert found.tokens[row, rank].tolist() == [
                *sentence,
                *[0] * (3 - len(sentence)),
            ]


# Padding


def test_a_batch_with_padding_is_the_same_as_each_sentence_alone(model):
    together = model(SOURCE, TARGET)
    targets = sentences(TARGET)
    for row, (source, target) in enumerate(
        zip(sentences(SOURCE), targets, strict=True)
    ):
        close(together[row, : len(target)], model(source[None], target[None])[0])


@pytest.mark.parametrize("more", [1, 5])
def test_more_padding_changes_no_result_and_no_gradient(model, more):
    def loss_and_gradients(source, target):
        logits = model(source, target)[:, : TARGET.shape[1]]
        used = (TARGET != 0)[..., None]
        loss = (logits.log_softmax(-1) * used).square().sum()
        return logits, torch.autograd.grad(loss, list(model.parameters()))

    logits, gradients = loss_and_gradients(SOURCE, TARGET)
    padded = nn.functional.pad(SOURCE, (0, more)), nn.functional.pad(TARGET, (0, more))
    more_logits, more_gradients = loss_and_gradients(*padded)
    close(more_logits, logits)
    for (name, _), found, expected in zip(
        model.named_parameters(), more_gradients, gradients, strict=True
    ):
        assert expected.abs().sum() > 0, name
        close(found, expected)


def test_the_vector_of_padding_in_the_source_does_not_matter(model):
    before = model(SOURCE, TARGET)
    model.encoder.embedding.weight.data[0] = 1e3
    close(model(SOURCE, TARGET), before)


def test_padding_does_not_change_a_search(model):
    padded = nn.functional.pad(SOURCE, (0, 4))
    for search in (
        lambda s: greedy(model.step, s, 5, **MARKS),
        lambda s: beam_search(model.step, s, 5, 3, **MARKS),
    ):
        one, other = search(model.start(SOURCE)), search(model.start(padded))
        assert torch.equal(one.tokens, other.tokens)
        close(one.log_probs, other.log_probs)


def test_what_a_search_found_and_left_can_be_trained_with(model):
    for search in (
        greedy,
        lambda *given, **marks: map_state(
            lambda x: x[:, 0], beam_search(*given, width=2, **marks)
        ),
    ):
        found = search(model.step, model.start(SOURCE), 5, **MARKS)
        reward = found.log_probs.new_ones(()).requires_grad_()
        logits = model(SOURCE, torch.cat([TARGET[:, :1], found.tokens], 1))
        (logits.sum() + (reward * found.log_probs).sum()).backward()
        assert reward.grad == found.log_probs.sum()


# The future


def test_no_logit_depends_on_later_tokens(model):
    leaves = []
    model.decoder.embedding.register_forward_hook(separate(leaves))
    logits = model(SOURCE, TARGET)
    (words,) = leaves
    for t in range(TARGET.shape[1]):
        (gradient,) = torch.autograd.grad(
            logits[:, t].square().sum(), words, retain_graph=True
        )
        assert torch.equal(gradient[:, t + 1 :], torch.zeros_like(gradient[:, t + 1 :]))
        assert (gradient[:, : t + 1] != 0).any(-1).all()  # but on all earlier ones


def test_logits_depend_on_every_token_of_the_source(model):
    leaves = []
    model.encoder.embedding.register_forward_hook(separate(leaves))
    model(SOURCE, TARGET[:, :1]).square().sum().backward()
    (words,) = leaves
    assert torch.equal((words.grad != 0).any(-1), SOURCE != 0)


# The state


def test_the_batch_axis_is_first_in_every_tensor_of_the_state(model):
    state = model.start(SOURCE)
    for token in TARGET.unbind(1):
        assert all(x.shape[0] == len(SOURCE) for x in tensors(state))
        state = model.step(token, state).state


def test_reordering_then_stepping_is_stepping_then_reordering(model):
    rows = torch.tensor([2, 0, 0, 1, 2])
    state = model.step(TARGET[:, 0], model.start(SOURCE)).state
    token = torch.tensor([4, 3, 1])
    later = map_state(lambda x: x[rows], model.step(token, state))
    sooner = model.step(token[rows], map_state(lambda x: x[rows], state))
    for found, expected in zip(tensors(sooner), tensors(later), strict=True):
        torch.testing.assert_close(found, expected)


def test_a_step_does_not_change_the_state_it_is_given(model):
    state = model.start(SOURCE)
    before = [x.clone() for x in tensors(state)]
    first = model.step(TARGET[:, 0], state).logits
    assert all(torch.equal(x, y) for x, y in zip(tensors(state), before, strict=True))
    assert torch.equal(model.step(TARGET[:, 0], state).logits, first)


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(GROWING)))
def test_state_has_the_same_shapes_and_types_after_every_step(name):
    model = MODELS[name]()
    state = model.start(SOURCE)
    after = model.step(TARGET[:, 0], state).state
    assert type(after) is type(state)
    assert [(x.shape, x.dtype) for x in tensors(after)] == [
        (x.shape, x.dtype) for x in tensors(state)
    ]


# Economy


@pytest.mark.parametrize("name", ATTENTIVE)
def test_the_source_is_projected_once(name):
    model, calls = MODELS[name](), []
    project = model.decoder.attention.project
    model.decoder.attention.project = lambda source: calls.append(1) or project(source)
    model(SOURCE, TARGET)
    assert len(calls) == 1
    greedy(model.step, model.start(SOURCE), 6, **MARKS)
    assert len(calls) == 2
    beam_search(model.step, model.start(SOURCE), 6, 3, **MARKS)
    assert len(calls) == 3


def test_the_output_layer_is_called_once_in_training(model):
    calls = []
    model.decoder.output.register_forward_hook(
        lambda module, inputs, output: calls.append(output.shape)
    )
    model(SOURCE, TARGET)
    assert calls == [(*TARGET.shape, TARGET_WORDS)]


@pytest.mark.compiled
@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.parametrize("name", slow_but({"bahdanau"}, COMPILED))
@pytest.mark.usefixtures("unchecked")
def test_decoders_compile_as_one_graph(name, device):
    torch.compiler.reset()
    model, source, target = (
        MODELS[name]().to(device),
        SOURCE.to(device),
        TARGET.to(device),
    )
    state = map_state(torch.Tensor.detach, model.start(source))
    how = {
        "fullgraph": True,
        "backend": "inductor" if device == "cuda" else "aot_eager",
    }
    step = torch.compile(model.decoder.step, **how)
    close(step(target[:, 0], state).logits, model.step(target[:, 0], state).logits)
    forward = torch.compile(model.decoder.forward, **how)
    close(forward(target, state), model.decoder(target, state))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.parametrize("name", ["convs2s", "transformer"])
@pytest.mark.usefixtures("unchecked")
def test_models_without_a_recurrence_compile_as_one_graph(name, device):
    torch.compiler.reset()
    model, source, target = (
        MODELS[name]().to(device),
        SOURCE.to(device),
        TARGET.to(device),
    )
    backend = "inductor" if device == "cuda" else "aot_eager"
    close(
        torch.compile(model, fullgraph=True, backend=backend)(source, target),
        model(source, target),
    )


@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "name", slow_but({"bahdanau"}, sorted(set(MODELS) - set(GROWING)))
)
def test_an_exported_decoder_serves_every_batch_size(name):
    model = MODELS[name]()
    state, double = (
        map_state(torch.Tensor.detach, model.start(source))
        for source in (SOURCE, SOURCE.repeat(2, 1))
    )
    batch = torch.export.Dim("batch", min=2, max=64)
    dynamic = {0: batch}, map_state(lambda _: {0: batch}, state)
    with warnings.catch_warnings():  # PyTorch warns about its own recurrent networks
        warnings.simplefilter("ignore")
        arguments = (TARGET, state)
        exported = torch.export.export(model.decoder, arguments, dynamic_shapes=dynamic)
        found = exported.module()(TARGET.repeat(2, 1), double)
    close(found, model.decoder(TARGET.repeat(2, 1), double))


@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "name",
    slow_but({"bahdanau"}, ["bahdanau", "sutskever", "convs2s", "transformer"]),
)
def test_a_compiled_encoder_refuses_padding_before_a_token(name):
    torch.compiler.reset()
    model = MODELS[name]()
    encoder = torch.compile(model.encoder, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        close(encoder(SOURCE)[0], model.encoder(SOURCE)[0])
        with pytest.raises(RuntimeError, match="padding before a word"):
            encoder(SOURCE.flip(1))


# Numbers


@pytest.mark.parametrize(
    "name", sorted(set(MODELS) - {"convs2s"})
)  # some of whose gradients it scales
def test_gradients_are_right(name):
    model = MODELS[name]()
    target = torch.tensor(
        [[1, 4, 3], [1, 3, 4]]
    )  # no padding: PyTorch gives its vector no gradient
    names, parameters = zip(*model.named_parameters(), strict=True)

    def logits(*parameters):
        given = dict(zip(names, parameters, strict=True))
        return functional_call(model, given, (SOURCE[:2, :5], target))

    assert gradcheck(logits, parameters, fast_mode=True)


def has_lstm(model):
    return any(isinstance(module, nn.LSTM) for module in model.modules())


def skip_where_pytorch_has_no_bfloat16_lstm():
    """On processors without AVX-512, ``nn.LSTM`` itself fails under autocast."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            nn.LSTM(2, 2)(torch.zeros(1, 1, 2))
    except RuntimeError as error:
        if "could not create a primitive" not in str(error):
            raise
        pytest.skip("PyTorch has no bfloat16 LSTM for this processor")


@pytest.mark.parametrize(
    "device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
)
@pytest.mark.parametrize("precision", ["float64", "float32", "bfloat16", "autocast"])
def test_every_device_and_precision(model, device, precision):
    if (device, precision) == ("cpu", "autocast") and has_lstm(model):
        skip_where_pytorch_has_no_bfloat16_lstm()
    expected = model(SOURCE, TARGET)
    dtype = torch.float32 if precision == "autocast" else getattr(torch, precision)
    model.to(device, dtype)
    source, target = SOURCE.to(device), TARGET.to(device)
    with torch.autocast(device, torch.bfloat16, enabled=precision == "autocast"):
        found = model(source, target)
        sentence = greedy(model.step, model.start(source), 4, **MARKS)
        beam = beam_search(model.step, model.start(source), 4, 3, **MARKS)
        loss = nn.functional.cross_entropy(found.flatten(0, 1), target.flatten())
    if precision != "autocast":
        assert found.dtype == dtype
    tolerance = {"float64": 1e-9, "float32": 1e-3}.get(precision, 0.3)
    torch.testing.assert_close(
        found.double().cpu(), expected, atol=tolerance, rtol=tolerance
    )
    for hypotheses in (sentence, beam):
        assert hypotheses.tokens.device.type == device
        assert hypotheses.log_probs.isfinite().all()
        assert hypotheses.log_probs.dtype == (
            torch.float64 if precision == "float64" else torch.float32
        )
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
