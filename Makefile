# Each target sets itself up: a virtual environment is made on first use and brought up to date when
# pyproject.toml changes. Say `make test PYTHON=python3.13` for another interpreter, and
# `make test TESTS=tests/test_tiny.py` or `make test ARGS="-k sum"` to run less.
PYTHON ?= python3
VENV ?= .venv
BENCH_VENV ?= .venv-bench
JOBS ?= 2
TESTS ?= tests
ARGS ?=
TORCH ?= torch==2.13.0
PIP = -m pip install --quiet --disable-pip-version-check

.PHONY: demo test slow bench check format clean help

help:
	@echo "make demo    train a convolutional network on handwritten digits"
	@echo "make test    run the tests (make slow: also the slow ones)"
	@echo "make check   lint, formatting, types"
	@echo "make bench   compare speed and memory with PyTorch, write docs/benchmarks.md"
	@echo "make format  let ruff rewrite the files"
	@echo "make clean   remove environments and caches"

demo: $(VENV)/.installed-demo
	$(VENV)/bin/python examples/convnet.py $(ARGS)

test: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest $(TESTS) -m "not slow" -n $(JOBS) $(ARGS)

slow: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest $(TESTS) -n $(JOBS) $(ARGS)

check: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

bench: $(BENCH_VENV)/.installed-bench
	$(BENCH_VENV)/bin/python benchmarks/report.py $(ARGS)

clean:
	rm -rf $(VENV) $(BENCH_VENV) build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The first stamp carries the interpreter's name, so that another PYTHON= rebuilds the environment.
# Static pattern rules, because make would not miss a stamp it knows from an implicit rule only.
ENVIRONMENTS = $(VENV) $(BENCH_VENV)
STAMP = .python-$(notdir $(PYTHON))

$(ENVIRONMENTS:%=%/$(STAMP)): %/$(STAMP):
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("flambeau needs Python 3.11 or newer; try make PYTHON=python3.11")'
	$(PYTHON) -m venv --clear $*
	@touch $@

$(ENVIRONMENTS:%=%/.installed): %/.installed: pyproject.toml %/$(STAMP)
	$*/bin/python $(PIP) --editable .
	@touch $@

$(VENV)/.installed-demo: $(VENV)/.installed
	$(VENV)/bin/python $(PIP) --editable ".[demo]"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(VENV)/bin/python $(PIP) --editable ".[dev]"
	@touch $@

$(BENCH_VENV)/.installed-bench: $(BENCH_VENV)/.installed
	$(BENCH_VENV)/bin/python $(PIP) --editable ".[test]" "$(TORCH)"
	@touch $@
