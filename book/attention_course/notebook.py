"""Source code of the library and of the course, shown in a notebook."""

import inspect
import re
import textwrap
from typing import Any


class Source:
    """Source code that a notebook highlights, and a terminal prints as it is."""

    def __init__(self, code: str):
        self.code = code

    def __repr__(self) -> str:
        return self.code

    def _repr_markdown_(self) -> str:
        longest = max((len(run) for run in re.findall("`+", self.code)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}python\n{self.code}\n{fence}"


def show_source(*objects: Any) -> Source:
    """The source of classes, functions or methods, with docstrings and comments.

    Example:
        >>> print(str(show_source(show_source))[:15])
        def show_source
    """
    if not objects:
        raise TypeError("show_source needs at least one class, function or method")
    return Source(
        "\n\n\n".join(textwrap.dedent(_source(thing)).strip() for thing in objects)
    )


def _source(thing: Any) -> str:
    try:
        return inspect.getsource(thing)
    except TypeError as error:
        raise TypeError(
            f"show_source takes classes, functions and methods written in Python, not "
            f"{type(thing).__name__}"
        ) from error
