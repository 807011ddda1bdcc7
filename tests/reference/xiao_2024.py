"""Xiao et al. 2024, Efficient streaming language models with attention sinks."""

from tests.reference.scalars import context, softmax
from tests.reference.su_2021 import rotary_score


def kept(position, window, sinks):
    """The positions whose keys a query attends to: the first, and the last up to its own   (section 3.2)"""
    first = list(range(min(sinks, position + 1)))
    last = range(max(sinks, position - window + 1), position + 1)
    return first + list(last)


def streaming_contexts(queries, keys, values, window, sinks):
    """Rotary attention to what is kept, with the positions within the cache   (section 3.2)"""
    contexts = []
    for i, query in enumerate(queries):
        cache = kept(i, window, sinks)
        own = len(cache) - 1
        scores = [
            rotary_score(query, keys[j], own, place) for place, j in enumerate(cache)
        ]
        contexts.append(context(softmax(scores), [values[j] for j in cache]))
    return contexts
