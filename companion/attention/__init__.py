"""The mechanisms, one file each.

Each of them scores the keys, normalises the scores under a mask and averages the values.
The contract is :class:`~companion.attention.base.Attention`; a chapter changes one part of
it. The position rules are in :mod:`companion.attention.masks`.
"""

from typing import TYPE_CHECKING, Any

from companion.attention import masks
from companion.attention.additive import (
    Additive,
    LocationSensitive,
    SmoothLocationSensitive,
)
from companion.attention.aligned_question import AlignedQuestionAttention
from companion.attention.attention_over_attention import (
    attention_over_attention,
    pointer_sum,
    two_way_attention,
)
from companion.attention.base import Attention, masked_softmax
from companion.attention.causal import CausalAttention
from companion.attention.functional import (
    additive_scores,
    cosine_scores,
    dot_product_attention,
)
from companion.attention.gumbel_softmax import GumbelSoftmax, StraightThroughGumbel
from companion.attention.hard import (
    HalfAndHalf,
    HardAttention,
    SampledAttention,
    entropy,
    one_hot,
)
from companion.attention.local import LocalM, LocalP, LocalWindow, Location
from companion.attention.multihead import MultiHeadAttention
from companion.attention.per_head import PerHead
from companion.attention.pooling import (
    AttentionPooling,
    last_pooling,
    max_pooling,
    mean_pooling,
)
from companion.attention.recording import record_weights
from companion.attention.scores import (
    MLP,
    Bilinear,
    Concat,
    Cosine,
    Dot,
    HiddenDot,
    ScaledDot,
)
from companion.attention.sparse import (
    AtrousAttention,
    LocalAttention,
    PatternAttention,
    SparseAttention,
    TiledAttention,
)
from companion.attention.synthesizer import (
    DenseSynthesizer,
    FactorizedDense,
    FactorizedRandom,
    FixedRandom,
    Mixture,
    RandomSynthesizer,
    Synthesizer,
    UnconditionalSynthesizer,
)

if TYPE_CHECKING:
    from companion.attention.flex import FlexAtrous, FlexAttention, FlexSparse

__all__ = [
    "MLP",
    "Additive",
    "AlignedQuestionAttention",
    "AtrousAttention",
    "Attention",
    "AttentionPooling",
    "Bilinear",
    "CausalAttention",
    "Concat",
    "Cosine",
    "DenseSynthesizer",
    "Dot",
    "FactorizedDense",
    "FactorizedRandom",
    "FixedRandom",
    "FlexAtrous",
    "FlexAttention",
    "FlexSparse",
    "GumbelSoftmax",
    "HalfAndHalf",
    "HardAttention",
    "HiddenDot",
    "LocalAttention",
    "LocalM",
    "LocalP",
    "LocalWindow",
    "Location",
    "LocationSensitive",
    "Mixture",
    "MultiHeadAttention",
    "PatternAttention",
    "PerHead",
    "RandomSynthesizer",
    "SampledAttention",
    "ScaledDot",
    "SmoothLocationSensitive",
    "SparseAttention",
    "StraightThroughGumbel",
    "Synthesizer",
    "TiledAttention",
    "UnconditionalSynthesizer",
    "additive_scores",
    "attention_over_attention",
    "cosine_scores",
    "dot_product_attention",
    "entropy",
    "last_pooling",
    "masked_softmax",
    "masks",
    "max_pooling",
    "mean_pooling",
    "one_hot",
    "pointer_sum",
    "record_weights",
    "two_way_attention",
]


def __getattr__(name: str) -> Any:
    """The classes of :mod:`companion.attention.flex`, imported at their first use.

    FlexAttention compiles its kernels with a part of PyTorch that is slow to import.
    """
    if name in __all__:
        from companion.attention import flex

        return getattr(flex, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """All names, those that are imported at their first use included."""
    return sorted({*globals(), *__all__})
