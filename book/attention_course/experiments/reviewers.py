"""The classifiers of the IMDB experiment, each with its own sub-command."""

from argparse import Namespace

from torch import nn

from attention_course.data.vocabulary import PAD
from companion.attention.pooling import AttentionPooling, mean_pooling
from companion.attention.scores import HiddenDot
from companion.layers.positional_encoding import ConcatenatedPositionalEncoding
from companion.models.bahdanau import BahdanauEncoder
from companion.models.hierarchical import HierarchicalAttention, HierarchicalEncoder
from companion.models.text_classifier import (
    Classifier,
    SelfAttentionEncoder,
    WordEncoder,
)


def build_attention(words: int, arguments: Namespace) -> Classifier:
    """One layer of self-attention, without positions, and the mean of its states."""
    return _classifier(words, nn.Identity(), arguments)


def build_attention_positions(words: int, arguments: Namespace) -> Classifier:
    """The same with a sinusoidal positional encoding beside the word vectors."""
    size = arguments.size
    return _classifier(
        words,
        nn.Sequential(ConcatenatedPositionalEncoding(size), nn.Linear(2 * size, size)),
        arguments,
    )


def build_hierarchical_attention(words: int, arguments: Namespace) -> Classifier:
    """Yang's model: GRUs over words and sentences, with attention pooling of both."""
    size = arguments.size
    return HierarchicalAttention(words, size, size, 2, arguments.dropout, pad=PAD)


def build_hierarchical_mean(words: int, arguments: Namespace) -> Classifier:
    """The same with means in place of attention pooling."""
    size = arguments.size
    encoder = HierarchicalEncoder(
        _read_words(words, arguments), mean_pooling, size, pad=PAD
    )
    return Classifier(encoder, mean_pooling, size, 2, arguments.dropout)


def build_flat_attention(words: int, arguments: Namespace) -> Classifier:
    """A GRU over all words as one sequence, and attention pooling of its states."""
    size = arguments.size
    pooling = AttentionPooling(HiddenDot(size), size)
    return Classifier(
        _read_words(words, arguments), pooling, size, 2, arguments.dropout
    )


def build_bag(words: int, arguments: Namespace) -> Classifier:
    """The mean of the word vectors, and nothing else."""
    return Classifier(
        WordEncoder(words, arguments.size, pad=PAD),
        mean_pooling,
        arguments.size,
        2,
        arguments.dropout,
    )


def _read_words(words: int, arguments: Namespace) -> BahdanauEncoder:
    return BahdanauEncoder(words, arguments.size, arguments.size // 2, pad=PAD)


def _classifier(words: int, position: nn.Module, arguments: Namespace) -> Classifier:
    encoder = SelfAttentionEncoder(
        words, arguments.size, arguments.heads, position, pad=PAD
    )
    return Classifier(encoder, mean_pooling, arguments.size, 2, arguments.dropout)


_FLAT = {
    "attention": build_attention,
    "attention-positions": build_attention_positions,
    "flat-attention": build_flat_attention,
    "bag": build_bag,
}
#: What builds the models that read a review in sentences.
IN_SENTENCES = {
    "hierarchical-attention": build_hierarchical_attention,
    "hierarchical-mean": build_hierarchical_mean,
}
#: What builds each model, from the size of the vocabulary and the arguments.
BUILDERS = _FLAT | IN_SENTENCES
