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
from tests.tiny import MARKS, SOURCE, TARGET, captioner, close, sentences, spread

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


def soft_parameters(decoder):
    """The parameters of a hard captioner by the names of a soft one."""
    named = scalars.values(decoder)
    return {
        name.replace("attention.attention.", "attention."): value
        for name, value in named.items()
    }


# The encoder


def test_annotations_equal_those_of_scalar_loops():
    model = encoder()
    found, mask = model(images(1))
    close(found[0], xu_2015.annotations(scalars.values(model), images(1)[0].tolist()))
    assert (found[0, :, :-2] > 0).any()
    assert mask.shape == (1, 64)
    assert mask.all()


def test_the_receptive_field_of_a_region_is_its_pixels_and_three_more_a_side():
    model, image = encoder(), images(1).requires_grad_()
    annotations, _ = model(image)
    (gradient,) = torch.autograd.grad(
        annotations[0, 8 * 3 + 5].sum(), image
    )  # row 3, column 5
    rows, columns = gradient[0, 0].nonzero().unbind(1)
    assert 12 - 3 <= rows.min() < 12 < 15 < rows.max() <= 15 + 3
    assert 20 - 3 <= columns.min() < 20 < 23 < columns.max() <= 23 + 3


def test_an_image_does_not_depend_on_the_others_of_its_batch():
    model = encoder()
    batched, _ = model(images(2))
    close(batched[1:], model(images(2)[1:])[0])


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "shape", [(2, 1, 32, 31), (2, 3, 32, 32), (2, 32, 32), (2, 1, 28, 28)]
)
def test_images_of_another_shape_are_errors(shape):
    with pytest.raises(RuntimeError, match="size"):
        ImageEncoder()(torch.zeros(shape))


@pytest.mark.usefixtures("unchecked")
def test_images_of_integers_are_an_error():
    with pytest.raises(RuntimeError, match="unsigned char"):
        ImageEncoder()(torch.zeros(2, 1, 32, 32, dtype=torch.uint8))


def test_fewer_than_three_features_are_an_error():
    with pytest.raises(ValueError, match=r"size must be at least 3, .* not 2"):
        ImageEncoder(2)


# The decoder


def test_the_captioner_equals_the_papers_equations_on_images():
    model, read = soft(), encoder()
    annotations, mask = read(images(3))
    logits, attended = model.trace(TARGET, model.start(annotations, mask))
    for row in range(3):
        expected, weights = xu_2015.teacher_forced(
            scalars.values(model), annotations[row].tolist(), TARGET[row].tolist()
        )
        close(logits[row], expected)
        close(attended.weights[row], weights)
        close(attended.entropy[row], [scalars.entropy(w) for w in weights])
    assert not attended.log_prob.any()


def test_the_captioner_equals_the_papers_equations_on_padded_sentences():
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


def test_a_fully_masked_image_gives_a_zero_context_and_no_nan():
    model, states = soft(), torch.randn(2, 5, SIZE, dtype=torch.float64)
    mask = torch.tensor([[True] * 5, [False] * 5])
    logits, attended = model.trace(TARGET[:2], model.start(states, mask))
    assert logits.isfinite().all()
    assert not attended.weights[1].any()
    close(logits[:1], model(TARGET[:1], model.start(states[:1], mask[:1])))


def test_the_gate_is_a_scalar_for_each_step():
    model = soft()
    state = model.start(*encoder()(images()))
    after = model.step(torch.tensor([1, 3]), state).state
    average = (after.attended.weights[:, None] @ state.memory.value).squeeze(1)
    # Of the last feature, the column, because others may be 0.
    gate = (after.context / average)[:, -1:]
    close(after.context, gate * average)
    assert (average != 0).sum(1).min() > 2
    assert ((gate > 0) & (gate < 1)).all()
    assert gate[0] != gate[1]


@pytest.mark.parametrize("training", [True, False])
def test_the_hard_captioner_equals_the_papers_equations_for_its_samples(training):
    torch.manual_seed(0)
    model = hard().train(training)
    annotations, mask = encoder()(images(3))
    logits, attended = model.trace(TARGET, model.start(annotations, mask))
    assert attended.weights.sum(-1).eq(1).all()
    for row in range(3):
        samples = attended.weights[row].tolist()
        expected, alpha = xu_2015.teacher_forced(
            soft_parameters(model),
            annotations[row].tolist(),
            TARGET[row].tolist(),
            samples,
        )
        close(logits[row], expected)
        regions = [weights.index(1) for weights in samples]
        probabilities = torch.tensor(
            [a[i] for a, i in zip(alpha, regions, strict=True)], dtype=torch.float64
        )
        close(attended.log_prob[row], probabilities.log())
        close(attended.entropy[row], [scalars.entropy(a) for a in alpha])
        if not training:
            assert regions == [a.index(max(a)) for a in alpha]


@pytest.mark.parametrize(
    "make", [hard, lambda: hard(HalfAndHalf)], ids=["hard", "half and half"]
)
def test_at_evaluation_steps_equal_teacher_forcing_and_searches_agree(make):
    model = make().eval()
    start = model.start(*encoder()(images(3)))
    state, logits = start, []
    for token in TARGET.unbind(1):
        step = model.step(token, state)
        state = step.state
        logits.append(step.logits)
        assert step.weights.sum(-1).tolist() == [1, 1, 1]
    close(torch.stack(logits, 1), model(TARGET, start))
    best, one = (
        greedy(model.step, start, 6, **MARKS),
        beam_search(model.step, start, 6, 1, **MARKS),
    )
    assert torch.equal(best.tokens, one.tokens[:, 0])
    assert ((best.weights == 0) | (best.weights == 1)).all()


def test_in_training_samples_differ_and_all_parameters_get_gradients():
    model = hard(HalfAndHalf)
    torch.manual_seed(0)
    start = model.start(*encoder()(images(3)))
    samples = {
        tuple(model.trace(TARGET, start)[1].weights.argmax(-1).flatten().tolist())
        for _ in range(10)
    }
    assert len(samples) > 1
    logits, attended = model.trace(TARGET, start)
    (logits.square().sum() + attended.log_prob.sum()).backward()
    assert all(p.grad.any() for p in model.parameters())


def test_a_gumbel_softmax_can_be_its_attention():
    torch.manual_seed(0)
    attention = StraightThroughGumbel(Additive(HIDDEN, SIZE, 7))
    model = spread(Captioner(WORDS, EMBEDDING, HIDDEN, SIZE, attention))
    logits, attended = model.trace(TARGET, model.start(*encoder()(images(3))))
    assert ((attended.weights == 0) | (attended.weights == 1)).all()
    logits.square().sum().backward()
    assert all(p.grad.any() for p in model.parameters())


def test_a_captioner_made_hard_samples_from_the_weights_of_the_soft_one():
    model = soft()
    hardened = to_hard_attention(model).eval()
    start, target = model.start(*encoder()(images(3))), TARGET[:, :1]
    _, attended = hardened.trace(target, start)
    _, expected = model.trace(target, start)
    assert torch.equal(attended.weights.argmax(-1), expected.weights.argmax(-1))
    close(attended.entropy, expected.entropy)
    with torch.no_grad():
        hardened.attention.attention.v.zero_()
        hardened.W_h.weight.zero_()
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
def test_a_captioner_made_hard_is_in_the_mode_of_the_soft_one(training):
    assert {
        part.training for part in to_hard_attention(soft().train(training)).modules()
    } == {training}


def test_an_encoder_decoder_takes_images():
    model = EncoderDecoder(encoder(), soft())
    target = torch.tensor([[1, 3, 2], [1, 4, 2]])
    log_probs = model(images(), target[:, :-1]).log_softmax(-1)
    expected = log_probs.gather(-1, target[:, 1:, None]).squeeze(-1).sum(1)
    close(model.log_prob(images(), target, pad=0), expected)


@pytest.mark.usefixtures("unchecked")
def test_each_captioner_needs_its_type_of_attention():
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
        ValueError, match=r"states of the source need a shape \(b, k, 6\), not"
    ):
        model.start(torch.zeros(2, 64, 7), torch.ones(2, 64, dtype=torch.bool))
    start = model.start(*encoder()(images(2)))
    for target, problem in (
        (TARGET, "does not fit 2"),
        (TARGET[:2, :0], "has no token"),
    ):
        shape = rf"\({len(target)}, {target.shape[1]}\)"
        with pytest.raises(ValueError, match=f"{shape} {problem}"):
            model(target, start)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["6", None, 2.5])
def test_sizes_that_are_no_integers_are_errors(size):
    with pytest.raises(TypeError):
        ImageEncoder(size)
    for sizes in ((size, 3, 4, 6), (5, size, 4, 6), (5, 3, size, 6), (5, 3, 4, size)):
        with pytest.raises(TypeError, match=f"_size must be an integer, not {size!r}"):
            Captioner(*sizes, Additive(4, 6, 7))


@pytest.mark.usefixtures("unchecked")
def test_annotations_and_masks_of_another_shape_or_dtype_are_errors():
    model, annotations = soft(), torch.zeros(2, 9, SIZE, dtype=torch.float64)
    mask = torch.ones(2, 9, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"\(b, k, 6\), not \(9, 6\)"):
        model.start(annotations[0], mask[0])
    with pytest.raises(ValueError, match=r"needs a mask of \(2, 9\), not \(2, 8\)"):
        model.start(annotations, mask[:, 1:])
    with pytest.raises(ValueError, match=r"\(2, 0, 6\) is empty"):
        model.start(annotations[:, :0], mask[:, :0])
    with pytest.raises(TypeError, match=r"must be boolean.*not torch\.float64"):
        model.start(annotations, mask.double())


class EncoderAndCaptioner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.captioner = ImageEncoder(SIZE), soft()

    def forward(self, images, target):
        return self.captioner(target, self.captioner.start(*self.encoder(images)))


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
def test_an_exported_captioner_takes_another_batch():
    model, batch = spread(EncoderAndCaptioner()), torch.export.Dim("batch", min=2)
    exported = torch.export.export(
        model, (images(3), TARGET), dynamic_shapes=({0: batch}, {0: batch})
    ).module()
    close(exported(images(2), TARGET[:2]), model(images(2), TARGET[:2]))
