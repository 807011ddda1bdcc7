"""Generate sequences token by token: greedy search, sampling, beam search; continue prompts.

``step(token, state) -> DecoderStep`` is all that a search knows of a model.
"""

from companion.decoding.beam import beam_search
from companion.decoding.hypotheses import Hypotheses, StepFunction
from companion.decoding.layout import for_inference
from companion.decoding.sampling import generate, greedy, sample
from companion.decoding.state import (
    DecoderStep,
    Memory,
    map_state,
    tensors,
)

__all__ = [
    "DecoderStep",
    "Hypotheses",
    "Memory",
    "StepFunction",
    "beam_search",
    "for_inference",
    "generate",
    "greedy",
    "map_state",
    "sample",
    "tensors",
]
