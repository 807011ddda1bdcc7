"""The cells that define a chapter's mechanism can be pasted into an empty file."""

import ast
import builtins
import dis
from types import CodeType

import pytest
from notebooks import chapters, read

PLAIN = "plain-pytorch"


def pasted(path):
    cells = [
        cell.source
        for cell in read(path).cells
        if PLAIN in cell.metadata.get("tags", [])
    ]
    return "\n\n\n".join(cells)


CHAPTERS = [path for path in chapters() if pasted(path)]


def globals_of(code):
    """The names that a module's code reads, its functions' code included, and that are not local."""
    for instruction in dis.get_instructions(code):
        if instruction.opname in {"LOAD_NAME", "LOAD_GLOBAL"}:
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from globals_of(constant)


def test_chapter_2_has_plain_cells():
    assert "02_bahdanau" in [path.stem for path in CHAPTERS]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_they_import_torch_and_einops_alone_and_run(path):
    code = pasted(path)
    imported = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            imported |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.split(".")[0])
    assert "torch" in imported <= {"torch", "einops"}
    compiled, names = compile(code, path.name, "exec"), {"__name__": "__main__"}
    exec(compiled, names)
    # What a function reads only when it is called has to be there as well.
    given = {*names, *vars(builtins), "__module__", "__qualname__"}
    assert set(globals_of(compiled)) <= given


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_each_cell_is_short_enough_to_read(path):
    for cell in read(path).cells:
        if PLAIN in cell.metadata.get("tags", []):
            assert len(cell.source.splitlines()) <= 70
