"""What the wheel holds, and what the README promises of it. (test_colab.py installs it.)"""

import re
import subprocess
import sys
import zipfile

from tests.conftest import ROOT

MODULES = {path.relative_to(ROOT).as_posix() for path in (ROOT / "companion").rglob("*.py")}


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    (wheel,) = tmp_path.glob("companion-*.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == {*MODULES, "companion/py.typed"}


def test_the_lines_of_the_readme_run():
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert len(block.strip().splitlines()) <= 12
    exec(compile(block, "README.md", "exec"), {})
