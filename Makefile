# make help lists the targets. PYTHON is the interpreter that makes the environment.
PYTHON ?= python3.11
VENV ?= .venv
RUN := $(VENV)/bin/python
OVERRIDES ?=
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE

.DEFAULT_GOAL := help
.PHONY: help setup train test check lint types layers show tiny data-preview data-check kill-test bench bench-rewards attack-table fuzz clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(VENV)/.stamp: requirements/dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements/dev.lock
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(VENV)/.stamp  ## make .venv from the lock

train: setup  ## train: the tiny model on synthetic shapes; OVERRIDES="reward=odlength" for another run
	$(RUN) train.py $(OVERRIDES)

test: setup  ## all tests that this machine can run
	$(RUN) -m pytest -n 2 --dist worksteal

check: lint types layers test  ## everything that CI runs

lint: setup  ## ruff: errors and format
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: setup  ## pyright
	$(RUN) -m pyright --pythonpath $(RUN)

layers: setup  ## import-linter: the one-way flow
	$(VENV)/bin/lint-imports

show: setup  ## print a resolved configuration: make show OVERRIDES="reward=odlength"
	@$(RUN) train.py --cfg job --resolve $(OVERRIDES)

tiny: setup  ## rebuild the tiny checkpoints into outputs/tiny-vlm (about 15 minutes on one core)
	$(RUN) -m groundrl.models.tiny.build outputs/tiny-vlm

data-preview: setup  ## draw a contact sheet of the chosen data set: OVERRIDES="dataset=shapes_ovd"
	$(RUN) scripts/data_preview.py $(OVERRIDES)

data-check: setup  ## read every sample and say what is wrong: OVERRIDES="dataset=jsonl dataset.path=FILE"
	$(RUN) scripts/data_check.py $(OVERRIDES)

kill-test: setup  ## kill a run at 20 random moments and compare every resume with the uninterrupted run
	$(RUN) scripts/kill_test.py

bench: setup  ## a step of the tiny run against plain Hugging Face code
	$(RUN) benchmarks/tiny_step.py

bench-rewards: setup  ## odLength from text against a pycocotools call per completion
	$(RUN) benchmarks/rewards.py

attack-table: setup  ## attack every rubric and write docs/reward_attacks.md (about two minutes)
	$(RUN) scripts/attack_rewards.py

fuzz: setup  ## 100,000 generated and mutated answers through every rubric (ten minutes or more)
	$(RUN) -m scripts.fuzz_rewards

clean:  ## remove the environment and caches; outputs stay
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
