"""Every mechanism and every model, each with inputs of any lengths, for contracts that all must keep."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from companion.attention import (
    Additive,
    ALiBi,
    AttentionPooling,
    CacheRotary,
    Causal,
    CausalAttention,
    CausalLinearAttention,
    DecayAttention,
    DenseSynthesizer,
    Dot,
    GatedAttention,
    GatedDeltaAttention,
    HalfAndHalf,
    HardAttention,
    LatentAttention,
    LocalAttention,
    MultiHeadAttention,
    PatternAttention,
    PerHead,
    SelfAttention,
    SinkAttention,
    SlidingWindowAttention,
    StraightThroughGumbel,
    retention_decays,
)
from companion.attention.masks import fixed
from companion.interop import TorchMultiheadAttention
from companion.layers import NoPositionalEncoding, PreNorm
from companion.models import (
    ABCNN1,
    ABCNN2,
    ABCNN3,
    BCNN,
    AttentionMean,
    AttentionOverAttention,
    AttentionSum,
    CausalTransformerLayer,
    Classifier,
    GRUEncoder,
    HardCaptioner,
    HierarchicalAttention,
    LanguageModel,
    LlamaLayer,
    PairClassifier,
    SelfAttentionEncoder,
    Transformer,
    WordEncoder,
)
from tests.contracts.mechanisms import MECHANISMS
from tests.contracts.test_attention import Caller
from tests.tiny import (
    HIDDEN,
    MODELS,
    SOURCE_WORDS,
    STATES,
    TARGET_WORDS,
    fixed_vector,
    spread,
    with_attention,
)

LONGEST = 7  # some mechanisms have a maximum length


class Subject(NamedTuple):
    """A module, and its inputs for a batch of b with lengths m (queries, targets) and n (keys, sources)."""

    build: Callable[[], nn.Module]
    inputs: Callable[[int, int, int], tuple[torch.Tensor, ...]]


def floats(*sizes):
    return torch.randn(sizes, generator=torch.Generator().manual_seed(0)).double()


def tokens(vocabulary, *sizes):
    """Token numbers without padding, except for the last one of the last row."""
    generator = torch.Generator().manual_seed(sum(sizes))
    numbers = torch.randint(3, vocabulary, sizes, generator=generator)
    if sizes[-1] > 1:
        numbers[(-1,) * len(sizes)] = 0
    return numbers


class HardCaller(Caller):
    """As :class:`Caller`, for an attention that returns positions and takes no values."""

    def forward(self, query, source, mask):
        return self.attention(query, self.attention.project(source)[0], mask)


def mechanism(build, query_size=11, source_size=11, caller=Caller):
    """An attention with its :meth:`project`, in float64."""
    return Subject(
        lambda: caller(build()).double(),
        lambda b, m, n: (
            floats(b, m, query_size),
            floats(b, n, source_size),
            visible(b, m, n),
        ),
    )


def visible(b, m, n):
    """A mask under which every query may attend to the first key and to some others."""
    mask = (torch.arange(m)[:, None] + torch.arange(n)) % 3 != 2
    mask[:, 0] = True
    return mask.expand(b, m, n)


def one_text(build, vocabulary=11):
    return Subject(lambda: spread(build()), lambda b, m, n: (tokens(vocabulary, b, n),))


def two_texts(build, vocabulary=11):
    return Subject(
        lambda: spread(build()),
        lambda b, m, n: (tokens(vocabulary, b, n), tokens(vocabulary, b, m)),
    )


def translator(build):
    return Subject(
        build,
        lambda b, m, n: (tokens(SOURCE_WORDS, b, n), tokens(TARGET_WORDS, b, m)),
    )


def pair_classifier(kind, *sizes):
    return two_texts(lambda: PairClassifier(11, [kind(6, 6, 3, *sizes)], 2, pad=0))


def language_model(attention):
    layers = [
        CausalTransformerLayer(HIDDEN, 2, 5, 0.0, attention, PreNorm) for _ in range(2)
    ]
    return LanguageModel(11, layers)


def llama():
    layers = [LlamaLayer(8, 4, 5, key_value_heads=2) for _ in range(2)]
    return LanguageModel(11, layers, NoPositionalEncoding())


ATTENTIONS = {
    **{
        name: mechanism(row.build, row.query_size, row.source_size)
        for name, row in MECHANISMS.items()
    },
    "straight-through Gumbel": mechanism(
        lambda: StraightThroughGumbel(Additive(11, 13, 17)).eval(), 11, 13
    ),
    "hard": mechanism(
        lambda: HardAttention(Additive(11, 13, 17)).eval(), 11, 13, HardCaller
    ),
    "half and half": mechanism(lambda: HalfAndHalf(Dot()).eval(), caller=HardCaller),
    "pattern": mechanism(lambda: PatternAttention(fixed(2))),
    "sliding window": mechanism(lambda: SlidingWindowAttention(2)),
    "sinks": mechanism(lambda: SinkAttention(2, 1)),
    "causal, dense synthesizer": mechanism(
        lambda: Causal(DenseSynthesizer(11, LONGEST))
    ),
    "causal linear": mechanism(CausalLinearAttention),
    "multi-head, decay": mechanism(
        lambda: MultiHeadAttention(12, 3, DecayAttention(retention_decays(3))), 12, 12
    ),
    "multi-head, gated delta": mechanism(
        lambda: MultiHeadAttention(12, 3, GatedDeltaAttention(), key_value_heads=1),
        12,
        12,
    ),
    "grouped-query": mechanism(
        lambda: MultiHeadAttention(12, 6, CausalAttention(), key_value_heads=2), 12, 12
    ),
    "latent": mechanism(
        lambda: LatentAttention(12, 3, 5, 2, query_latent_size=7), 12, 12
    ),
    "gated": mechanism(lambda: GatedAttention(12, 3, CausalAttention()), 12, 12),
    "multi-head, ALiBi": mechanism(lambda: MultiHeadAttention(12, 3, ALiBi(3)), 12, 12),
    "multi-head": mechanism(lambda: MultiHeadAttention(12, 3), 12, 12),
    "multi-head, additive": mechanism(
        lambda: MultiHeadAttention(12, 3, Additive(4, 4, 5)), 12, 12
    ),
    "per head": mechanism(
        lambda: MultiHeadAttention(12, 2, PerHead(Dot(), CausalAttention())), 12, 12
    ),
    "rotary by the cache": mechanism(lambda: CacheRotary(SinkAttention(2, 1)), 12, 12),
    "self-attention layer": Subject(
        lambda: SelfAttention(12, 3).double(), lambda b, m, n: (floats(b, n, 12),)
    ),
    "nn.MultiheadAttention": Subject(
        lambda: TorchMultiheadAttention(12, 3, batch_first=True).double(),
        lambda b, m, n: (floats(b, m, 12), floats(b, n, 12), floats(b, n, 12)),
    ),
}
NETWORKS = {
    **{f"{name} model": translator(build) for name, build in MODELS.items()},
    "fixed vector model": translator(fixed_vector),
    "hard captioner model": translator(
        lambda: with_attention(
            HardCaptioner, HardAttention(Additive(HIDDEN, STATES, 5))
        ).eval()
    ),
    "transformer of one class": translator(
        lambda: spread(
            Transformer(SOURCE_WORDS, TARGET_WORDS, 4, 2, 5, layers=1, dropout=0, pad=0)
        )
    ),
    "words": one_text(lambda: Classifier(WordEncoder(11, 6, pad=0), pooling(6), 6, 2)),
    "gru": one_text(lambda: Classifier(GRUEncoder(11, 5, 6, pad=0), pooling(6), 6, 2)),
    "self-attention": one_text(
        lambda: Classifier(SelfAttentionEncoder(11, 6, 2, pad=0), pooling(6), 6, 2)
    ),
    "language model": one_text(lambda: language_model(LocalAttention(2, causal=True))),
    "linear language model": one_text(
        lambda: language_model(CausalLinearAttention(chunk=2))
    ),
    "delta language model": one_text(
        lambda: language_model(GatedDeltaAttention(chunk=2))
    ),
    "llama": one_text(llama),
    "hierarchical": Subject(
        lambda: spread(HierarchicalAttention(11, 3, 4, 2, pad=0)),
        lambda b, m, n: (tokens(11, b, m, n),),
    ),
    "attention sum": two_texts(lambda: AttentionSum(11, 5, 6, pad=0)),
    "attention mean": two_texts(lambda: AttentionMean(11, 5, 6, pad=0)),
    "attention over attention": two_texts(
        lambda: AttentionOverAttention(11, 5, 6, pad=0)
    ),
    "bcnn": pair_classifier(BCNN),
    "abcnn-1": pair_classifier(ABCNN1, LONGEST),
    "abcnn-2": pair_classifier(ABCNN2),
    "abcnn-3": pair_classifier(ABCNN3, LONGEST),
}
SUBJECTS = ATTENTIONS | NETWORKS
# Shapes inside depend on how many sentences have words.
DATA_DEPENDENT = frozenset({"hierarchical"})


def pooling(size):
    return AttentionPooling(Additive(5, size, 7), 5)
