"""In a fresh environment like Colab's, the package installs alone, and notebooks run by their own first cell.

The versions are those seen in Colab in August 2026, except torch, which is the one that the lock names.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.book.conftest import add_kernel, environment_outside
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

LOCKED = re.search(
    r"^torch==([\d.]+)", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE
)[1]
KEPT = {"torch": LOCKED, "numpy": "2.1.3", "matplotlib": "3.10.0"}
REST = {
    "einops": "0.8.2",
    "ipython": "7.34.0",
    "ipykernel": "6.17.1",
    "pip": "24.1.2",
}
CORE = (
    "_transforms",
    "_checks",
    "attention",
    "layers",
    "decoding",
    "models",
    "losses",
)
NEEDED = {
    "attention-companion",
    "einops",
    "jaxtyping",
    "torch",
}  # and what these need themselves


class Environment:
    """A fresh environment that has the package's wheel, PyTorch, and nothing that they do not need."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.python = (
            folder / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
        )
        build = ["-m", "build", "--wheel", "--no-isolation", "--outdir", folder]
        run(sys.executable, *build)
        run(sys.executable, "-m", "venv", folder / "env")
        self.pip(
            "install", "--no-compile", f"torch=={LOCKED}", next(folder.glob("*.whl"))
        )

    def __call__(self, code: str) -> str:
        """What ``code`` prints there."""
        return run(self.python, "-c", code, cwd=self.folder).strip()

    def pip(self, *arguments: str | Path) -> None:
        """Let its own pip do something."""
        run(self.python, "-m", "pip", arguments[0], "--quiet", *arguments[1:])

    def has_companion(self) -> bool:
        """Whether the package can be imported there."""
        code = "import importlib.util as u; print(u.find_spec('companion') is not None)"
        return self(code) == "True"

    def remove_companion(self) -> None:
        """As it was before any test."""
        self.pip("uninstall", "--yes", "attention-companion")
        assert not self.has_companion()


class Colab(Environment):
    """The same environment with Colab's versions, a module ``google.colab`` and a kernel."""

    def __init__(self, bare: Environment):
        self.folder, self.python = bare.folder, bare.python
        self.remove_companion()
        wanted = [f"{name}=={version}" for name, version in (KEPT | REST).items()]
        self.pip("install", "--no-compile", *wanted)
        packages = Path(self("import sysconfig; print(sysconfig.get_path('purelib'))"))
        (packages / "google" / "colab").mkdir(parents=True)
        (packages / "google" / "colab" / "__init__.py").touch()
        add_kernel(self.folder, self.python)

    def versions(self) -> dict[str, str]:
        """The versions of what an installation must leave alone."""
        code = f"import importlib.metadata as m; print(*(m.version(name) for name in {list(KEPT)}))"
        found = self(code).split()
        return {
            name: version.partition("+")[0]
            for name, version in zip(KEPT, found, strict=True)
        }

    def execute(self, path: Path, source: str) -> subprocess.CompletedProcess:
        """Run a notebook there, all cells, in an otherwise empty folder, by a process of its own."""
        working = self.folder / "content"
        shutil.rmtree(working, ignore_errors=True)
        working.mkdir()
        shutil.copy(path, working / "notebook.ipynb")
        environment = environment_outside(self.folder)
        environment["COMPANION_REPOSITORY"] = source
        command = [
            sys.executable,
            "-c",
            "from nbclient.cli import main; main()",
            "notebook.ipynb",
        ]
        command += ["--kernel_name=fresh", "--timeout=-1"]
        return subprocess.run(
            command, capture_output=True, text=True, cwd=working, env=environment
        )


def run(*command, cwd=ROOT) -> str:
    result = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    return Environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture(scope="module")
def colab(bare):
    return Colab(bare)


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """The working tree as it is now, uncommitted files too, as a git repository of its own."""
    clone = tmp_path_factory.mktemp("repository") / "clone"
    for name in run(
        "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"
    ).split("\0"):
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, clone / name)
    run("git", "init", "--quiet", cwd=clone)
    run("git", "add", "--all", cwd=clone)
    settings = (
        "user.name=test",
        "user.email=test@localhost",
        "commit.gpgsign=false",
        f"core.hooksPath={os.devnull}",
    )
    options = (part for setting in settings for part in ("-c", setting))
    run("git", *options, "commit", "--quiet", "--message", "as it is", cwd=clone)
    return f"git+{clone.as_uri()}"


def test_the_wheel_alone_needs_three_packages_and_runs_the_readme(bare):
    listed = json.loads(
        run(bare.python, "-m", "pip", "list", "--format", "json", "--not-required")
    )
    assert {package["name"] for package in listed} <= {
        "attention-companion",
        "pip",
        "setuptools",
        "wheel",
    }
    lines = bare(
        "import importlib.metadata as m; print(*m.requires('attention-companion'), sep='\\n')"
    ).splitlines()
    needed = {re.match(r"[\w-]+", line)[0] for line in lines if "extra" not in line}
    assert needed | {"attention-companion"} == NEEDED
    assert bare("import importlib.util as u; print(u.find_spec('numpy'))") == "None"
    modules = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((ROOT / "companion").rglob("*.py"))
        if path.relative_to(ROOT / "companion").with_suffix("").parts[0] in CORE
    ]
    bare(f"import importlib; [importlib.import_module(name) for name in {modules}]")
    readme = (ROOT / "README.md").read_text("utf-8")
    bare(re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1])


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("book/*.ipynb")), ids=lambda path: path.stem
)
def test_notebook(path, colab, repository):
    if colab.has_companion():
        colab.remove_companion()
    result = colab.execute(path, repository)
    assert result.returncode == 0, result.stderr
    assert colab.has_companion()
    assert colab.versions() == KEPT
