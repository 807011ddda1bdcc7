"""CONTRIBUTING.md says what each file of book/tools is for, and each style sheet there is used."""

import re

from tests.conftest import ROOT
from tests.test_contributing import purpose

TOOLS = ROOT / "book" / "tools"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PART = re.compile(r"<!-- tools -->\n(.*?)<!-- /tools -->", re.DOTALL)


def list_of_tools():
    """Every file of the folder with the first sentence of its docstring, or with its first comment."""
    found = {path.name: purpose(path) for path in TOOLS.glob("*.py")}
    for path in TOOLS.glob("*.css"):
        found[path.name] = re.match(r"/\* (.*?) \*/", path.read_text("utf-8"))[1]
    rows = "".join(f"| `{name}` | {found[name]} |\n" for name in sorted(found))
    return f"| file of `book/tools/` | what it is for |\n|---|---|\n{rows}"


def test_the_list_has_every_tool_and_what_it_is_for():
    found = PART.search(CONTRIBUTING.read_text("utf-8"))[1]
    assert found == list_of_tools(), "run: python -m tests.book.test_tools"


def test_every_style_sheet_of_the_tools_is_used():
    code = "".join(path.read_text("utf-8") for path in TOOLS.glob("*.py"))
    for path in TOOLS.glob("*.css"):
        assert f'"{path.name}"' in code


if __name__ == "__main__":
    text = CONTRIBUTING.read_text("utf-8")
    part = f"<!-- tools -->\n{list_of_tools()}<!-- /tools -->"
    CONTRIBUTING.write_text(PART.sub(lambda found: part, text), "utf-8")
