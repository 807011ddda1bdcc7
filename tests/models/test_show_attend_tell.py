import pytest
import torch

from companion.attention import (
    Additive,
    HalfAndHalf,
    HardAttention,
    StraightThroughGumbel,
)
from companion.decoding import beam_search, greedy
from companion.models import (
    Captioner,
    EncoderDecoder,
    HardCaptioner,
    ImageEncoder,
    to_hard_attention,
)
from tests.reference import bahdanau_2015, scalars, xu_2015
from tests.tiny import SOURCE, TARGET, captioner, close, sentences, spread

WORDS, EMBEDDING, HIDDEN, SIZE = 5, 3, 4, 6


def soft():
    return spread(Captioner(WORDS, EMBEDDING, HIDDEN, SIZE, Additive(HIDDEN, SIZE, 7)))


def hard(kind=HardAttention):
    return spread(
        HardCaptioner(WORDS, EMBEDDING, HIDDEN, SIZE, kind(Additive(HIDDEN, SIZE, 7)))
    )


def images(count=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, 1, 32, 32, dtype=torch.float64, generator=generator)


def encoder():
    return spread(ImageEncoder(SIZE))


def plain(decoder):
    """Its parameters by the names of a decoder with soft attention."""
    named = scalars.values(decoder)
    return {
        name.replace("attention.attention.", "attention."): value
        for name, value in named.items()
    }


# The encoder


def test_the_annotations_are_those_of_the_loops():
    model = encoder()
    found, mask = model(images(1))
    close(found[0], xu_2015.annotations(scalars.values(model), images(1)[0].tolist()))
    assert (found[0, :, :-2] > 0).any()
    assert mask.shape == (1, 64)
    assert mask.all()


def test_a_field_sees_its_pixels_and_their_neighbourhood():
    model, image = encoder(), images(1).requires_grad_()
    annotations, _ = model(image)
    (gradient,) = torch.autograd.grad(
        annotations[0, 8 * 3 + 5].sum(), image
    )  # row 3, column 5
    rows, columns = gradient[0, 0].nonzero().unbind(1)
    assert 12 - 3 <= rows.min() < 12 < 15 < rows.max() <= 15 + 3
    assert 20 - 3 <= columns.min() < 20 < 23 < columns.max() <= 23 + 3


def test_an_images_annotations_do_not_depend_on_the_others():
    model = encoder()
    together, _ = model(images(2))
    close(together[1:], model(images(2)[1:])[0])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "shape", [(2, 1, 32, 31), (2, 3, 32, 32), (2, 32, 32), (2, 1, 28, 28)]
)
def test_images_of_another_size_are_errors_with_the_numbers(shape):
    numbers = ", ".join(map(str, shape))
    with pytest.raises(ValueError, match=rf"\(b, 1, 32, 32\), not \({numbers}\)"):
        ImageEncoder()(torch.zeros(shape))


def test_too_few_features_are_an_error():
    with pytest.raises(ValueError, match=r"at least 3, .* not 2"):
        ImageEncoder(2)


# The decoder


def test_it_is_the_papers_on_images():
    model, read = soft(), encoder()
    annotations, mask = read(images(3))
    logits, look = model.trace(TARGET, model.start(annotations, mask))
    for row in range(3):
        expected, weights = xu_2015.teacher_forced(
            scalars.values(model), annotations[row].tolist(), TARGET[row].tolist()
        )
        close(logits[row], expected)
        close(look.weights[row], weights)
        close(look.entropy[row], [scalars.entropy(w) for w in weights])
    assert not look.log_prob.any()


def test_it_is_the_papers_on_sentences_with_padding():
    model = captioner()
    parameters = scalars.values(model)
    logits = model(SOURCE, TARGET)
    for row, sentence in enumerate(sentences(SOURCE)):
        states = bahdanau_2015.encoder(
            scalars.part(parameters, "encoder"), sentence.tolist()
        )
        expected, _ = xu_2015.teacher_forced(
            scalars.part(parameters, "decoder"), states, TARGET[row].tolist()
        )
        close(logits[row], expected)


def test_an_image_without_places_brings_no_context_and_no_nan():
    model, states = soft(), torch.randn(2, 5, SIZE, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [False] * 5])
    logits, look = model.trace(TARGET[:2], model.start(states, mask))
    assert logits.isfinite().all()
    assert not look.weights[1].any()
    close(logits[:1], model(TARGET[:1], model.start(states[:1], mask[:1])))


def test_the_gate_is_one_number_a_step():
    model = soft()
    state = model.start(*encoder()(images()))
    after = model.step(torch.tensor([1, 3]), state).state
    seen = (after.attended.weights[:, None] @ state.memory.value).squeeze(1)
    gate = (after.context / seen)[
        :, -1:
    ]  # the last feature, the column; others may be 0
    close(after.context, gate * seen)
    assert (seen != 0).sum(1).min() > 2
    assert ((gate > 0) & (gate < 1)).all()
    assert gate[0] != gate[1]


@pytest.mark.parametrize("training", [True, False])
def test_the_hard_captioner_is_the_papers_where_it_looked(training):
    torch.manual_seed(0)
    model = hard().train(training)
    annotations, mask = encoder()(images(3))
    logits, look = model.trace(TARGET, model.start(annotations, mask))
    assert look.weights.sum(-1).eq(1).all()
    for row in range(3):
        looks = look.weights[row].tolist()
        expected, alpha = xu_2015.teacher_forced(
            plain(model), annotations[row].tolist(), TARGET[row].tolist(), looks
        )
        close(logits[row], expected)
        places = [weights.index(1) for weights in looks]
        chances = torch.tensor(
            [a[i] for a, i in zip(alpha, places, strict=True)], dtype=torch.float64
        )
        close(look.log_prob[row], chances.log())
        close(look.entropy[row], [scalars.entropy(a) for a in alpha])
        if not training:
            assert places == [a.index(max(a)) for a in alpha]


@pytest.mark.parametrize(
    "make", [hard, lambda: hard(HalfAndHalf)], ids=["hard", "half and half"]
)
def test_at_evaluation_stepwise_is_teacher_forced_and_searches_agree(make):
    model = make().eval()
    start = model.start(*encoder()(images(3)))
    state, logits = start, []
    for token in TARGET.unbind(1):
        step = model.step(token, state)
        state = step.state
        logits.append(step.logits)
        assert step.weights.sum(-1).tolist() == [1, 1, 1]
    close(torch.stack(logits, 1), model(TARGET, start))
    best, one = greedy(model.step, start, 6), beam_search(model.step, start, 6, 1)
    assert torch.equal(best.tokens, one.tokens[:, 0])
    assert ((best.weights == 0) | (best.weights == 1)).all()


def test_in_training_looks_differ_and_all_parameters_learn():
    model = hard(HalfAndHalf)
    torch.manual_seed(0)
    start = model.start(*encoder()(images(3)))
    looks = {
        tuple(model.trace(TARGET, start)[1].weights.argmax(-1).flatten().tolist())
        for _ in range(10)
    }
    assert len(looks) > 1
    logits, look = model.trace(TARGET, start)
    (logits.square().sum() + look.log_prob.sum()).backward()
    assert all(p.grad.any() for p in model.parameters())


def test_a_gumbel_softmax_serves_as_its_attention():
    torch.manual_seed(0)
    attention = StraightThroughGumbel(Additive(HIDDEN, SIZE, 7))
    model = spread(Captioner(WORDS, EMBEDDING, HIDDEN, SIZE, attention))
    logits, look = model.trace(TARGET, model.start(*encoder()(images(3))))
    assert ((look.weights == 0) | (look.weights == 1)).all()
    logits.square().sum().backward()
    assert all(p.grad.any() for p in model.parameters())


def test_a_hardened_captioner_draws_by_the_weights_of_the_soft_one():
    model = soft()
    drawn = to_hard_attention(model).eval()
    start, target = model.start(*encoder()(images(3))), TARGET[:, :1]
    _, look = drawn.trace(target, start)
    _, expected = model.trace(target, start)
    assert torch.equal(look.weights.argmax(-1), expected.weights.argmax(-1))
    close(look.entropy, expected.entropy)
    with torch.no_grad():
        drawn.attention.attention.v.zero_()
        drawn.W_h.weight.zero_()
    assert model.attention.v.all()
    assert model.W_h.weight.any()
    parameters = {
        name: p
        for name, p in to_hard_attention(model).named_parameters()
        if "attention" not in name
    }
    assert parameters
    assert all(
        torch.equal(p, model.get_parameter(name)) for name, p in parameters.items()
    )


@pytest.mark.parametrize("training", [True, False])
def test_a_hardened_captioner_trains_if_the_soft_one_does(training):
    assert {
        part.training for part in to_hard_attention(soft().train(training)).modules()
    } == {training}


def test_an_encoder_decoder_takes_images():
    model = EncoderDecoder(encoder(), soft())
    target = torch.tensor([[1, 3, 2], [1, 4, 2]])
    log_probs = model(images(), target[:, :-1]).log_softmax(-1)
    expected = log_probs.gather(-1, target[:, 1:, None]).squeeze(-1).sum(1)
    close(model.log_prob(images(), target), expected)


@pytest.mark.usefixtures("unchecked")
def test_each_captioner_needs_its_attention():
    attention = Additive(HIDDEN, SIZE, 7)
    with pytest.raises(
        TypeError, match="HardCaptioner needs HardAttention, not Additive"
    ):
        HardCaptioner(WORDS, EMBEDDING, HIDDEN, SIZE, attention)
    with pytest.raises(TypeError, match="Captioner needs Attention, not HardAttention"):
        Captioner(WORDS, EMBEDDING, HIDDEN, SIZE, HardAttention(attention))


def test_sizes_below_one_are_errors():
    with pytest.raises(ValueError, match="hidden_size must be at least 1, not 0"):
        Captioner(WORDS, EMBEDDING, 0, SIZE, Additive(HIDDEN, SIZE, 7))


@pytest.mark.usefixtures("unchecked")
def test_annotations_and_targets_that_do_not_fit_are_errors():
    model = soft()
    with pytest.raises(
        ValueError, match="the source has 7 features, but 6 were announced"
    ):
        model.start(torch.zeros(2, 64, 7), torch.ones(2, 64, dtype=torch.bool))
    start = model.start(*encoder()(images(2)))
    for target in (TARGET, TARGET[:2, :0]):
        with pytest.raises(
            ValueError, match=rf"\({len(target)}, {target.shape[1]}\) does not fit 2"
        ):
            model(target, start)
