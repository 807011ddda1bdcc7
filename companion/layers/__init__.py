"""The layers of models: embeddings, positional encodings, recurrence, residual connections."""

from companion.layers.deep_output import DeepOutput
from companion.layers.embedding import Embedding, ScaledEmbedding
from companion.layers.feed_forward import FeedForward, SwiGLU
from companion.layers.gated_convolution import (
    GatedConvolution,
    WeightNormLinear,
    scale_gradient,
)
from companion.layers.gru import ResetBeforeGRU, ResetBeforeGRUCell, pytorch_gru
from companion.layers.positional_encoding import (
    ConcatenatedPositionalEncoding,
    LearnedPositionalEncoding,
    NoPositionalEncoding,
    SinusoidalPositionalEncoding,
    sinusoids,
)
from companion.layers.recurrent import (
    deep_lstm,
    reverse,
    run_lstm,
    run_packed,
    source_mask,
)
from companion.layers.residual import PostNorm, PreNorm, PreRMSNorm, Residual

__all__ = [
    "ConcatenatedPositionalEncoding",
    "DeepOutput",
    "Embedding",
    "FeedForward",
    "GatedConvolution",
    "LearnedPositionalEncoding",
    "NoPositionalEncoding",
    "PostNorm",
    "PreNorm",
    "PreRMSNorm",
    "ResetBeforeGRU",
    "ResetBeforeGRUCell",
    "Residual",
    "ScaledEmbedding",
    "SinusoidalPositionalEncoding",
    "SwiGLU",
    "WeightNormLinear",
    "deep_lstm",
    "pytorch_gru",
    "reverse",
    "run_lstm",
    "run_packed",
    "scale_gradient",
    "sinusoids",
    "source_mask",
]
