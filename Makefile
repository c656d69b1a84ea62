# `make fly` and `make test` do everything on a machine that has only Python 3.11 or later and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TEST_READY := $(VENV)/.test_ready
DOCS_READY := $(VENV)/.docs_ready
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: fly test quick bench reproduce fuzz screenshots setup check docs lock

fly: setup
	$(BIN)/pvn fly --field 20

# Two processes with a thread each: most tests could not use a second thread, and threads that wait get in the way. Many
# tests start Python anew, which is quicker if compiled modules are kept, whatever the environment says.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2

test: check
	$(PYTEST) --dist worksteal

# The first tier, to run while working: everything but the tests that take a third of a second or more each.
quick: $(TEST_READY)
	$(PYTEST) -m 'not slow and not long'

# Speed on this machine, one JSON object for each script; BENCH chooses scripts. Other renderers: pip install '.[bench]'
BENCH := simulator agent oracle airsim
bench: $(TEST_READY)
	for name in $(BENCH); do echo $$name; $(BIN)/python benchmarks/$$name.py || exit 1; done

# The paper's results table: corpus, trainings, flights and report, resumed by what is in reproduction/. Needs a GPU; on a
# CPU, `make reproduce DEVICE=cpu PRESET=smoke` shows that everything works.
DEVICE := cuda
PRESET := paper
reproduce: setup
	$(BIN)/pvn reproduce --out reproduction --preset $(PRESET) --device $(DEVICE)

# Every reader with files changed at random: SECONDS in all, the same ones for the same SEED.
SECONDS := 60
SEED := 0
fuzz: $(TEST_READY)
	$(BIN)/python tests/fuzz.py --seconds $(SECONDS) --seed $(SEED)

# The pictures of the demo in docs/, and how long its page takes; needs Chromium and its driver.
screenshots: $(TEST_READY)
	$(BIN)/python tests/app/screenshots.py

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "pvn needs Python 3.11 or later; got " + sys.version.split()[0] + "; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	@echo "installing what flying, films and the demo need into $(VENV), which takes minutes the first time"
	$(INSTALL) . viser imageio-ffmpeg
	touch $(READY)

$(TEST_READY): $(READY)
	$(INSTALL) '.[dev]'
	touch $(TEST_READY)

check: $(TEST_READY)
	$(BIN)/ruff format --check src tests runs benchmarks docs
	$(BIN)/ruff check src tests runs benchmarks docs
	$(BIN)/mypy

# The site: build/docs/index.html. Every page is read afresh, for Sphinx does not repeat the warnings of pages it has kept.
docs: $(DOCS_READY)
	$(BIN)/python -m sphinx --fail-on-warning --fresh-env --quiet docs build/docs
	@echo "the site: build/docs/index.html"

$(DOCS_READY): $(READY)
	$(INSTALL) '.[docs]'
	touch $(DOCS_READY)

# Write the versions of this environment, which should hold every extra, into constraints.txt after trying newer ones.
lock:
	$(BIN)/python -m pip freeze --exclude-editable | sed 's/+cpu$$//' > constraints.txt
