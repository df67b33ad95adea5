# Everything a person does here; `make help` lists it.
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
PORT ?= 5000

.PHONY: help setup run test test-all test-matrix check format ui gallery launchers system-deps screenshots bench schema peer docs compare-base wheel clean-cache

help:  ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

setup: $(STAMP)  ## make .venv with pinned packages

run: $(STAMP)  ## score covariance propagation on the warmup suite
	$(BIN)/python -m whest budget=6.8e10 estimator=cov_prop

# Most of the fast tests' time is XLA's compiler. XLA's older code generator, in one piece, compiles in half the time.
# The slow tests compile as a user's run does. A file's tests stay in one process, which compiles a program once.
QUICK_XLA := --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1

test: check  ## lint, types and the fast tests
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 XLA_FLAGS="$(QUICK_XLA)" $(BIN)/python -m pytest -n 2 --dist loadfile

test-all: test  ## every test: the fast ones as above, then the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow

test-matrix: $(STAMP)  ## the fast tests on the oldest and the newest JAX, on every supported Python found
	$(BIN)/python benchmarks/matrix.py

check: $(STAMP)  ## lint and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## let ruff tidy the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

ui: $(STAMP)  ## MLflow's pages on the runs so far, at http://127.0.0.1:5000 (or PORT=…)
	$(BIN)/python -m whest job=ui port=$(PORT)

gallery: $(STAMP)  ## one page over all runs so far, outputs/gallery.html
	$(BIN)/python -m whest job=gallery

launchers: $(STAMP)  ## add joblib, submitit, Ray, Optuna and PostgreSQL's driver to .venv
	@grep -v '^optuna==' constraints.txt > .venv/launchers.txt  # the plug-in of hydra/sweeper=tune stops at Optuna 2
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c .venv/launchers.txt -e '.[joblib,submitit,ray,optuna,postgres]'

system-deps: $(STAMP)  ## install what the slow tests need: Chromium, PostgreSQL, bubblewrap, the docs site's builder
	apt-get update --quiet
	apt-get install --yes --no-install-recommends chromium postgresql bubblewrap
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser,docs]'

screenshots: $(STAMP)  ## make the pictures of pages in docs/ anew, in a real browser
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[browser]'
	WHEST_SCREENSHOTS=docs $(BIN)/python -m pytest -m slow tests/page tests/boards tests/gallery

bench: $(STAMP)  ## regenerate the README's figures
	$(BIN)/python benchmarks/frontier.py

schema: $(STAMP)  ## write docs/report.schema.json from the types of report.json
	$(BIN)/python -m whest.document > docs/report.schema.json

peer: $(STAMP)  ## install whestbench into outputs/peer, for the tests and benchmarks against it
	$(BIN)/python benchmarks/peer.py

docs: $(STAMP)  ## build the documentation site into outputs/site; a warning is an error
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python docs/site/build.py

# make compare-base BASE=origin/main ESTIMATOR=cov_prop,mean_prop N=20
BASE ?= origin/main
ESTIMATOR ?= cov_prop
N ?= 20
compare-base: $(STAMP)  ## is ESTIMATOR worse than at BASE, on N MLPs? exits 1 on a resolved regression
	$(BIN)/python .github/actions/compare-base/compare_base.py --base "$(BASE)" --estimator "$(ESTIMATOR)" --n-mlps "$(N)"

wheel: $(STAMP)  ## build a wheel into outputs/dist
	$(BIN)/python -m pip wheel --quiet --no-deps -w outputs/dist .

clean-cache: $(STAMP)  ## remove cached truth and compiled programs; runs stay
	$(BIN)/python -m whest job=clean
