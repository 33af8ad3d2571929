# The only verbs: setup, run, check, fix, test. Each does its own set-up, and nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(VENV)/.runtime-installed
TOOLS := $(VENV)/.tools-installed

.PHONY: setup run check fix test

setup: $(RUNTIME)
	$(BIN)/python -m vlm.demo_model compose

# Loading composes the bundled models when they are not there yet.
run: $(RUNTIME)
	$(BIN)/python app.py $(ARGS)

check: $(TOOLS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: $(TOOLS)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: setup $(TOOLS)
	$(BIN)/python -m pytest $(ARGS)

$(RUNTIME): requirements.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -r requirements.txt
	touch $@

$(TOOLS): $(RUNTIME) tests/requirements.txt requirements-training.txt
	$(BIN)/pip install -r tests/requirements.txt
	touch $@
