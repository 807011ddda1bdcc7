"""Which token is padding is the caller's choice, and there need not be one."""

import pytest
import torch

from companion.attention import mean_pooling
from companion.decoding import tensors
from companion.layers import Embedding, GatedConvolution, LearnedPositionalEncoding
from companion.models import (
    BCNN,
    AttentionMean,
    AttentionOverAttention,
    AttentionSum,
    BahdanauEncoder,
    ChoEncoder,
    ConvS2S,
    ConvS2SEncoder,
    FixedVectorEncoder,
    GRUEncoder,
    HierarchicalAttention,
    HierarchicalEncoder,
    LSTMEncoder,
    LuongEncoder,
    PairClassifier,
    SelfAttentionEncoder,
    SutskeverEncoder,
    Transformer,
    TransformerEncoder,
    TransformerEncoderLayer,
    WordEncoder,
)
from tests.tiny import spread

VOCABULARY = 9


def convolutional(pad):
    position, blocks = LearnedPositionalEncoding(8, 4), [GatedConvolution(6, 3, 0.0)]
    return ConvS2SEncoder(VOCABULARY, 4, position, blocks, 0.0, pad)


def attentive(pad):
    layers = [TransformerEncoderLayer(4, 2, 5, 0.0)]
    return TransformerEncoder(VOCABULARY, layers, 0.0, pad=pad)


def hierarchical(pad):
    words = BahdanauEncoder(VOCABULARY, 4, 3, pad=pad)
    return HierarchicalEncoder(words, mean_pooling, 6, pad=pad)


READERS = {
    "Cho": lambda pad: ChoEncoder(VOCABULARY, 4, 5, pad=pad),
    "LSTM": lambda pad: LSTMEncoder(VOCABULARY, 4, 5, pad=pad),
    "Sutskever": lambda pad: SutskeverEncoder(VOCABULARY, 4, 5, pad=pad),
    "Bahdanau": lambda pad: BahdanauEncoder(VOCABULARY, 4, 5, pad=pad),
    "fixed vector": lambda pad: FixedVectorEncoder(VOCABULARY, 4, 5, pad=pad),
    "Luong": lambda pad: LuongEncoder(VOCABULARY, 4, 5, pad=pad),
    "convolutions": convolutional,
    "Transformer's encoder": attentive,
    "words": lambda pad: WordEncoder(VOCABULARY, 4, pad=pad),
    "GRU": lambda pad: GRUEncoder(VOCABULARY, 4, 5, pad=pad),
    "self-attention": lambda pad: SelfAttentionEncoder(VOCABULARY, 4, 2, pad=pad),
    "attention sum": lambda pad: AttentionSum(VOCABULARY, 4, 6, pad=pad),
    "attention mean": lambda pad: AttentionMean(VOCABULARY, 4, 6, pad=pad),
    "attention over attention": lambda pad: AttentionOverAttention(
        VOCABULARY, 4, 6, pad=pad
    ),
    "pairs": lambda pad: PairClassifier(VOCABULARY, [BCNN(4, 5, 3)], 2, pad=pad),
    "sentences": hierarchical,
    "HAN": lambda pad: HierarchicalAttention(VOCABULARY, 4, 6, 2, pad=pad),
    "ConvS2S": lambda pad: ConvS2S(VOCABULARY, VOCABULARY, 4, 6, 1, 3, 0.0, 8, pad=pad),
    "Transformer": lambda pad: Transformer(
        VOCABULARY, VOCABULARY, 4, 2, 5, 1, 0.0, pad=pad
    ),
}
each = pytest.mark.parametrize("name", READERS)
TEXTS = torch.tensor([[5, 0, 0], [3, 8, 1], [7, 4, 0]])  # padded with 0
DOCUMENTS = torch.tensor(
    [[[5, 3, 0], [0, 0, 0], [7, 0, 0]], [[1, 8, 2], [3, 3, 0], [4, 0, 0]]]
)


def read(name, model, exchange=lambda tokens: tokens):
    """What a model makes of texts, a pair of them, or documents: all tensors."""
    if name in ("sentences", "HAN"):
        return tensors(model(exchange(DOCUMENTS)))
    if name in ("ConvS2S", "Transformer"):
        return tensors(model.start(exchange(TEXTS)))
    two = name.startswith("attention") or name == "pairs"
    return tensors(model(*[exchange(TEXTS)] * (2 if two else 1)))


def embedding(model):
    """That of the source, which is the first one in each model."""
    return next(x for x in model.modules() if isinstance(x, Embedding))


@each
@pytest.mark.parametrize("pad", [3, VOCABULARY - 1])
def test_another_padding_token_gives_the_same(name, pad):
    numbers = torch.arange(VOCABULARY)
    numbers[[0, pad]] = numbers[[pad, 0]]
    usual, other = spread(READERS[name](0)), spread(READERS[name](pad))
    with torch.no_grad():
        embedding(other).weight.copy_(embedding(usual).weight[numbers])
    expected = read(name, usual)
    found = read(name, other, lambda tokens: numbers[tokens])
    for one, two in zip(found, expected, strict=True):
        assert torch.equal(one, two)


@each
def test_without_padding_token_0_is_a_token(name):
    model = spread(READERS[name](None))
    found = read(name, model)
    assert all(x.all() for x in found if x.dtype == torch.bool)
    sum(x.square().sum() for x in found if x.requires_grad).backward()
    assert embedding(model).weight.grad[0].all()


@each
def test_the_vector_of_the_padding_token_is_zero_and_learns_nothing(name):
    model = READERS[name](0).double()
    vectors = embedding(model).weight
    assert not vectors[0].any()
    assert vectors[1:].all()
    sum(x.square().sum() for x in read(name, model) if x.requires_grad).backward()
    assert not vectors.grad[0].any()
    assert vectors.grad[3].any()
