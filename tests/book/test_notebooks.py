"""The notebooks are what their texts say, have run, read well everywhere, and come out the same twice."""

import ast
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import nbformat
import pytest
import yaml
from notebooks import carry, chapters, main, merge, read
from stamp import repository_url, stamp

from tests.book.conftest import setup_source
from tests.conftest import ROOT

BOOK = ROOT / "book"
NOTEBOOKS = sorted(BOOK.glob("*.ipynb"))
COLUMNS = 88  # of code fit beside the menus in a window of 1280 pixels
#: A chapter opens with a paragraph in plain language, and one line about time.
TOP = re.compile(
    r"# (?P<chapter>\d+) .+\n\n"
    r"(?P<opening>[^\n*>].+)\n\n"
    r"\*(?P<read>\d+) min to read · (?P<run>\d+) min to run · needs (?P<needs>.+)\*"
    r"(?:\n\n|$)"
)
#: The form of the second edition, with a box, until the last chapter has left it.
BOX = re.compile(
    r"# (?P<chapter>\d+) .+\n\n"
    r"> \*(?P<opening>.+\?)\*\n>\n"
    r"> \*\*Result\*\* .*\d.*\.\n>\n"
    r"> \*\*Time\*\* (?P<read>\d+) min to read, (?P<run>\d+) min to run"
    r" · \*\*Needs\*\* (?P<needs>.+)(?:\n\n|$)"
)
#: How a cell is folded whose title begins so: a drawing stays visible.
FOLDS = {
    "Setup": "hide-cell",
    "Check: ": "hide-cell",
    "Solution": "hide-cell",
    "Drawing: ": "remove-input",
    "In the package": "hide-cell",
    "Plot: ": "hide-input",
    "Code: ": "hide-input",
}
DIRECTIVE = re.compile(r"^\s*(```+|~~~+|:::+)\s*\{|\{[\w:.-]+\}`", re.MULTILINE)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def load(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in load(path).cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def folds(cell):
    return set(tags(cell)) & set(FOLDS.values())


def test_there_are_notebooks_and_each_has_its_text():
    assert NOTEBOOKS
    assert [path.stem for path in NOTEBOOKS] == [path.stem for path in chapters()]


def test_every_notebook_is_in_the_table_of_contents():
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    files = {
        chapter["file"] for part in contents["parts"] for chapter in part["chapters"]
    }
    assert {file for file in files if file.endswith(".ipynb")} == {
        f"book/{path.name}" for path in NOTEBOOKS
    }


@each_notebook
def test_text_and_notebook_agree(path):
    expected, stored = read(path.with_suffix(".md")), load(path)
    for cell in (*expected.cells, *stored.cells):
        cell.pop("outputs", None)
        cell.pop("execution_count", None)
    assert [dict(cell) for cell in stored.cells] == [
        dict(cell) for cell in expected.cells
    ], "run `make notebooks`"
    assert stored.metadata == expected.metadata


@each_notebook
def test_every_code_cell_has_run_in_order_and_without_error(path):
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error"]


@each_notebook
def test_nothing_is_stored_that_another_run_would_change(path):
    for cell in code_cells(path):
        assert "execution" not in cell.metadata
        for output in cell.outputs:
            assert output.get("name") != "stderr"
            assert not [kind for kind in output.get("data", {}) if "widget" in kind]


@each_notebook
def test_at_least_half_of_the_outputs_are_compared(path):
    cells = code_cells(path)
    ignored = [cell for cell in cells if "nbval-ignore-output" in tags(cell)]
    assert len(ignored) <= len(cells) / 2
    assert not [
        cell for cell in cells if "nbval-skip" in tags(cell) or "NBVAL" in cell.source
    ]


@each_notebook
def test_a_plot_whose_last_digits_depend_on_the_processor_is_not_compared(path):
    for cell in code_cells(path):
        pictures = [
            output.data["image/svg+xml"]
            for output in cell.outputs
            if "image/svg+xml" in output.get("data", {})
        ]
        if any('class="drawing"' not in picture for picture in pictures):
            assert "nbval-ignore-output" in tags(cell), cell.source


@each_notebook
def test_no_line_of_code_is_cut_off(path):
    lines = [line for cell in code_cells(path) for line in cell.source.splitlines()]
    assert not [line for line in lines if len(line) > COLUMNS]


@each_notebook
def test_every_figure_has_a_caption_and_an_alternative_text(path):
    for cell in code_cells(path):
        kinds = {kind for output in cell.outputs for kind in output.get("data", {})}
        if kinds & {"image/png", "image/svg+xml"}:
            settings = cell.metadata.get("mystnb", {})
            assert settings.get("figure", {}).get("caption"), cell.source
            alternative = settings.get("image", {}).get("alt", "")
            assert len(alternative) > 20, cell.source
            assert not alternative.endswith((".png", ".svg")), cell.source


@each_notebook
def test_captions_are_numbered_and_stand_below_their_figures_as_text(path):
    cells = load(path).cells
    chapter, number = int(path.stem[:2]), 0
    for cell, following in pairwise(cells):
        figure = cell.metadata.get("mystnb", {}).get("figure", {})
        if "caption" in figure:
            number += 1
            assert figure.caption.startswith(f"**Figure {chapter}.{number}.** ")
            assert following.source == figure.caption
        assert (tags(following) == ["remove-cell"]) == ("caption" in figure)
    assert number


@each_notebook
def test_the_top_has_title_opening_times_and_needs(path):
    text = load(path).cells[0].source
    top = TOP.match(text) or BOX.match(text)
    assert top
    assert len(top["opening"].split()) <= 90
    assert int(top["chapter"]) == int(path.stem[:2])
    for needed in re.findall(r"\]\((.*?)\)", top["needs"]):
        assert needed < path.name
        assert (BOOK / needed).exists()
    assert abs(int(top["read"]) / minutes_to_read(path) - 1) < 0.2
    assert 1 <= int(top["run"]) <= 5


def minutes_to_read(path):
    """The time for a chapter's text and open code: 230 words or 20 lines a minute."""
    words = lines = 0
    for cell in load(path).cells:
        if cell.cell_type == "markdown":
            words += len(re.findall(r"\w+", cell.source))
        elif not folds(cell):
            lines += len(cell.source.splitlines())
    return words / 230 + lines / 20


@each_notebook
def test_text_needs_no_engine_but_markdown(path):
    for cell in load(path).cells:
        if cell.cell_type == "markdown":
            assert not DIRECTIVE.search(cell.source), cell.source
            assert not cell.get("attachments")


@each_notebook
def test_titled_cells_and_no_others_are_folded_in_the_book_in_colab_and_jupyterlab(
    path,
):
    cells = code_cells(path)
    assert any(cell.source.startswith("#@title Solution") for cell in cells)
    for cell in cells:
        title = re.match(rf"#@title ({'|'.join(FOLDS)})", cell.source)
        assert folds(cell) == ({FOLDS[title[1]]} if title else set()), cell.source
        elsewhere = [
            cell.metadata.get("cellView") == "form",
            cell.metadata.get("jupyter") == {"source_hidden": True},
        ]
        assert elsewhere == [bool(title)] * 2, cell.source


@each_notebook
def test_the_first_code_cell_is_the_setup_cell_of_all(path):
    setup = code_cells(path)[0]
    assert setup.source.startswith(setup_source())
    address = f"git+{repository_url()}" if repository_url() else ""
    assert f'"COMPANION_REPOSITORY", "{address}"' in setup.source, "run `make stamp`"
    assert "nbval-ignore-output" in tags(setup)
    assert not setup.outputs


@each_notebook
def test_the_setup_cell_has_at_most_nine_imports(path):
    setup = code_cells(path)[0].source.removeprefix(setup_source())
    imports = [
        node
        for node in ast.walk(ast.parse(setup))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert 0 < len(imports) <= 9
    lists = [node.module for node in imports if isinstance(node, ast.ImportFrom)]
    assert len(set(lists)) == len(lists)


def test_the_address_is_written_into_texts_and_notebooks(small_book):
    text = small_book / "book" / "01_first.md"
    notebook = text.with_suffix(".ipynb")
    notebook.write_text(nbformat.writes(read(text)))
    empty = text.read_text(), notebook.read_text()
    for url in ("https://example.org/a", "https://example.org/b", ""):
        (small_book / "_config.yml").write_text(f"repository: {{url: '{url}'}}\n")
        stamp(small_book)
        written = f'"COMPANION_REPOSITORY", "{url and f"git+{url}"}"'
        assert text.read_text().count(written) == 1
        assert code_cells(notebook)[0].source.count(written) == 1
    assert (text.read_text(), notebook.read_text()) == empty


def test_a_chapter_without_setup_cell_is_refused(small_book):
    (small_book / "book" / "02_second.md").write_text("# Title\n")
    with pytest.raises(ValueError, match=r"02_second\.md has 0 setup cells"):
        stamp(small_book)


def test_pieces_of_printed_text_are_joined():
    def printed(text, name="stdout"):
        return nbformat.v4.new_output("stream", name=name, text=text)

    figure = nbformat.v4.new_output("display_data")
    assert merge([printed("a"), printed("b"), figure, printed("c")]) == [
        printed("ab"),
        figure,
        printed("c"),
    ]


def test_an_unknown_chapter_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no chapter 99_nothing in"):
        main(["99_nothing", "--output", str(tmp_path)])


def generate(*arguments, cwd=ROOT):
    command = [
        sys.executable,
        str(cwd / "book" / "tools" / "notebooks.py"),
        *map(str, arguments),
    ]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def small_book(tmp_path):
    """A copy of the tools, beside a book of one chapter whose last cell fails."""
    tools = tmp_path / "book" / "tools"
    tools.mkdir(parents=True)
    for tool in (BOOK / "tools").glob("*.py"):
        (tools / tool.name).write_text(tool.read_text("utf-8"), "utf-8")
    (tmp_path / "_config.yml").write_text("repository: {url: ''}\n")
    cells = [
        setup_source(),
        "print('told')",
        "1 / 0",
    ]
    text = "\n\n".join(f"```{{code-cell}} ipython3\n{cell}\n```" for cell in cells)
    (tmp_path / "book" / "01_first.md").write_text(text + "\n")
    return tmp_path


def test_a_failing_cell_writes_nothing(small_book):
    old = small_book / "book" / "01_first.ipynb"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(setup_source(), id="old")]
    )
    old.write_text(nbformat.writes(notebook))
    result = generate(cwd=small_book)
    assert result.returncode == 1
    assert "01_first.md: nothing written, a cell failed" in result.stderr
    assert "ZeroDivisionError" in result.stderr
    assert load(old).cells[0].id == "old"
    assert not list(small_book.rglob("*.unfinished"))


def test_what_is_printed_is_stored_and_the_course_itself_prints_no_warning(small_book):
    text = small_book / "book" / "01_first.md"
    cells = text.read_text().replace("1 / 0", "2 + 2")
    text.write_text(cells.replace("print", "import attention_course.tasks; print"))
    result = generate(cwd=small_book)
    assert result.returncode == 0, result.stderr
    printed, four = (
        cell.outputs for cell in code_cells(text.with_suffix(".ipynb"))[1:]
    )
    assert [output.text for output in printed] == ["told\n"]
    assert four[0].data["text/plain"] == "4"


def test_a_changed_text_is_carried_into_its_notebook(small_book):
    text = small_book / "book" / "01_first.md"
    path = text.with_suffix(".ipynb")
    text.write_text(text.read_text().replace("1 / 0", "2 + 2"))
    assert generate(cwd=small_book).returncode == 0
    before = path.read_bytes()
    carry(text)
    assert path.read_bytes() == before
    text.write_text("A sentence.\n\n" + text.read_text().replace("2 + 2", "3 + 3"))
    carry(text)
    sentence, _, printed, six = load(path).cells
    assert sentence.source == "A sentence."
    assert printed.outputs[0].text == "told\n"
    assert not six.outputs
    assert six.execution_count is None


def without_times(path):
    """The notebook, except what cells printed that say they measure time."""
    notebook = load(path)
    for cell in notebook.cells:
        if "measures-time" in tags(cell):
            assert "nbval-ignore-output" in tags(cell), cell.source
            cell.outputs = []
    return nbformat.writes(notebook)


@pytest.mark.slow
@each_notebook
def test_two_runs_give_the_same_bytes_but_for_times(path, tmp_path):
    folders = [tmp_path / "first", tmp_path / "second"]
    with ThreadPoolExecutor() as pool:
        results = list(
            pool.map(lambda folder: generate(path.stem, "--output", folder), folders)
        )
    assert not [result.stderr for result in results if result.returncode]
    first, second = (without_times(folder / path.name) for folder in folders)
    assert first == second
