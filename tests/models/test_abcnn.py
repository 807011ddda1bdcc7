import pytest
import torch
from torch.autograd import gradcheck

from companion.attention import mean_pooling
from companion.models import (
    ABCNN1,
    ABCNN2,
    ABCNN3,
    BCNN,
    PairClassifier,
    SentenceStates,
    match_scores,
)
from tests.reference import scalars, yin_2016
from tests.tiny import close, spread

# Pairs of sentences of 4 and 6, 1 and 3, and 6 and 1 words.
LEFT, RIGHT = [4, 1, 6], [6, 3, 1]
BLOCKS = {
    "bcnn": (lambda: spread(BCNN(3, 5, width=3)), False, False),
    "abcnn-1": (lambda: spread(ABCNN1(3, 5, width=3, max_length=6)), True, False),
    "abcnn-2": (lambda: spread(ABCNN2(3, 5, width=3)), False, True),
    "abcnn-3": (lambda: spread(ABCNN3(3, 5, width=3, max_length=6)), True, True),
    "abcnn-3 of single words": (
        lambda: spread(ABCNN3(3, 5, width=1, max_length=7)),
        True,
        True,
    ),
}
blocks = pytest.mark.parametrize(
    ("build", "before", "after"), BLOCKS.values(), ids=BLOCKS
)


def side(lengths, padding=0, fill=0.0, seed=0):
    """Sentences of these lengths; their words do not depend on ``padding`` and ``fill``."""
    words = torch.randn(
        3, 6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    )
    mask = torch.arange(max(lengths) + padding) < torch.tensor(lengths)[:, None]
    words = torch.nn.functional.pad(words[:, : max(lengths)], (0, 0, 0, padding))
    return SentenceStates(words.masked_fill(~mask[..., None], fill), mask)


def pair(**kind):
    return side(LEFT, **kind), side(RIGHT, seed=1, **kind)


def words(sentences, row):
    return sentences.states[row][sentences.mask[row]].tolist()


@blocks
def test_a_block_equals_the_papers_equations(build, before, after):
    block = build()
    left, right = pair(padding=2)
    first, second = block(left, right)
    parameters = scalars.values(block)
    for row in range(3):
        expected = yin_2016.abcnn(
            parameters, words(left, row), words(right, row), before, after
        )
        close(first.states[row, : LEFT[row]], expected[0])
        close(second.states[row, : RIGHT[row]], expected[1])


@blocks
def test_a_block_keeps_the_length_and_padding_of_a_sentence(build, before, after):
    for side_in, side_out in zip(pair(), build()(*pair()), strict=True):
        assert torch.equal(side_out.mask, side_in.mask)
        assert side_out.states.shape == (*side_in.mask.shape, 5)
        assert not side_out.states[~side_out.mask].any()
        assert side_out.states[side_out.mask].all()


@blocks
def test_padding_changes_nothing(build, before, after):
    block = build()
    for plain, padded in zip(
        block(*pair()), block(*pair(padding=4, fill=100.0)), strict=True
    ):
        length = plain.mask.shape[1]
        assert padded.mask.shape[1] == length + 4
        close(padded.states[:, :length], plain.states)
        assert not padded.states[:, length:].any()


@blocks
def test_a_convolution_makes_phrases(build, before, after):
    block = build()
    for given, made in zip(
        pair(padding=1), block.convolve(*pair(padding=1)), strict=True
    ):
        assert made.mask.sum(1).tolist() == [
            n + block.width - 1 for n in given.mask.sum(1).tolist()
        ]
        assert not made.states[~made.mask].any()
        everything = torch.stack(
            [made.states[row][made.mask[row]].mean(0) for row in range(3)]
        )
        close(mean_pooling(*made), everything)  # all-ap


@blocks
def test_a_block_is_symmetric_in_its_two_sides(build, before, after):
    block, (left, right) = build(), pair()
    for found, expected in zip(
        block(right, left), reversed(block(left, right)), strict=True
    ):
        close(found.states, expected.states)


@blocks
def test_only_with_attention_does_a_sentence_depend_on_the_other(build, before, after):
    block, (left, right) = build(), pair()
    other = right._replace(states=right.states + 1.0)
    same = torch.allclose(
        block(left, right)[0].states, block(left, other)[0].states, atol=1e-6
    )
    assert same == (not before and not after)


def test_a_stack_of_blocks():
    one, two = (
        spread(ABCNN3(3, 5, 3, max_length=6)),
        spread(ABCNN3(5, 2, 4, max_length=6)),
    )
    left, right = two(*one(*pair(padding=2)))
    given = pair()
    for row in range(3):
        expected = words(given[0], row), words(given[1], row)
        for block in (one, two):
            expected = yin_2016.abcnn(scalars.values(block), *expected, True, True)
        close(left.states[row, : LEFT[row]], expected[0])
        close(right.states[row, : RIGHT[row]], expected[1])


@blocks
def test_gradients_of_a_block_are_correct_and_zero_at_padding(build, before, after):
    block, (left, right) = build(), pair(padding=1)
    states = left.states.requires_grad_(), right.states.requires_grad_()
    parameters = tuple(block.parameters())

    def output(first, second, *parameters):
        given = dict(
            zip([name for name, _ in block.named_parameters()], parameters, strict=True)
        )
        sides = SentenceStates(first, left.mask), SentenceStates(second, right.mask)
        made = torch.func.functional_call(block, given, sides)
        return made[0].states, made[1].states

    assert gradcheck(output, (*states, *parameters), fast_mode=True)
    sum(x.square().sum() for x in output(*states, *parameters)).backward()
    for given in (left, right):
        assert not given.states.grad[~given.mask].any()
        assert given.states.grad[given.mask].any(-1).all()


@blocks
def test_a_sentence_paired_with_itself_has_finite_gradients(build, before, after):
    block, left = build(), side(LEFT)
    left.states.requires_grad_()
    first, second = block(left, left)
    close(first.states, second.states)
    (first.states.sum() + second.states.square().sum()).backward()
    assert left.states.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in block.parameters())


@blocks
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_block_in_every_precision(build, before, after, dtype):
    expected, block = build()(*pair()), build().to(dtype)
    found = block(*(x._replace(states=x.states.to(dtype)) for x in pair()))
    tolerance = 1e-4 if dtype == torch.float32 else 0.15
    for made, right in zip(found, expected, strict=True):
        assert made.states.dtype == dtype
        torch.testing.assert_close(
            made.states.double(), right.states, atol=tolerance, rtol=tolerance
        )


@blocks
def test_a_block_of_no_pair(build, before, after):
    left, right = (SentenceStates(*(x[:0] for x in one)) for one in pair())
    assert [made.states.shape for made in build()(left, right)] == [
        (0, 6, 5),
        (0, 6, 5),
    ]


def test_match_scores_of_known_distances():
    left = SentenceStates(
        torch.tensor([[[0.0, 0.0], [3.0, 4.0]]]), torch.tensor([[True, True]])
    )
    right = SentenceStates(
        torch.tensor([[[3.0, 4.0], [0.0, 1.0], [0.0, 0.0]]]),
        torch.tensor([[True, True, False]]),
    )
    expected = [[1 / 6, 1 / 2, 0.0], [1.0, 1 / (1 + 18**0.5), 0.0]]
    torch.testing.assert_close(match_scores(left, right), torch.tensor([expected]))


@blocks
def test_an_empty_side_is_an_error(build, before, after):
    block, (left, right) = build(), pair()
    with pytest.raises(
        ValueError, match=r"rows \[1\] of the left side of shape \(3, 6\) are empty"
    ):
        block(side([4, 0, 6]), right)
    with pytest.raises(
        ValueError, match=r"rows \[0, 2\] of the right side of shape \(3, 6\) are empty"
    ):
        block(
            left,
            right._replace(mask=right.mask & torch.tensor([[False], [True], [False]])),
        )
    with pytest.raises(ValueError, match=r"right side of shape \(3, 0, 3\) is empty"):
        block(left, SentenceStates(right.states[:, :0], right.mask[:, :0]))


@pytest.mark.usefixtures("unchecked")
@blocks
def test_sentences_that_do_not_fit_are_an_error(build, before, after):
    block, (left, right) = build(), pair()
    with pytest.raises(
        ValueError, match=r"rows \[0, 1\] .* are empty, or have padding before a word"
    ):
        block(left._replace(mask=left.mask.flip(1)), right)
    with pytest.raises(
        ValueError, match="3 left and 2 right sentences do not make pairs"
    ):
        block(left, SentenceStates(right.states[:2], right.mask[:2]))
    with pytest.raises(ValueError, match=r"right side need a shape \(b, k, 3\), not"):
        block(left, right._replace(states=right.states[..., :2]))
    with pytest.raises(
        ValueError,
        match=r"left side of shape \(3, 6, 3\) needs a mask of \(3, 6\), not \(3, 5\)",
    ):
        block(left._replace(mask=left.mask[:, 1:]), right)
    with pytest.raises(
        TypeError, match=r"mask of the left side must be boolean.*torch\.int64"
    ):
        block(left._replace(mask=left.mask.long()), right)


@pytest.mark.usefixtures("unchecked")
def test_match_scores_of_sentences_that_do_not_fit_are_an_error():
    left, right = pair()
    with pytest.raises(ValueError, match="3 left and 2 right sentences"):
        match_scores(left, SentenceStates(right.states[:2], right.mask[:2]))
    with pytest.raises(ValueError, match=r"right side need a shape \(b, k, 3\)"):
        match_scores(left, right._replace(states=right.states[..., :2]))
    with pytest.raises(ValueError, match=r"left side need a shape .* not \(6, 3\)"):
        match_scores(SentenceStates(left.states[0], left.mask[0]), right)


@pytest.mark.usefixtures("unchecked")
@blocks
def test_single_sentences_without_a_batch_are_an_error(build, before, after):
    left, right = (SentenceStates(x.states[0], x.mask[0]) for x in pair())
    with pytest.raises(ValueError, match=r"left side need a shape .* not \(6, 3\)"):
        build()(left, right)


@pytest.mark.parametrize("kind", [ABCNN1, ABCNN3])
def test_words_beyond_max_length_are_an_error_but_padding_is_not(kind):
    block = spread(kind(3, 5, 3, max_length=5))
    with pytest.raises(ValueError, match="a sentence has 6 words, but max_length is 5"):
        block(*pair())
    short = side([4, 1, 5], padding=3)
    assert short.mask.shape[1] > 5
    block(short, side([5, 3, 1]))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: BCNN(0, 5, 3), "size must be at least 1, not 0"),
        (lambda: ABCNN2(3, 0, 3), "channels must be at least 1, not 0"),
        (lambda: ABCNN1(3, 5, -1, 6), "width must be at least 1, not -1"),
        (lambda: ABCNN3(3, 5, 3, 0), "max_length must be at least 1, not 0"),
    ],
)
def test_sizes_below_one_are_an_error(build, message):
    with pytest.raises(ValueError, match=message):
        build()


TEXTS = torch.tensor([[4, 7, 5, 6], [9, 0, 0, 0], [8, 8, 4, 0]])
OTHERS = torch.tensor([[5, 0, 0], [6, 4, 10], [7, 9, 0]])
CLASSIFIER_BLOCKS = {
    "bcnn": (lambda size, channels: BCNN(size, channels, 3), False, False),
    "abcnn-1": (lambda size, channels: ABCNN1(size, channels, 3, 4), True, False),
    "abcnn-2": (lambda size, channels: ABCNN2(size, channels, 3), False, True),
    "abcnn-3": (lambda size, channels: ABCNN3(size, channels, 3, 4), True, True),
}


def tokens_of(row):
    return [token for token in row.tolist() if token]


def compared(left, right):
    x, y = (
        [sum(column) / len(side) for column in zip(*side, strict=True)]
        for side in (left, right)
    )
    return [a * b for a, b in zip(x, y, strict=True)] + [
        abs(a - b) for a, b in zip(x, y, strict=True)
    ]


@pytest.mark.parametrize(
    ("build", "before", "after"), CLASSIFIER_BLOCKS.values(), ids=CLASSIFIER_BLOCKS
)
def test_a_pair_is_compared_after_every_block(build, before, after):
    model = spread(PairClassifier(11, [build(6, 5), build(5, 2)], classes=3, pad=0))
    logits, parameters = model(TEXTS, OTHERS), scalars.values(model)
    for row, texts in enumerate(zip(TEXTS, OTHERS, strict=True)):
        sides = [
            [parameters["encoder.embedding.weight"][token] for token in tokens_of(text)]
            for text in texts
        ]
        features = compared(*sides)
        for block in ("blocks.0", "blocks.1"):
            sides = yin_2016.abcnn(
                scalars.part(parameters, block), *sides, before, after
            )
            features += compared(*sides)
        close(logits[row], scalars.linear(scalars.part(parameters, "W"), features))


@pytest.mark.parametrize(
    ("build", "before", "after"), CLASSIFIER_BLOCKS.values(), ids=CLASSIFIER_BLOCKS
)
def test_the_classifier_is_symmetric_in_its_two_texts(build, before, after):
    model = spread(PairClassifier(11, [build(6, 5)], classes=3, pad=0))
    close(model(TEXTS, OTHERS), model(OTHERS, TEXTS))


def test_word_vectors_are_initialised_far_apart_and_padding_at_zero():
    torch.manual_seed(0)
    weight = PairClassifier(
        200, [BCNN(50, 2, 3)], classes=2, pad=0
    ).encoder.embedding.weight
    assert weight[1:].std().item() == pytest.approx(0.5, rel=0.05)
    assert not weight[0].any()


def test_a_pair_with_an_empty_side_is_an_error():
    with pytest.raises(ValueError, match=r"rows \[0\] .* are empty"):
        PairClassifier(11, [BCNN(6, 5, 3)], 2, pad=0)(
            torch.tensor([[4]]), torch.tensor([[0]])
        )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("count", [1, 2])
def test_texts_that_make_no_pairs_are_an_error(count):
    with pytest.raises(
        ValueError, match=f"3 left and {count} right sentences do not make pairs"
    ):
        PairClassifier(11, [BCNN(6, 5, 3)], 2, pad=0)(TEXTS, OTHERS[:count])


def test_blocks_that_do_not_fit_are_an_error():
    model = PairClassifier(11, [BCNN(6, 5, 3), BCNN(6, 5, 3)], 2, pad=0)
    with pytest.raises(ValueError, match=r"left side need a shape \(b, k, 6\), not"):
        model(TEXTS, OTHERS)


def test_a_classifier_without_blocks_is_an_error():
    with pytest.raises(ValueError, match="blocks must be at least 1, not 0"):
        PairClassifier(11, [], classes=2, pad=0)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["3", None, 2.5])
@pytest.mark.parametrize(
    "build",
    [
        lambda size: BCNN(size, 5, 3),
        lambda size: ABCNN2(3, size, 3),
        lambda size: ABCNN1(3, 5, size, 6),
        lambda size: ABCNN3(3, 5, 3, size),
        lambda size: PairClassifier(11, [BCNN(3, 5, 3)], size),
        lambda size: PairClassifier(size, [BCNN(3, 5, 3)], 2),
    ],
)
def test_sizes_that_are_no_integers_are_errors(build, size):
    with pytest.raises(TypeError, match=f"must be an integer, not {size!r}"):
        build(size)


@pytest.mark.usefixtures("unchecked")
def test_texts_of_another_shape_or_dtype_are_errors():
    model = PairClassifier(11, [BCNN(6, 5, 3)], 2, pad=0)
    for left, right in ((TEXTS[0], OTHERS[:1]), (TEXTS[:3], OTHERS[:, 0])):
        with pytest.raises(ValueError, match=r"not \(\d,\)|do not make pairs"):
            model(left, right)
    for left, right in ((TEXTS.float(), OTHERS), (TEXTS, OTHERS.float())):
        with pytest.raises(TypeError, match=r"integers, not torch\.float32"):
            model(left, right)


def build_classifier():
    blocks = [ABCNN1(6, 5, 3, max_length=20), ABCNN3(5, 2, 3, max_length=20)]
    return PairClassifier(11, blocks, classes=3, pad=0)


def test_reset_parameters_initialises_everything_again():
    torch.manual_seed(0)
    model = build_classifier()
    for parameter in model.parameters():
        parameter.data.fill_(7)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    for name, parameter in model.named_parameters():
        assert (parameter != 7).all(), name
    embedding = model.encoder.embedding.weight
    assert embedding[1:].std().item() == pytest.approx(0.5, rel=0.2)
    assert not embedding[0].any()
    for block in model.blocks:
        bound = block.W_0.shape[1] ** -0.5
        assert 0.5 * bound < block.W_0.abs().max() <= bound


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.usefixtures("unchecked")
def test_an_exported_classifier_takes_other_batches_and_lengths():
    model = spread(build_classifier())
    batch, m, n = (
        torch.export.Dim(name, min=2, max=16) for name in ("batch", "m", "n")
    )
    exported = torch.export.export(
        model, (TEXTS, OTHERS), dynamic_shapes=({0: batch, 1: m}, {0: batch, 1: n})
    ).module()
    for left, right in ((TEXTS, OTHERS), (OTHERS[:2], TEXTS[:2, :2])):
        close(exported(left, right), model(left, right))
