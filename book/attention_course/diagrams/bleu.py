"""The drawing of the page of results: the BLEU of many models, published and ours."""

import math
import statistics
from collections.abc import Mapping, Sequence

from attention_course.diagrams.drawing import WIDTH, Drawing, Role

ROLES: tuple[Role, ...] = ("muted", "key", "query")
LEFT, TOP, PITCH = 175, 58, 26  # where the axis begins, and from row to row


def bleu_chart(
    models: Mapping[str, Mapping[str, Sequence[float]]], description: str
) -> Drawing:
    """A row of dots for each model, one for each kind of score.

    A line through a dot is one standard deviation to each side.

    Args:
        models: by their names, the scores of each kind, one a random seed; none, where there is none.
        description: what the drawing shows, for those who cannot see it.
    """
    kinds = list(next(iter(models.values())))
    largest = max(
        score
        for model in models.values()
        for found in model.values()
        for score in found
    )
    ticks = range(0, math.ceil(largest / 10) * 10 + 1, 10)

    def place(bleu: float) -> float:
        return LEFT + bleu / ticks[-1] * (WIDTH - 12 - LEFT)

    bottom = TOP + PITCH * len(models)
    drawing = Drawing(bottom, description)
    for left, kind, role in zip((20, 150, 290), kinds, ROLES, strict=True):
        drawing.dot(left, 14, 5, role)
        drawing.text(left + 12, 14, kind, anchor="start")
    for tick in ticks:
        x = place(tick)
        drawing.text(x, 40, str(tick), "muted")
        drawing.line((x, 50), (x, bottom - 4), role="muted", width=0.5)
    for number, (name, model) in enumerate(models.items()):
        y = TOP + PITCH * (number + 0.5)
        drawing.text(8, y, name, anchor="start")
        for kind, role in zip(kinds, ROLES, strict=True):
            if scores := model[kind]:
                mean = statistics.mean(scores)
                spread = statistics.stdev(scores) if len(scores) > 1 else 0
                ends = (place(mean - spread), y), (place(mean + spread), y)
                drawing.line(*ends, role=role, width=3)
                drawing.dot(place(mean), y, 5, role)
    return drawing
