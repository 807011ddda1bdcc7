# make book       build the book
# make preview    read the book at http://localhost:8000 while you write it
# make test       lint, unit tests, every notebook, every page in a browser
# make quick      lint and unit tests, without compilers and browsers
# make test-all   everything: all graphs, all views of all pages, Colab's versions, the downloads, the experiments
# make notebooks  run every chapter, write its notebook
# make lint       ruff and mypy
# make bench      measure against tutorials
# make downloads  the book as a PDF, an ePub and a zip, the notebooks with a wheel, and a site that has them
# make clean      remove what was built
# CONTRIBUTING.md has the commands that are needed once a year.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
BOOK   := _build/html/ready
CODE   := companion tests book
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
SHAPES := --jaxtyping-packages=companion,attention_course,tests.check_types
NBVAL  := --nbval --nbval-current-env

export OMP_NUM_THREADS := 1

.PHONY: book preview test quick test-all notebooks stamp lint bench downloads clean
.DELETE_ON_ERROR:

book: $(BOOK)
	@echo "The book is built. Open $(CURDIR)/_build/html/index.html"

preview: $(READY)
	@$(BIN)/python book/tools/preview.py

# Files in their order, the notebooks first: they take longest, and the workers should end together.
test: lint $(BOOK)
	@$(BIN)/python book/tools/browser.py
	$(PYTEST) book tests $(SHAPES) $(NBVAL) -m "not slow"

quick: lint
	$(PYTEST) tests --ignore tests/book $(SHAPES) -m "not slow and not compiled"

# The slow graphs without the checks of shapes, some of which PyTorch cannot compile.
# Finally, the notebooks again, without the processor's vector instructions: what they assert must hold.
test-all: lint $(BOOK)
	$(BIN)/python -m pip install --quiet --constraint requirements.txt --editable ".[all]"
	@$(BIN)/python book/tools/browser.py
	$(PYTEST) book tests $(SHAPES) $(NBVAL) --hypothesis-profile=thorough -m "not (slow and compiled)"
	$(PYTEST) tests --ignore tests/book -m "slow and compiled"
	ATEN_CPU_CAPABILITY=default $(PYTEST) book --nbval-lax --nbval-current-env

notebooks: $(READY)
	$(BIN)/python book/tools/notebooks.py

stamp: $(READY)
	$(BIN)/python book/tools/stamp.py

lint: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m pip install --quiet --constraint requirements.txt --editable ".[all]"
	@set -e; for script in tests/benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

# One zip has the pages as they were built, one the notebooks and the wheel; the site has links to all.
downloads: $(BOOK)
	$(BIN)/python book/tools/downloads.py
	@echo "The downloads are in _build/downloads. Open $(CURDIR)/_build/site/index.html"

clean:
	rm -rf _build $(VENV)

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; (3, 11) <= v < (3, 14) or sys.exit(\
		f"Python 3.11, 3.12 or 3.13 is needed, but $(PYTHON) is {v[0]}.{v[1]}: try make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps -e .
	@touch $@

# Always from nothing: a build that continues an older one shows neither its warnings nor new entries in the menu.
$(BOOK): $(READY) _config.yml _toc.yml $(wildcard book/*.* book/tools/*.* book/_templates/*) \
		$(shell find book/_static -type f) $(shell find companion tests/contracts -name '*.py')
	rm -rf _build/.doctrees _build/html _build/jupyter_execute
	$(BIN)/jupyter-book build . -W -n --keep-going
	@touch $@
