"""The fixtures of the tests of the built book: its folder and a browser."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT

TOOLS = ROOT / "book" / "tools"
sys.path.insert(0, str(TOOLS))
LIVE_IS_SHOWN = """() =>
    document.querySelector('.live') || !document.querySelector('script[data-late=live-translation]')"""
# Of what can be scrolled and is not folded; `layout.js` sees to it.
KEYBOARD_REACHES_ALL = """() => [...document.querySelectorAll(
    'pre, figure, .cell_output > .output, mjx-container[display="true"], .pst-scrollable-table-container'
)].every(part => part.tabIndex === 0 || part.closest('details:not([open])') || (
    part.scrollWidth <= part.clientWidth && part.scrollHeight <= part.clientHeight
))"""
# All that is folded.
OPEN = "all => all.forEach(one => { one.open = true })"
MATH_IS_SET = "() => !window.setAllFormulas || setAllFormulas().then(() => true)"
# Before that, an image's height follows from its attributes, which can differ by a hundredth of a pixel.
IMAGES_ARE_LOADED = """() => {
    const images = [...document.images];
    images.forEach(image => image.loading = 'eager');
    return images.every(image => image.complete && image.naturalWidth > 0);
}"""
# In the live translation, where a page has one: it is loaded late.
TRAINING_IS_KNOWN = """() => !document.querySelector('script[data-late=live-translation]') ||
    document.querySelector('.live-meaning')?.textContent.includes('in training')"""


RAW = re.compile(r"\\(?:frac|tag|begin|mathrm|alpha|sqrt|\(|\[)|\$\$")  # of formulas
PATIENCE = 120_000  # milliseconds that a test waits, however slow the machine is
PIXEL = 1  # by which a layout may differ: a browser rounds


def setup_source():
    """The code with which the setup cell of every notebook begins: that of chapter 1."""
    text = (ROOT / "book" / "01_seq2seq.md").read_text("utf-8")
    return re.search(r"#@title Setup\n.*?^    %pip .*?\n", text, re.DOTALL | re.M)[0]


def add_kernel(folder, python, **environment):
    """Add a kernel `fresh`, run by a Python of its own, to the Jupyter folder that is there."""
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    settings = {"argv": command, "display_name": "Fresh", "language": "python"}
    path = folder / "kernels" / "fresh" / "kernel.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(settings | {"env": environment}))


def environment_outside(folder):
    """The variables of a process that knows the kernels in a folder, and nothing of this repository."""
    hidden = ("COMPANION", "PYTHON", "PYTEST")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(hidden)}
    return kept | {"OMP_NUM_THREADS": "1", "JUPYTER_PATH": str(folder)}


def boxes(parts):
    """Where the parts of a page are, all measured at one moment."""
    return parts.evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().toJSON())"
    )


def stop_clock(page):
    """Let time pass on a page only as the test says, however slow the machine is."""
    page.clock.install(time=0)
    page.clock.pause_at(1000)


@pytest.fixture(scope="session")
def html():
    """The folder of the built book."""
    folder = ROOT / "_build" / "html"
    if not (folder / "index.html").exists():
        pytest.fail(
            "the book is not built: run `make book` first, or `jupyter-book build . -W -n --keep-going`"
        )
    return folder


@pytest.fixture(scope="session")
def build_small(tmp_path_factory):
    """Build a book of a few files with some extensions, warnings being errors; its folder of pages."""

    def build(extensions, **files):
        source = tmp_path_factory.mktemp("small")
        conf = f"import sys\nsys.path[:0] = [{str(TOOLS)!r}, {str(source)!r}]\n"
        conf += f"extensions = {extensions}\nnb_execution_mode = 'off'\n"
        for name, text in {"conf.py": conf, **files}.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        command = [sys.executable, "-m", "sphinx", "-qWE", source, source / "html"]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return source / "html"

    return build


@pytest.fixture(scope="session")
def chromium():
    """The path of a Chromium. Without one, its tests are skipped at home and fail where CI is set."""
    from browser import chromium as find

    try:
        return find()
    except FileNotFoundError as error:
        pytest.fail(str(error)) if os.environ.get("CI") else pytest.skip(str(error))


@pytest.fixture(scope="module")
def browser(chromium):
    """A Chromium without a window."""
    from browser import launched

    with launched() as browser:
        browser.on("context", lambda context: context.set_default_timeout(PATIENCE))
        yield browser


@pytest.fixture
def complaints():
    """What goes wrong in the pages of a test, or is asked of others: it has to be nothing."""
    found = []
    yield found
    assert not found


@pytest.fixture
def new_page(browser, html, complaints):
    """Make empty pages, in contexts with some options, that note complaints."""
    contexts = []

    def make(**options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((html.as_uri(), "data:", "blob:"))
                else complaints.append(request.url)
            ),
        )
        return page

    yield make
    for context in contexts:
        context.close()


@pytest.fixture
def visit_live(new_page, html):
    """Open a chapter at the place with a tag."""

    def open_page(chapter, tag, width=1280, scheme="light", **options):
        viewport = {"width": width, "height": 900}
        page = new_page(viewport=viewport, color_scheme=scheme, **options)
        page.goto(f"{html.as_uri()}/book/{chapter}.html")
        page.locator(f".tag_{tag}").scroll_into_view_if_needed()
        if options.get("java_script_enabled", True):
            page.locator(f".tag_{tag} .play").wait_for()
        return page

    return open_page


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in plain words, at the very end, that the book was not opened in a browser."""
    skipped = terminalreporter.stats.get("skipped", [])
    count = sum("no Chromium was found" in str(report.longrepr) for report in skipped)
    if count:
        terminalreporter.write_line(
            f"The book was not tested in a browser: no Chromium was found, and {count} tests were"
            " skipped. `python book/tools/browser.py` tries to get one.",
            red=True,
        )
