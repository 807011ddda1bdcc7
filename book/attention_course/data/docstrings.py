"""Docstrings of Python libraries, to classify by library: real documents on every machine.

The docstrings of Python itself, NumPy, PyTorch and Matplotlib are read from their files
without importing them. What would identify the library at once is deleted: its name,
headings, interactive examples with their output, and punctuation. It is deleted rather
than masked, because a mask token would reveal as much.
"""

import ast
import importlib.util
import random
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

_STDLIB = "python"
#: The libraries, including Python itself.
LIBRARIES = (_STDLIB, "numpy", "torch", "matplotlib")
COUNT = 1000  #: the default number of documents of each library
_FEWEST_WORDS, _FEWEST_SENTENCES = 20, 2
# A role of Sphinx, such as :class:`Path`.
_ROLE = re.compile(r":[\w:+-]+:(?=`)")
# An example up to the next blank line, as in doctest.
_EXAMPLE = re.compile(r"^[ \t]*>>>.*(\n[ \t]*\S.*)*", re.MULTILINE)
_DIRECTIVE = re.compile(r"^\s*(\.\.\.(\s|$)|\.\. ).*$", re.MULTILINE)
# A heading and the line under it.
_RULE = re.compile(r"^.*\n\s*[-=~^*]{3,}\s*$", re.MULTILINE)
_HEADING = re.compile(
    r"^\s*(Args|Arguments|Parameters|Returns|Raises|Examples?|Notes?|Shape)::?\s*$",
    re.M | re.I,
)
_END = re.compile(r"[.!?:;](?=\s)|\n\s*\n")
_WORD = re.compile(r"[a-z]+")
_GIVEAWAYS = frozenset(
    _WORD.findall("""
    python pythonic cpython py pyobject
    numpy np ndarray ndarrays scipy array arrays
    torch pytorch aten nn cuda autograd tensor tensors
    matplotlib mpl pyplot plt axes rcparams rc artist artists
    """)
)
# The words of get_file_name, or of GetHTTPName.
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_EXCLUDED = re.compile(
    r"(^|/)(_?tests?|site-packages|dist-packages|idlelib|lib2to3)(/|_|\.)"
)


class Document(NamedTuple):
    """The docstring of a function, class or module, as sentences of words.

    ``name`` is the name of what is described, in words: ``get_file_name`` has three. A
    package is named by its folder.
    """

    library: str
    file: str
    name: tuple[str, ...]
    sentences: tuple[tuple[str, ...], ...]

    @property
    def words(self) -> tuple[str, ...]:
        """All words in one sequence, for models without sentences."""
        return tuple(word for sentence in self.sentences for word in sentence)


def documents(
    count: int = COUNT, libraries: Sequence[str] = LIBRARIES
) -> list[Document]:
    """``count`` docstrings of each library, or all if it has fewer.

    Only docstrings of at least 20 words in at least two sentences are kept, without
    duplicates within a library. Files are read in a fixed random order, and no more than
    are needed, so that the same version of a library always gives the same documents.
    """
    return [
        document
        for library in libraries
        for document in islice(_documents(library), count)
    ]


def sentences(docstring: str) -> tuple[tuple[str, ...], ...]:
    """The sentences of a docstring in lower case, as words.

    Examples, headings, numbers and words that identify a library are removed.

    Example:
        >>> sentences("A torch tensor of numpy. It is not Python's own.")
        (('a', 'of'), ('it', 'is', 'not', 's', 'own'))
    """
    for pattern in (_EXAMPLE, _DIRECTIVE, _RULE, _HEADING, _ROLE):
        docstring = pattern.sub(" ", docstring)
    parts = _END.split(docstring.lower())
    split_up = (
        [word for word in _WORD.findall(part) if word not in _GIVEAWAYS]
        for part in parts
    )
    return tuple(tuple(words) for words in split_up if words)


def split(
    documents: Sequence[Document], fraction: float, seed: int
) -> tuple[list[Document], list[Document]]:
    """Training documents, and test documents of other files.

    Args:
        fraction: the part of each library's files to test with.
    """
    generator = random.Random(seed)
    test_files: set[tuple[str, str]] = set()
    for library in sorted({document.library for document in documents}):
        files = sorted(
            {document.file for document in documents if document.library == library}
        )
        count = round(fraction * len(files))
        if not 0 < count < len(files):
            raise ValueError(
                f"a fraction of {fraction} of the {len(files)} files of {library} leaves "
                f"{len(files) - count} to train on and {count} to test with"
            )
        test_files |= {(library, file) for file in generator.sample(files, count)}
    train, test = list[Document](), list[Document]()
    for document in documents:
        side = test if (document.library, document.file) in test_files else train
        side.append(document)
    return train, test


def _documents(library: str) -> Iterator[Document]:
    root, seen = _folder(library), set()
    for name in _files(root):
        for described, docstring in _docstrings(
            (root / name).read_bytes(), _module(root / name)
        ):
            split_up = sentences(docstring)
            long_enough = (
                len(split_up) >= _FEWEST_SENTENCES
                and sum(map(len, split_up)) >= _FEWEST_WORDS
            )
            if long_enough and split_up not in seen:
                seen.add(split_up)
                words = tuple(word.lower() for word in _NAME_WORD.findall(described))
                yield Document(library, name, words, split_up)


def _files(root: Path) -> list[str]:
    """The Python files except tests and other packages, in a fixed random order."""
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    names = [
        name for name in names if not _EXCLUDED.search(name) and (root / name).is_file()
    ]
    if not names:
        raise ValueError(f"there are no Python files in {root}")
    random.Random(0).shuffle(names)
    return names


def _module(path: Path) -> str:
    return path.parent.name if path.stem == "__init__" else path.stem


def _folder(library: str) -> Path:
    if library == _STDLIB:
        return Path(sysconfig.get_paths()["stdlib"])
    found = importlib.util.find_spec(library)
    if found is None or not found.submodule_search_locations:
        raise ValueError(
            f"the library {library!r} is not installed as a folder of files"
        )
    return Path(found.submodule_search_locations[0])


def _docstrings(code: bytes, module: str) -> Iterator[tuple[str, str]]:
    """The name of what is described, and its docstring; the code declares its encoding."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about invalid escapes in strings
        try:
            tree = ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # written for another Python, or nested too deeply
    for node in ast.walk(tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            docstring = ast.get_docstring(node)
            if docstring:
                yield module if isinstance(node, ast.Module) else node.name, docstring
