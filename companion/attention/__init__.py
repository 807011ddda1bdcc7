"""The mechanisms, one file each.

Each of them scores the keys, normalises the scores under a mask and averages the values.
The contract is :class:`~companion.attention.base.Attention`, of which a mechanism
changes one part or more. The position rules are in :mod:`companion.attention.masks`.
"""

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
from companion.attention.base import Attention, masked_softmax, precise_matmul
from companion.attention.cache import KVCache, WindowCache
from companion.attention.causal import Causal, CausalAttention
from companion.attention.decay import (
    DecayAttention,
    GatedDecayAttention,
    chunked_decay_attention,
    parallel_decay_attention,
    recurrent_decay_attention,
    retention_decays,
)
from companion.attention.delta import (
    DeltaAttention,
    GatedDeltaAttention,
    chunked_delta_rule,
    recurrent_delta_rule,
)
from companion.attention.flex import FlexAtrous, FlexAttention, FlexSparse
from companion.attention.functional import (
    additive_scores,
    cosine_scores,
    dot_product_attention,
)
from companion.attention.gated import GatedAttention
from companion.attention.gumbel_softmax import GumbelSoftmax, StraightThroughGumbel
from companion.attention.hard import (
    HalfAndHalf,
    HardAttention,
    SampledAttention,
    entropy,
    one_hot,
)
from companion.attention.latent import LatentAttention
from companion.attention.linear import (
    CausalLinearAttention,
    LinearAttention,
    LinearState,
    chunked_linear_attention,
    elu_features,
    linear_attention,
    parallel_linear_attention,
    recurrent_linear_attention,
)
from companion.attention.linear_bias import ALiBi, LinearBias, alibi_slopes
from companion.attention.local import LocalM, LocalP, LocalWindow, Location
from companion.attention.matrix_state import MatrixState
from companion.attention.multihead import ManyHeads, MultiHeadAttention, SelfAttention
from companion.attention.per_head import PerHead
from companion.attention.pooling import (
    AttentionPooling,
    last_pooling,
    max_pooling,
    mean_pooling,
)
from companion.attention.query_key_norm import QueryKeyNorm
from companion.attention.recording import record_weights
from companion.attention.rotary import (
    CacheRotary,
    Rotary,
    adjacent_pairs,
    rotary_frequencies,
    rotate,
    yarn_frequencies,
    yarn_temperature,
)
from companion.attention.scores import (
    MLP,
    Bilinear,
    Concat,
    Cosine,
    Dot,
    HiddenDot,
    ScaledDot,
)
from companion.attention.selection import BlockSelectionAttention
from companion.attention.sliding_window import SinkAttention, SlidingWindowAttention
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

__all__ = [
    "MLP",
    "ALiBi",
    "Additive",
    "AlignedQuestionAttention",
    "AtrousAttention",
    "Attention",
    "AttentionPooling",
    "Bilinear",
    "BlockSelectionAttention",
    "CacheRotary",
    "Causal",
    "CausalAttention",
    "CausalLinearAttention",
    "Concat",
    "Cosine",
    "DecayAttention",
    "DeltaAttention",
    "DenseSynthesizer",
    "Dot",
    "FactorizedDense",
    "FactorizedRandom",
    "FixedRandom",
    "FlexAtrous",
    "FlexAttention",
    "FlexSparse",
    "GatedAttention",
    "GatedDecayAttention",
    "GatedDeltaAttention",
    "GumbelSoftmax",
    "HalfAndHalf",
    "HardAttention",
    "HiddenDot",
    "KVCache",
    "LatentAttention",
    "LinearAttention",
    "LinearBias",
    "LinearState",
    "LocalAttention",
    "LocalM",
    "LocalP",
    "LocalWindow",
    "Location",
    "LocationSensitive",
    "ManyHeads",
    "MatrixState",
    "Mixture",
    "MultiHeadAttention",
    "PatternAttention",
    "PerHead",
    "QueryKeyNorm",
    "RandomSynthesizer",
    "Rotary",
    "SampledAttention",
    "ScaledDot",
    "SelfAttention",
    "SinkAttention",
    "SlidingWindowAttention",
    "SmoothLocationSensitive",
    "SparseAttention",
    "StraightThroughGumbel",
    "Synthesizer",
    "TiledAttention",
    "UnconditionalSynthesizer",
    "WindowCache",
    "additive_scores",
    "adjacent_pairs",
    "alibi_slopes",
    "attention_over_attention",
    "chunked_decay_attention",
    "chunked_delta_rule",
    "chunked_linear_attention",
    "cosine_scores",
    "dot_product_attention",
    "elu_features",
    "entropy",
    "last_pooling",
    "linear_attention",
    "masked_softmax",
    "masks",
    "max_pooling",
    "mean_pooling",
    "one_hot",
    "parallel_decay_attention",
    "parallel_linear_attention",
    "pointer_sum",
    "precise_matmul",
    "record_weights",
    "recurrent_decay_attention",
    "recurrent_delta_rule",
    "recurrent_linear_attention",
    "retention_decays",
    "rotary_frequencies",
    "rotate",
    "two_way_attention",
    "yarn_frequencies",
    "yarn_temperature",
]
