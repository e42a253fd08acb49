# `make help` says what there is.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check proof bench chaos lock clean

# For `make test` (ARGS="tests/ops -k broker"), `make bench` (ARGS=--help) and `make chaos`.
ARGS ?=
PYTHON := .venv/bin/python

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 16

setup: ## everything into .venv: packages, RabbitMQ, the embedded model (minutes once, then at once)
	@sh ops/setup.sh

demo: setup ## run real jobs through a private broker, a worker and a real model, and show them
	@.venv/bin/sluice demo

test: setup ## the whole test suite, the live part included; ARGS go to pytest
	@$(PYTHON) -m pytest $(ARGS)

check: ## lint, format and types, all strict
	@sh ops/setup.sh packages
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m ruff format --check .
	@.venv/bin/basedpyright

bench: setup ## jobs per second through the queue, beside raw aio-pika, FastStream and taskiq
	@$(PYTHON) -m tests.bench.queue $(ARGS)

chaos: setup ## 10,000 jobs while broker, network and services fail, and a count of what became of them
	@$(PYTHON) -m tests.chaos --jobs 10000 $(ARGS)

proof: setup ## garbage delivered, good text touched and the cost, with sluicegate and without
	@$(PYTHON) -m tests.proof $(ARGS)

lock: ## pin the newest allowed packages in locks/cpu.txt (minutes); then run the tests
	@sh ops/setup.sh lock

clean: ## remove caches and built files; .venv and the model stay
	@rm -rf build dist ./*.egg-info .pytest_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
