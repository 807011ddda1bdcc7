"""Change the package in one place after another, and see whether the tests notice: ``make mutants``.

Cosmic Ray makes the changes, in a copy of the working tree: another operator, another number, a condition the
other way round. A change that no test notices survives: a test is missing, or the change makes no difference.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("attention", "patterns", "decoding", "bahdanau")
CONFIG = """
[cosmic-ray]
module-path = "companion/{module}.py"
timeout = 300.0
excluded-modules = []
test-command = "{python} -m pytest -x -q -p no:cacheprovider tests/test_{module}.py"

[cosmic-ray.distributor]
name = "local"
"""


def main(arguments: list[str] | None = None) -> None:
    """Report on each module, with the change that every survivor made."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=MODULES, help="of the package, each with its own tests")
    for module in parser.parse_args(arguments).modules:
        with tempfile.TemporaryDirectory() as folder:
            for name in ("companion", "tests", "pyproject.toml"):
                copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
                copy(ROOT / name, Path(folder) / name)
            report(module, Path(folder))


def report(module: str, folder: Path) -> None:
    """Mutate one module of the copy in ``folder``, and print what became of it."""
    (folder / "config.toml").write_text(CONFIG.format(module=module, python=sys.executable))
    tool = Path(sys.executable).parent
    for command in (
        ["cosmic-ray", "init", "config.toml", "session"],
        ["cosmic-ray", "exec", "config.toml", "session"],
        ["cr-report", "--show-diff", "--surviving-only", "session"],
    ):
        subprocess.run([tool / command[0], *command[1:]], cwd=folder, check=True)


if __name__ == "__main__":
    main()
