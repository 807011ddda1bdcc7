import pytest
import torch
from torch import nn

from companion.attention import (
    Additive,
    AttentionPooling,
    last_pooling,
    max_pooling,
    mean_pooling,
)
from companion.layers import (
    BahdanauEncoder,
    ConcatenatedPositionalEncoding,
    LearnedPositionalEncoding,
    SinusoidalPositionalEncoding,
)
from companion.models import (
    ABCNN1,
    ABCNN2,
    ABCNN3,
    BCNN,
    Classifier,
    GRUEncoder,
    PairClassifier,
    SelfAttentionEncoder,
    WordEncoder,
)
from tests.reference import recurrence, scalars, yin_2016
from tests.tiny import close, spread

TEXTS = torch.tensor([[4, 7, 5, 6], [9, 0, 0, 0], [8, 8, 4, 0]])
OTHERS = torch.tensor([[5, 0, 0], [6, 4, 10], [7, 9, 0]])
ENCODERS = {
    "words": lambda: WordEncoder(11, 6),
    "gru": lambda: GRUEncoder(11, 5, 6),
    "both ways": lambda: BahdanauEncoder(11, 5, 3),
    "attention": lambda: SelfAttentionEncoder(11, 6, 2),
    "attention, positions": lambda: SelfAttentionEncoder(
        11, 6, 3, POSITIONS["appended"]()
    ),
}
POSITIONS = {
    "added": lambda: SinusoidalPositionalEncoding(),
    "learned": lambda: LearnedPositionalEncoding(4, 6),
    "appended": lambda: nn.Sequential(
        ConcatenatedPositionalEncoding(5), nn.Linear(11, 6)
    ),
}
POOLINGS = {
    "last": lambda: last_pooling,
    "mean": lambda: mean_pooling,
    "max": lambda: max_pooling,
    "attention": lambda: AttentionPooling(Additive(5, 6, 7), 5),
}
BLOCKS = {
    "bcnn": (lambda size, channels: BCNN(size, channels, 3), False, False),
    "abcnn-1": (
        lambda size, channels: ABCNN1(size, channels, 3, max_length=4),
        True,
        False,
    ),
    "abcnn-2": (lambda size, channels: ABCNN2(size, channels, 3), False, True),
    "abcnn-3": (
        lambda size, channels: ABCNN3(size, channels, 3, max_length=4),
        True,
        True,
    ),
}


def words(row):
    return [token for token in row.tolist() if token]


@pytest.mark.parametrize("pooling", POOLINGS.values(), ids=POOLINGS)
@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_a_text_is_classified_whatever_stands_beside_it(encoder, pooling):
    model = spread(Classifier(encoder(), pooling(), 6, classes=2))
    logits = model(TEXTS)
    assert logits.shape == (3, 2)
    for row, text in enumerate(TEXTS):
        close(logits[row], model(torch.tensor([words(text)]))[0])


def test_the_mean_of_the_words_is_a_bag():
    model = spread(Classifier(WordEncoder(11, 6), mean_pooling, 6, classes=2))
    close(model(TEXTS[:1]), model(TEXTS[:1, [2, 0, 3, 1]]))
    parameters = scalars.values(model)
    vectors = [
        parameters["encoder.embedding.weight"][token] for token in words(TEXTS[2])
    ]
    mean = [sum(column) / 3 for column in zip(*vectors, strict=True)]
    close(model(TEXTS[2:])[0], scalars.linear(scalars.part(parameters, "W"), mean))


def test_the_recurrent_states_are_those_of_the_words_so_far():
    encoder = spread(GRUEncoder(11, 5, 6))
    states, mask = encoder(TEXTS)
    parameters, embedding = scalars.values(encoder.rnn), encoder.embedding.weight
    for row, text in enumerate(TEXTS):
        hidden = [0.0] * 6
        for place, token in enumerate(words(text)):
            hidden = recurrence.gru_cell(
                parameters, embedding[token].tolist(), hidden, "_l0"
            )
            close(states[row, place], hidden)
    assert torch.equal(mask, TEXTS != 0)


def test_the_order_of_the_words_matters_to_self_attention_only_with_positions():
    order = [2, 0, 3, 1]
    model = spread(
        Classifier(SelfAttentionEncoder(11, 6, 2), mean_pooling, 6, classes=2)
    )
    close(model(TEXTS[:1]), model(TEXTS[:1, order]))
    states, _ = model.encoder(TEXTS[:1])
    close(states[:, order], model.encoder(TEXTS[:1, order])[0])
    for position in POSITIONS.values():
        model = spread(
            Classifier(
                SelfAttentionEncoder(11, 6, 2, position()), mean_pooling, 6, classes=2
            )
        )
        assert (model(TEXTS[:1]) - model(TEXTS[:1, order])).abs().min() > 1e-3


@pytest.mark.parametrize("position", [None, *POSITIONS])
def test_self_attention_trains_all_its_parameters_and_no_padding(position):
    encoder = SelfAttentionEncoder(11, 6, 2, position and POSITIONS[position]())
    model = spread(Classifier(encoder, mean_pooling, 6, classes=2))
    model(TEXTS[1:]).square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    read = gradients.pop("encoder.embedding.weight").abs().sum(1) > 0
    assert read.nonzero().flatten().tolist() == [4, 8, 9]
    del gradients["encoder.attention.W_K.bias"]  # adds the same to all scores of a row
    assert all(gradient.abs().sum() > 1e-6 for gradient in gradients.values())


@pytest.mark.usefixtures("unchecked")
def test_a_position_that_changes_the_size_is_an_error():
    encoder = SelfAttentionEncoder(11, 6, 2, ConcatenatedPositionalEncoding(5))
    with pytest.raises(ValueError, match="11 features, but 6 were announced"):
        encoder(TEXTS)


def test_dropout_is_between_pooling_and_output_in_training_alone():
    model = spread(
        Classifier(WordEncoder(11, 600), mean_pooling, 600, classes=600, dropout=0.25)
    )
    model.W.weight.data, model.W.bias.data = (
        torch.eye(600).double(),
        torch.ones(600).double(),
    )
    pooled = model.encoder.embedding(TEXTS[:1]).mean(1)
    dropped = model(TEXTS[:1]) - 1
    zero = dropped == 0
    assert 0.15 < zero.double().mean() < 0.35
    close(dropped[~zero], pooled[~zero] / 0.75)
    close(model.eval()(TEXTS[:1]) - 1, pooled)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_dropout_that_is_no_share_is_an_error(share):
    with pytest.raises(ValueError, match=f"got {share}"):
        Classifier(WordEncoder(11, 6), mean_pooling, 6, classes=2, dropout=share)


def test_a_pooling_with_parameters_is_trained_with_the_model():
    model = Classifier(WordEncoder(11, 6), POOLINGS["attention"](), 6, classes=2)
    model(TEXTS).sum().backward()
    assert model.pooling.query.grad.abs().sum() > 0
    assert "pooling.query" in dict(model.named_parameters())


def compared(left, right):
    x, y = (
        [sum(column) / len(side) for column in zip(*side, strict=True)]
        for side in (left, right)
    )
    return [a * b for a, b in zip(x, y, strict=True)] + [
        abs(a - b) for a, b in zip(x, y, strict=True)
    ]


@pytest.mark.parametrize(("build", "before", "after"), BLOCKS.values(), ids=BLOCKS)
def test_a_pair_is_compared_at_every_level(build, before, after):
    model = spread(PairClassifier(11, [build(6, 5), build(5, 2)], classes=3))
    logits, parameters = model(TEXTS, OTHERS), scalars.values(model)
    for row, texts in enumerate(zip(TEXTS, OTHERS, strict=True)):
        sides = [
            [parameters["encoder.embedding.weight"][token] for token in words(text)]
            for text in texts
        ]
        features = compared(*sides)
        for block in ("blocks.0", "blocks.1"):
            sides = yin_2016.abcnn(
                scalars.part(parameters, block), *sides, before, after
            )
            features += compared(*sides)
        close(logits[row], scalars.linear(scalars.part(parameters, "W"), features))


@pytest.mark.parametrize(("build", "before", "after"), BLOCKS.values(), ids=BLOCKS)
def test_the_sides_of_a_pair_may_be_exchanged(build, before, after):
    model = spread(PairClassifier(11, [build(6, 5)], classes=3))
    close(model(TEXTS, OTHERS), model(OTHERS, TEXTS))


def test_the_words_of_a_pair_begin_apart_and_padding_at_zero():
    torch.manual_seed(0)
    weight = PairClassifier(200, [BCNN(50, 2, 3)], classes=2).encoder.embedding.weight
    assert weight[1:].std().item() == pytest.approx(0.5, rel=0.05)
    assert not weight[0].any()


@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_an_empty_text_is_an_error(encoder):
    with pytest.raises(ValueError, match=r"rows \[1\] are empty"):
        Classifier(encoder(), mean_pooling, 6, 2)(torch.tensor([[4], [0]]))


def test_a_pair_with_an_empty_side_is_an_error():
    with pytest.raises(ValueError, match=r"rows \[0\] are empty"):
        PairClassifier(11, [BCNN(6, 5, 3)], 2)(torch.tensor([[4]]), torch.tensor([[0]]))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("count", [1, 2])
def test_texts_without_a_partner_are_an_error(count):
    with pytest.raises(
        ValueError, match=f"3 left and {count} right sentences do not make pairs"
    ):
        PairClassifier(11, [BCNN(6, 5, 3)], 2)(TEXTS, OTHERS[:count])


def test_blocks_that_do_not_fit_are_an_error():
    with pytest.raises(
        ValueError, match="5 channels is followed by one that reads 6 features"
    ):
        PairClassifier(11, [BCNN(6, 5, 3), BCNN(6, 5, 3)], 2)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Classifier(WordEncoder(11, 6), mean_pooling, 6, classes=0),
        lambda: Classifier(WordEncoder(11, 6), mean_pooling, 0, classes=2),
        lambda: GRUEncoder(11, 5, 0),
        lambda: WordEncoder(11, 0),
        lambda: SelfAttentionEncoder(11, 0, 2),
        lambda: SelfAttentionEncoder(11, 6, 0),
        lambda: PairClassifier(11, [], classes=2),
    ],
)
def test_sizes_below_one_are_an_error(build):
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        build()
