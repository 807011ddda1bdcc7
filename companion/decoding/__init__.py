"""Generate sequences token by token: greedy search, sampling and beam search.

``step(token, state) -> DecoderStep`` is all that a search knows of a model.
"""

from companion.attention.cache import KVCache, WindowCache, extend_cache
from companion.decoding.beam import beam_search
from companion.decoding.hypotheses import Hypotheses, StepFunction
from companion.decoding.layout import for_inference
from companion.decoding.sampling import greedy, sample
from companion.decoding.state import (
    DecoderStep,
    Memory,
    map_state,
    tensors,
)

__all__ = [
    "DecoderStep",
    "Hypotheses",
    "KVCache",
    "Memory",
    "StepFunction",
    "WindowCache",
    "beam_search",
    "extend_cache",
    "for_inference",
    "greedy",
    "map_state",
    "sample",
    "tensors",
]
