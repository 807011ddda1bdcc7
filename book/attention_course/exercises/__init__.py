"""Automatic feedback on the exercises of the book: ``check("2.1", my_function)``."""

from attention_course.exercises import (
    attention,
    attention_over_attention,
    bahdanau,
    bounded_memory,
    convs2s,
    hard,
    hierarchical,
    luong,
    modern,
    seq2seq,
    sparse,
    synthesizer,
    transformer,
)
from attention_course.exercises.exercise import Answer, diagnose

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
    **modern.EXERCISES,
    **bounded_memory.EXERCISES,
}


class Verdict:
    """The result of :func:`check`: a text for the reader, true if the function is right."""

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
    """Run a function on prepared inputs, and explain what is wrong if it is not right.

    Args:
        number: the exercise, as ``"2.1"``; the text of the exercise gives the arguments.
        function: the reader's function. If it raises an exception, the feedback says so.

    Raises:
        ValueError: there is no such exercise; the message lists the existing ones.
        TypeError: ``function`` cannot be called.

    Example:
        >>> check("8.1", lambda A, B: A * B)
        Exercise 8.1, not yet. It stops with RuntimeError: The size of tensor a (3) must ...
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
