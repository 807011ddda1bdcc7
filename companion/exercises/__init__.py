"""Check an answer to an exercise of the book: ``check("2.1", my_function)`` says right, or what is wrong."""

from companion.exercises import (
    attention,
    attention_over_attention,
    bahdanau,
    convs2s,
    hard,
    hierarchical,
    luong,
    seq2seq,
    sparse,
    synthesizer,
    transformer,
)
from companion.exercises.exercise import Answer, diagnose

_EXERCISES = {
    **seq2seq.EXERCISES,
    **bahdanau.EXERCISES,
    **attention.EXERCISES,
    **hard.EXERCISES,
    **luong.EXERCISES,
    **convs2s.EXERCISES,
    **transformer.EXERCISES,
    **sparse.EXERCISES,
    **synthesizer.EXERCISES,
    **hierarchical.EXERCISES,
    **attention_over_attention.EXERCISES,
}


class Verdict:
    """The answer of :func:`check`: it reads as words, and is true where the function is right."""

    def __init__(self, number: str, problem: str):
        self.number = number
        self.problem = problem

    def __bool__(self) -> bool:
        return not self.problem

    def __repr__(self) -> str:
        if self.problem:
            return f"Exercise {self.number}, not yet. {self.problem}"
        return f"Exercise {self.number} is right."


def check(number: str, function: Answer) -> Verdict:
    """Run ``function`` on prepared inputs and say in words whether it is right, or what is wrong.

    The text of each exercise gives the arguments. An exception in ``function`` is part of the answer.

    Raises:
        ValueError: there is no such exercise; the message lists those that there are.
        TypeError: ``function`` cannot be called.
    """
    if number not in _EXERCISES:
        raise ValueError(
            f"there is no exercise {number!r} to check; there are {', '.join(map(repr, _EXERCISES))}"
        )
    if not callable(function):
        raise TypeError(
            f"check takes the function itself, as in check({number!r}, my_function), "
            f"but was given a {type(function).__name__}"
        )
    return Verdict(number, diagnose(_EXERCISES[number], function))
