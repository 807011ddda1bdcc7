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
    ConcatenatedPositionalEncoding,
    LearnedPositionalEncoding,
    ScaledEmbedding,
    SinusoidalPositionalEncoding,
)
from companion.models import (
    BahdanauEncoder,
    Classifier,
    GRUEncoder,
    SelfAttentionEncoder,
    WordEncoder,
)
from tests.reference import recurrence, scalars
from tests.tiny import close, spread

TEXTS = torch.tensor([[4, 7, 5, 6], [9, 0, 0, 0], [8, 8, 4, 0]])
ENCODERS = {
    "words": lambda: WordEncoder(11, 6, pad=0),
    "gru": lambda: GRUEncoder(11, 5, 6, pad=0),
    "both ways": lambda: BahdanauEncoder(11, 5, 3, pad=0),
    "attention": lambda: SelfAttentionEncoder(11, 6, 2, pad=0),
    "attention, positions": lambda: SelfAttentionEncoder(
        11, 6, 3, POSITIONS["appended"](), pad=0
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


def words(row):
    return [token for token in row.tolist() if token]


@pytest.mark.parametrize("pooling", POOLINGS.values(), ids=POOLINGS)
@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_other_texts_and_padding_change_nothing(encoder, pooling):
    model = spread(Classifier(encoder(), pooling(), 6, classes=2))
    logits = model(TEXTS)
    assert logits.shape == (3, 2)
    for row, text in enumerate(TEXTS):
        close(logits[row], model(torch.tensor([words(text)]))[0])


def test_the_mean_of_word_vectors_is_a_bag_of_words():
    model = spread(Classifier(WordEncoder(11, 6, pad=0), mean_pooling, 6, classes=2))
    close(model(TEXTS[:1]), model(TEXTS[:1, [2, 0, 3, 1]]))
    parameters = scalars.values(model)
    vectors = [
        parameters["encoder.embedding.weight"][token] for token in words(TEXTS[2])
    ]
    mean = [sum(column) / 3 for column in zip(*vectors, strict=True)]
    close(model(TEXTS[2:])[0], scalars.linear(scalars.part(parameters, "W"), mean))


def test_a_recurrent_state_depends_on_the_words_so_far():
    encoder = spread(GRUEncoder(11, 5, 6, pad=0))
    states, mask = encoder(TEXTS)
    parameters, embedding = scalars.values(encoder.rnn), encoder.embedding.weight
    for row, text in enumerate(TEXTS):
        hidden = [0.0] * 6
        for position, token in enumerate(words(text)):
            hidden = recurrence.gru_cell(
                parameters, embedding[token].tolist(), hidden, "_l0"
            )
            close(states[row, position], hidden)
    assert torch.equal(mask, TEXTS != 0)


def test_self_attention_depends_on_word_order_only_with_positions():
    order = [2, 0, 3, 1]
    model = spread(
        Classifier(SelfAttentionEncoder(11, 6, 2, pad=0), mean_pooling, 6, classes=2)
    )
    close(model(TEXTS[:1]), model(TEXTS[:1, order]))
    states, _ = model.encoder(TEXTS[:1])
    close(states[:, order], model.encoder(TEXTS[:1, order])[0])
    for position in POSITIONS.values():
        model = spread(
            Classifier(
                SelfAttentionEncoder(11, 6, 2, position(), pad=0),
                mean_pooling,
                6,
                classes=2,
            )
        )
        assert (model(TEXTS[:1]) - model(TEXTS[:1, order])).abs().min() > 1e-3


@pytest.mark.parametrize("position", [None, *POSITIONS])
def test_self_attention_has_gradients_everywhere_but_at_padding(position):
    encoder = SelfAttentionEncoder(11, 6, 2, position and POSITIONS[position](), pad=0)
    model = spread(Classifier(encoder, mean_pooling, 6, classes=2))
    model(TEXTS[1:]).square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    read = gradients.pop("encoder.embedding.weight").abs().sum(1) > 0
    assert read.nonzero().flatten().tolist() == [4, 8, 9]
    del gradients["encoder.attention.W_K.bias"]  # adds the same to all scores of a row
    assert all(gradient.abs().sum() > 1e-6 for gradient in gradients.values())


@pytest.mark.usefixtures("unchecked")
def test_positions_that_change_the_size_are_an_error():
    encoder = SelfAttentionEncoder(11, 6, 2, ConcatenatedPositionalEncoding(5), pad=0)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        encoder(TEXTS)


def test_dropout_applies_to_the_pooled_vector_in_training_only():
    model = spread(
        Classifier(
            WordEncoder(11, 600, pad=0), mean_pooling, 600, classes=600, dropout=0.25
        )
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


@pytest.mark.parametrize("dropout", [-0.1, 1.5])
def test_a_dropout_that_is_no_probability_is_an_error(dropout):
    with pytest.raises(ValueError, match=f"got {dropout}"):
        Classifier(
            WordEncoder(11, 6, pad=0), mean_pooling, 6, classes=2, dropout=dropout
        )


def test_a_pooling_with_parameters_is_trained_with_the_model():
    model = Classifier(WordEncoder(11, 6, pad=0), POOLINGS["attention"](), 6, classes=2)
    model(TEXTS).sum().backward()
    assert model.pooling.query.grad.abs().sum() > 0
    assert "pooling.query" in dict(model.named_parameters())


@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_an_empty_text_is_an_error(encoder):
    with pytest.raises(ValueError, match=r"rows \[1\] .* are empty"):
        Classifier(encoder(), mean_pooling, 6, 2)(torch.tensor([[4], [0]]))


@pytest.mark.parametrize(
    "build",
    [
        lambda: Classifier(WordEncoder(11, 6, pad=0), mean_pooling, 6, classes=0),
        lambda: Classifier(WordEncoder(11, 6, pad=0), mean_pooling, 0, classes=2),
        lambda: GRUEncoder(11, 5, 0),
        lambda: WordEncoder(11, 0),
        lambda: SelfAttentionEncoder(11, 0, 2, pad=0),
        lambda: SelfAttentionEncoder(11, 6, 0),
    ],
)
def test_sizes_below_one_are_an_error(build):
    with pytest.raises(ValueError, match="must be at least 1, not 0"):
        build()


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("size", ["6", None, 2.5])
@pytest.mark.parametrize(
    "build",
    [
        lambda size: Classifier(WordEncoder(11, 6), mean_pooling, 6, classes=size),
        lambda size: Classifier(WordEncoder(11, 6), mean_pooling, size, classes=2),
        lambda size: GRUEncoder(11, 5, size),
        lambda size: GRUEncoder(11, size, 6),
        lambda size: WordEncoder(size, 6),
        lambda size: SelfAttentionEncoder(11, size, 2),
        lambda size: SelfAttentionEncoder(11, 6, size),
    ],
)
def test_sizes_that_are_no_integers_are_errors(build, size):
    with pytest.raises(TypeError, match=f"must be an integer, not {size!r}"):
        build(size)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)
def test_texts_of_another_shape_or_dtype_are_errors(encoder):
    model = Classifier(encoder(), mean_pooling, 6, 2)
    with pytest.raises(ValueError, match=r"not \(4,\)"):
        model(TEXTS[0])
    with pytest.raises(TypeError, match=r"integers, not torch\.float32"):
        model(TEXTS.float())


def test_word_vectors_can_be_of_another_class():
    encoder = WordEncoder(11, 6, ScaledEmbedding, pad=0)
    torch.testing.assert_close(
        encoder(TEXTS)[0],
        encoder.embedding.weight[TEXTS] * 6**0.5 * (TEXTS > 0)[..., None],
    )


def test_a_pooled_vector_of_another_size_is_an_error():
    model = Classifier(WordEncoder(11, 6, pad=0), mean_pooling, 5, classes=2)
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        model(TEXTS)
