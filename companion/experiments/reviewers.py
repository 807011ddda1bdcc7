"""The classifiers of the experiment on reviews, each with its own sub-command."""

from argparse import Namespace

from torch import nn

from companion.classifier import Classifier, SelfAttentionEncoder
from companion.pooling import mean_pooling
from companion.position import Concatenated


def build_attention(words: int, arguments: Namespace) -> Classifier:
    """One layer of self-attention, which does not see the order of the words, and the mean of its states."""
    return _classifier(words, nn.Identity(), arguments)


def build_attention_positions(words: int, arguments: Namespace) -> Classifier:
    """The same with sinusoids of the positions, as many as a word has features, beside the words' vectors."""
    size = arguments.size
    return _classifier(words, nn.Sequential(Concatenated(size), nn.Linear(2 * size, size)), arguments)


def _classifier(words: int, position: nn.Module, arguments: Namespace) -> Classifier:
    encoder = SelfAttentionEncoder(words, arguments.size, arguments.heads, position)
    return Classifier(encoder, mean_pooling, arguments.size, 2, arguments.dropout)


BUILDERS = {"attention": build_attention, "attention-positions": build_attention_positions}
