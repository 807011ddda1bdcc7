"""The tools of the book have no style sheet that none of them uses."""

from tests.conftest import ROOT

TOOLS = ROOT / "book" / "tools"


def test_every_style_sheet_of_the_tools_is_used():
    code = "".join(path.read_text("utf-8") for path in TOOLS.glob("*.py"))
    for path in TOOLS.glob("*.css"):
        assert f'"{path.name}"' in code
