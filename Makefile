# make help lists the targets. PYTHON is the interpreter that makes the environment.
PYTHON ?= python3.11
VENV ?= .venv
PY := $(VENV)/bin/python
VENV_VLLM ?= .venv-vllm
PY_VLLM := $(VENV_VLLM)/bin/python
OVERRIDES ?=
N ?= 3
RUN ?=
TO ?=
ARGS ?=
SAMPLES ?= 512
VERSION ?= 1
ID ?=
SCALE ?=
SEEDS ?=
JOBS ?= 1
INTO ?=
LAUNCHER ?= local
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= PASSIVE

.DEFAULT_GOAL := help
.PHONY: help setup setup-vllm train test test-vllm check lint types layers show tiny data-preview data-check show-prompt lint-prompts eval table tables claims export rescore replay runs audit sweep collect kill-test bench bench-rewards attack-table fuzz clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(VENV)/.stamp: requirements/dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -r requirements/dev.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

setup: $(VENV)/.stamp  ## make .venv from the lock

$(VENV_VLLM)/.stamp: requirements/vllm.lock requirements/base.lock pyproject.toml scripts/torchvision_ops.py
	$(PYTHON) -m venv $(VENV_VLLM)
	$(PY_VLLM) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements/vllm.lock
	$(PY_VLLM) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(PY_VLLM) scripts/torchvision_ops.py
	@touch $@

setup-vllm: $(VENV_VLLM)/.stamp  ## make .venv-vllm, for rollout/engine=vllm on a CPU (3 GB)

train: setup  ## train: the tiny model on synthetic shapes; OVERRIDES="reward=odlength" for another run
	$(PY) train.py $(OVERRIDES)

test: setup  ## all tests that this machine can run
	$(PY) -m pytest -n 2 --dist worksteal

test-vllm: setup-vllm  ## the vLLM engine against the learner
	$(PY_VLLM) -m pytest -m vllm tests/vllm

check: lint types layers test  ## everything that CI runs

lint: setup  ## ruff: errors and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: setup  ## pyright
	$(PY) -m pyright --pythonpath $(PY)

layers: setup  ## import-linter: the one-way flow
	$(VENV)/bin/lint-imports

show: setup  ## print a resolved configuration: make show OVERRIDES="reward=odlength"
	@$(PY) train.py --cfg job --resolve $(OVERRIDES)

tiny: setup  ## rebuild the tiny checkpoints into outputs/tiny-vlm (15 minutes on one core; VERSION=2: two hours)
	$(PY) -m groundrl.models.tiny.build outputs/tiny-vlm --version $(VERSION)

data-preview: setup  ## draw a contact sheet of the chosen data set: OVERRIDES="dataset=shapes_ovd"
	$(PY) scripts/data_preview.py $(OVERRIDES)

data-check: setup  ## read every sample and say what is wrong: OVERRIDES="dataset=jsonl dataset.path=FILE"
	$(PY) scripts/data_check.py $(OVERRIDES)

show-prompt: setup  ## what the model sees: OVERRIDES="reward=odlength prompt=ovd_enhanced" N=3
	$(PY) scripts/show_prompt.py --samples $(N) $(OVERRIDES)

lint-prompts: setup  ## every prompt option against the synthetic worlds
	$(PY) scripts/lint_prompts.py

eval: setup  ## evaluate a checkpoint: OVERRIDES="model=qwen3b eval=ovd paths.data=FOLDER"
	$(PY) train.py algorithm=eval_only $(OVERRIDES)

table: setup  ## an experiment's table from its frozen results: ID=vlmr1_t5 (SCALE=tiny, ARGS=--allow-mixed)
	@test -n "$(ID)" || { echo "ID is empty; write make table ID=vlmr1_t5"; exit 2; }
	$(PY) -m groundrl.reporting.tables $(ID) $(if $(SCALE),--scale $(SCALE)) $(if $(INTO),--into $(INTO)) $(ARGS)

tables: setup  ## the tables of all experiments; ARGS=--check only compares
	$(PY) -m groundrl.reporting.tables $(ARGS)

claims: setup  ## an experiment's claims against its frozen results: ID=vlmr1_t5
	@test -n "$(ID)" || { echo "ID is empty; write make claims ID=vlmr1_t5"; exit 2; }
	$(PY) -m groundrl.reporting.claims $(ID) $(if $(INTO),--into $(INTO))

export: setup  ## the run's model with a card: RUN=FOLDER TO=FOLDER (ARGS=--last or --adapter)
	$(PY) -m groundrl.training.export $(RUN) $(TO) $(ARGS)

rescore: setup  ## judge a run's stored answers again: RUN=FOLDER OVERRIDES="reward=giou"
	$(PY) -m groundrl.training.rescore $(RUN) $(OVERRIDES)

replay: setup  ## a run's words against today's configs: RUN=FOLDER; fails on drift
	@$(PY) -m groundrl.reporting.replay $(RUN)

runs: setup  ## list the runs under outputs, or ARGS="FOLDER --json"
	@$(PY) -m groundrl.reporting.runs $(ARGS)

audit: setup  ## how often the model gets each sample right, for dataset=by_difficulty: TO=audit.jsonl SAMPLES=512 OVERRIDES="dataset=charts ..."
	$(PY) -m groundrl.training.audit $(TO) --samples $(SAMPLES) $(ARGS) $(OVERRIDES)

sweep: setup  ## run a sweep, or go on with it: ID=vlmr1_t5 SCALE=tiny SEEDS=3 JOBS=2 (INTO=mine LAUNCHER=submitit OVERRIDES=tracker=wandb)
	$(PY) -m groundrl.sweeping.run $(ID) $(if $(SCALE),--scale $(SCALE)) $(if $(SEEDS),--seeds $(SEEDS)) --jobs $(JOBS) --launcher $(LAUNCHER) $(if $(INTO),--into $(INTO)) $(OVERRIDES) $(ARGS)

collect: setup  ## take runs that were started by hand into a sweep's results: ID=vlmr1_t5 SCALE=tiny RUN=FOLDER
	$(PY) -m groundrl.sweeping.collect --id $(ID) --scale $(SCALE) $(if $(SEEDS),--seeds $(SEEDS)) $(RUN)

kill-test: setup  ## kill a run at 20 random moments and compare every resume with the uninterrupted run
	$(PY) scripts/kill_test.py

bench: setup  ## a step of the tiny run against plain Hugging Face code
	$(PY) benchmarks/tiny_step.py

bench-rewards: setup  ## odLength from text against a pycocotools call per completion
	$(PY) benchmarks/rewards.py

attack-table: setup  ## attack every rubric and write docs/reward_attacks.md (about two minutes)
	$(PY) scripts/attack_rewards.py

fuzz: setup  ## 100,000 generated and mutated answers through every rubric (ten minutes or more)
	$(PY) -m scripts.fuzz_rewards

clean:  ## remove the environment and caches; outputs stay
	rm -rf $(VENV) $(VENV_VLLM) .pytest_cache .ruff_cache .hypothesis .import_linter_cache
