"""Which library does a docstring come from? Real documents that are on every machine that runs this book.

The docstrings of Python itself, NumPy, PyTorch and Matplotlib, read from their files without importing them.
What would give the library away at once is deleted: its name, headings, examples at the prompt with what they
print, and punctuation. It is deleted and not masked, for a mask in its place would tell as much.
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
#: The libraries, Python itself among them.
LIBRARIES = (_STDLIB, "numpy", "torch", "matplotlib")
COUNT = 1000  #: documents of each library, by default
_FEWEST_WORDS, _FEWEST_SENTENCES = 20, 2
_ROLE = re.compile(r":[\w:+-]+:(?=`)")  # what Sphinx calls a role, as in :class:`Path`
_EXAMPLE = re.compile(
    r"^[ \t]*>>>.*(\n[ \t]*\S.*)*", re.MULTILINE
)  # to the next blank line, as in doctest
_DIRECTIVE = re.compile(r"^\s*(\.\.\.(\s|$)|\.\. ).*$", re.MULTILINE)
_RULE = re.compile(
    r"^.*\n\s*[-=~^*]{3,}\s*$", re.MULTILINE
)  # a heading and the line under it
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
_NAME_WORD = re.compile(
    r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])"
)  # of get_file_name, or of GetHTTPName
_BESIDE = re.compile(
    r"(^|/)(_?tests?|site-packages|dist-packages|idlelib|lib2to3)(/|_|\.)"
)


class Document(NamedTuple):
    """A docstring as sentences of words: of what library, in which of its files, and what is so described.

    ``name`` is the name of the function, class or module in words: ``get_file_name`` has three. A package is
    named by its folder.
    """

    library: str
    file: str
    name: tuple[str, ...]
    sentences: tuple[tuple[str, ...], ...]

    @property
    def words(self) -> tuple[str, ...]:
        """All words in one row, for a model that knows no sentences."""
        return tuple(word for sentence in self.sentences for word in sentence)


def documents(
    count: int = COUNT, libraries: Sequence[str] = LIBRARIES
) -> list[Document]:
    """So many docstrings of each library, or all if it has fewer; always the same ones of one version of it.

    Kept are docstrings of at least 20 words in at least two sentences, none twice in a library. Files are
    read in an order that is fixed, but mixed, and no more of them than are needed.

    Raises:
        ValueError: fewer than one document is asked for, or a library is not installed as a folder of files.
    """
    if count < 1:
        raise ValueError(
            f"at least one document of each library must be asked for, not {count}"
        )
    return [
        document
        for library in libraries
        for document in islice(_documents(library), count)
    ]


def sentences(docstring: str) -> tuple[tuple[str, ...], ...]:
    """The sentences of a docstring, in small letters, without examples, headings, figures and giveaways."""
    for pattern in (_EXAMPLE, _DIRECTIVE, _RULE, _HEADING, _ROLE):
        docstring = pattern.sub(" ", docstring)
    parts = _END.split(docstring.lower())
    split_up = (
        [word for word in _WORD.findall(part) if word not in _GIVEAWAYS]
        for part in parts
    )
    return tuple(tuple(words) for words in split_up if words)


def split(
    found: Sequence[Document], share: float, seed: int
) -> tuple[list[Document], list[Document]]:
    """Documents to train on, and those of other files to test with: a ``share`` of each library's files.

    Raises:
        ValueError: the share is not between 0 and 1, or leaves one side without a file of some library.
    """
    if not 0 < share < 1:
        raise ValueError(
            f"the share to hold out must lie between 0 and 1, but is {share}"
        )
    generator = random.Random(seed)
    held_out: set[tuple[str, str]] = set()
    for library in sorted({document.library for document in found}):
        files = sorted(
            {document.file for document in found if document.library == library}
        )
        count = round(share * len(files))
        if not 0 < count < len(files):
            raise ValueError(
                f"a share of {share} of the {len(files)} files of {library} holds out {count}"
            )
        held_out |= {(library, file) for file in generator.sample(files, count)}
    train = [
        document
        for document in found
        if (document.library, document.file) not in held_out
    ]
    return train, [
        document for document in found if (document.library, document.file) in held_out
    ]


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
    """All but tests and what is installed beside the library; mixed, so that the first are a fair sample."""
    names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    names = [
        name for name in names if not _BESIDE.search(name) and (root / name).is_file()
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
    """What is described, by its name, and its docstring. The code itself says in which encoding it is."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes in other people's strings
        try:
            tree = ast.parse(code)
        except (
            SyntaxError,
            ValueError,
            RecursionError,
            MemoryError,
        ):  # for another Python, or too deep
            return
    for node in ast.walk(tree):
        if isinstance(
            node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        ):
            docstring = ast.get_docstring(node)
            if docstring:
                yield module if isinstance(node, ast.Module) else node.name, docstring
