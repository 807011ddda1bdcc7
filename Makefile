# make book       build the book              make notebooks  run every chapter, write its notebook
# make test       check everything            make stamp      write the repository's address where it belongs
# make lint       ruff and mypy               make serve      read the book at http://localhost:8000
# make colab      all notebooks in Colab's versions (make test takes those that changed last)
# make bench      measure against tutorials   make lock       choose the versions in requirements.txt anew
# make downloads  the book as a PDF, an ePub and a zip, and a site that has them (or: make pdf, epub, zip)
# make coverage   the lines that unit tests run    make mutants   what the tests notice when the code is wrong
# make links      asks every address outside the book whether it still answers
# make live       trains the two models of the live translation and writes their weights for the page
# make browser    finds or gets the Chromium and the font that the tests use (make test does it)
# make clean      remove what was built

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
BOOK   := _build/html/ready
FILE   := _build/downloads/attention
CODE   := companion tests book

export OMP_NUM_THREADS := 1

.PHONY: book test browser live colab notebooks stamp serve bench coverage mutants links lint lock clean downloads pdf epub zip
.DELETE_ON_ERROR:

book: $(BOOK)
	@echo "The book is built. Open $(CURDIR)/_build/html/index.html"

# Files in their order, the notebooks first: they take longest, and the workers should end together.
test: lint browser $(BOOK)
	$(BIN)/python -m pytest book tests -n 2 --dist loadfile --no-loadscope-reorder \
		--jaxtyping-packages=companion,attention_course,tests.check_types --nbval --nbval-current-env --nbval-sanitize-with tests/nbval.cfg

browser: $(READY)
	@$(BIN)/python book/tools/get_browser.py

lint: $(READY)
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

colab: $(READY)
	$(BIN)/python -m pytest tests/book/test_colab.py --all-notebooks

notebooks: $(READY)
	$(BIN)/python book/tools/notebooks.py

stamp: $(READY)
	$(BIN)/python book/tools/stamp.py

live: $(READY)
	$(BIN)/python book/tools/live_model.py

serve: $(BOOK)
	$(BIN)/python -m http.server 8000 --directory _build/html

# Not among the tests: others' servers are down now and then, and do not like to be asked often.
links: $(READY)
	$(BIN)/jupyter-book build . --path-output _build/links --builder linkcheck

bench: $(READY)
	@set -e; for script in tests/benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

coverage: $(READY)
	$(BIN)/python -m pytest tests --ignore tests/book -n 2 --dist loadfile --cov=companion \
		--cov-report=term-missing:skip-covered --cov-fail-under=99

mutants: $(READY)
	$(BIN)/python -m pip install --quiet --editable ".[mutants]"
	$(BIN)/mutmut run --max-children 2
	$(BIN)/mutmut results

# The zip has the pages as they were built; the site has links to all three.
downloads: pdf epub zip
	$(BIN)/python book/tools/downloads.py site
	@echo "The downloads are in $(dir $(FILE)). Open $(CURDIR)/_build/site/index.html"

pdf epub zip: %: $(FILE).%

$(FILE).%: $(BOOK)
	$(BIN)/python book/tools/downloads.py $*

# The versions hold for every platform: a local build's mark and the CUDA libraries are left to pip on the spot.
lock: $(READY)
	$(BIN)/python -m piptools compile --quiet --upgrade --no-header --no-annotate --no-strip-extras --allow-unsafe \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options \
		--upgrade-package torch==2.13.0 --upgrade-package jupyter-book==1.0.4.post1 \
		--extra site --output-file requirements.tmp pyproject.toml
	{ echo "# Written by make lock: the versions that book and tests use."; \
		sed -E -e '/^(nvidia|triton|cuda|pip==|companion)/d' -e 's/^(torch==[^+ ]*)\+[^ ]*/\1/' requirements.tmp; } > requirements.txt
	rm requirements.tmp

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
		$(shell find book/_static -type f) $(shell find companion -name '*.py')
	rm -rf _build/.doctrees _build/html _build/jupyter_execute
	$(BIN)/jupyter-book build . -W -n --keep-going
	@touch $@
