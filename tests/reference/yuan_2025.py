"""Yuan et al. 2025, Native sparse attention: which keys a query selects, as loops.

As in companion/attention/selection.py, a block's key is its mean, blocks do not overlap, and
selected keys and the window share one softmax.
"""

from tests.reference.scalars import context, dot, softmax


def compressed(keys, block):
    """The mean key of each complete block   (equation (7), with a mean for φ)"""
    whole = len(keys) // block
    return [
        [
            sum(column) / block
            for column in zip(*keys[b * block : (b + 1) * block], strict=True)
        ]
        for b in range(whole)
    ]


def selected(i, query, keys, block, top, window):
    """The positions that query i attends to   (equations (8), (11), (12), and the window)"""
    means = compressed(keys[: i + 1], block)
    scores = [dot(query, mean) for mean in means]
    best = sorted(range(len(means)), key=lambda b: -scores[b])[:top]
    chosen = {b * block + offset for b in best for offset in range(block)}
    return sorted(chosen | set(range(max(0, i - window + 1), i + 1)))


def contexts(queries, keys, values, block, top, window):
    """Softmax attention to the selected positions   (equation (3))"""
    found = []
    for i, query in enumerate(queries):
        chosen = selected(i, query, keys, block, top, window)
        scale = len(query) ** 0.5
        scores = [dot(query, keys[j]) / scale for j in chosen]
        found.append(context(softmax(scores), [values[j] for j in chosen]))
    return found
