# SPDX-License-Identifier: GPL-3.0-or-later
# Each target brings about what it needs.  Set-up steps are keyed by the content of what they install.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORPUS ?= stdlib
QUERIES ?=
CLAIM ?=
RETURN ?=
EMBEDDER ?= minilm
OTHER := $(filter-out minilm,$(EMBEDDER))
# Tests wait for processes and for each other's answers: two workers for a core keep the cores busy.
WORKERS ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))
export PYTHONUNBUFFERED := 1
unexport PYTHONDONTWRITEBYTECODE  # the tests start hundreds of processes: each would compile the whole source again
export RAGSEAL_BUILD ?= $(CURDIR)/var/build

.PHONY: setup demo demo-large check test test-fast test-long test-extras lint package release docs bench paper protos clean

setup:  ## everything that the other targets need
	@$(PYTHON) scripts/setup.py

demo:  ## `ragseal try` under the paper's claim and the default's; CLAIM=every-list (or until-delivered, answers), CORPUS=beir:PATH, QUERIES=300, RETURN=8, EMBEDDER=sentence-transformers:NAME (brings PyTorch)
	@$(PYTHON) scripts/setup.py --run-only $(if $(OTHER),--extras)
	@$(VENV)$(if $(OTHER),-extras)/bin/python -m ragseal.demo try "$(CORPUS)" $(if $(QUERIES),--queries $(QUERIES)) --claim $(or $(CLAIM),both) $(if $(RETURN),--return $(RETURN)) --embedder "$(EMBEDDER)" --out var/demo --no-open

demo-large:  ## one window over a million documents: an index in shards, with synthetic vectors beside the docstrings; CLAIM=every-list over 100,000
	@$(PYTHON) scripts/setup.py --run-only
	@$(VENV)/bin/python -m ragseal.demo try --large $(if $(CLAIM),--claim $(CLAIM)) --out var/demo-large --no-open

check: lint test-fast  ## linters and the fast tests: before each commit

test-fast: setup  ## the tests that take seconds: what runs while one works
	@$(BIN)/python -m pytest -q -n $(WORKERS) --max-worker-restart=0 -m "not slow and not long"

# Each worker reads every test file.  In a new checkout one process does it first, while Rust compiles, so that Python
# compiles them once: 36 s of processor time that each worker would take.
test: setup  ## the test suite, Python and Rust, without what takes minutes
	@mkdir -p var; (cd native && cargo test --release --lib --quiet) >var/cargo-test.log 2>&1 & rust=$$!; \
		{ $(BIN)/python -m pytest -q --collect-only >var/collected.log 2>&1 || { tail -n 40 var/collected.log; false; }; } && \
		$(BIN)/python -m pytest -q -n $(WORKERS) -m "not long" --dist loadfile --no-loadscope-reorder --max-worker-restart=0 && python=0 || python=$$?; \
		wait $$rust && rust=0 || rust=$$?; cat var/cargo-test.log; exit $$((python ? python : rust))

test-long: setup  ## what `make test` leaves out: thirty kills, a million entries, a window without the native module, whole ceremonies, emulated AVX-512
	@cd native && cargo test --release --lib --quiet --features emulated -- simd curve poseidon
	@$(BIN)/python -m pytest -q -n $(WORKERS) -m long --max-worker-restart=0 $$(grep -rl --include='test_*.py' 'mark\.long' tests)

test-extras:  ## the optional parts, in an environment of their own (PyTorch: 6 GB); none may be skipped
	@$(PYTHON) scripts/setup.py --extras
	@.venv-extras/bin/python -m pytest -q --no-skips tests/embedder tests/client/adapters tests/client/gateway/test_node.py \
		tests/bench/test_apps.py tests/runtime/test_tracing.py tests/runtime/test_token.py tests/runtime/test_retry_info.py \
		tests/demo/test_other_embedder.py tests/sources tests/workers/test_ray.py tests/verifier/test_oscal.py \
		tests/verifier/test_report_in_browser.py tests/web/test_in_chromium.py

lint: setup  ## ruff, mypy --strict, import-linter, clippy; generated code and reference current
	@$(BIN)/python scripts/lint.py

package: setup  ## wheel and source distribution, built and tried in clean environments
	@$(BIN)/python scripts/package_smoke.py

release: setup  ## one commit that is a release: VERSION=X.Y.Z; prints the signed tag that its owner sets
	@$(BIN)/python scripts/release.py "$(VERSION)"

docs: setup  ## regenerate docs/reference, and the generated parts of spec/
	@$(BIN)/python scripts/docs.py
	@$(BIN)/python scripts/spec.py

bench: setup  ## measurements; results and machine go to bench/results/ (adapters: where `make test-extras` has brought their frameworks)
	@$(BIN)/python -m bench.performance
	@$(if $(wildcard .venv-extras/bin/python),.venv-extras,$(VENV))/bin/python -m bench.apps

paper: setup  ## the paper's figures and tables with today's code, and gates P1 to P3 (an hour; without figure 3 of a million vectors, minutes)
	@$(BIN)/python -m bench.paper

protos: setup  ## regenerate proto/gen
	@$(BIN)/python scripts/protos.py

clean:  ## forget builds, keys and demo output, keep the virtual environment
	rm -rf var build native/target
