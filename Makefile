# Each target sets up .venv by itself when needed and is quick when nothing changed.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
OUT ?= out
.DEFAULT_GOAL := help

.PHONY: help install demo demo-diffusion test test-slow attack adversary-page lint format docs bench speed census results tables unlearning generation clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

install: $(STAMP)  ## Create .venv with everything development needs

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench,diffusion,pretrained,table]' --group dev --group docs
	@touch $(STAMP)

demo: $(STAMP)  ## Train, forget, compare with retraining; writes out/report.html
	@$(BIN)/erasable demo --out $(OUT)

test: lint  ## Lint, types, and the test suite (no downloads, no long training)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --durations=10

test-slow: $(STAMP)  ## The tests that take minutes or need data sets
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m 'slow or download'

attack: $(STAMP)  ## Try for an hour to be told something false; prints each seed (MINUTES=60)
	@cd tests && OMP_NUM_THREADS=1 ../$(BIN)/python -m adversary --minutes $(or $(MINUTES),60)

adversary-page: $(STAMP)  ## Write the table of attempts into docs/adversary.md
	@cd tests && ../$(BIN)/python -m adversary --page ../docs/adversary.md

lint: $(STAMP)  ## ruff and mypy --strict
	@$(BIN)/ruff check -q .
	@$(BIN)/ruff format -q --check .
	@$(BIN)/mypy

format: $(STAMP)  ## Rewrite the code in the project's format
	@$(BIN)/ruff check -q --fix .
	@$(BIN)/ruff format -q .

docs: $(STAMP)  ## Build the documentation into site/, warnings are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # --quiet would hide warnings from --strict

TINY := --data digits --preset tiny --seeds 2 --published --runs $(OUT)/bench/runs

bench: $(STAMP)  ## Every unlearning method on digits, in minutes; writes out/bench/*.html
	@$(BIN)/erasable tables cls_cifar $(TINY) --classes 2 --out $(OUT)/bench/classes.html
	@$(BIN)/erasable tables cls_random $(TINY) --out $(OUT)/bench/random.html
	@$(BIN)/erasable tables sequence $(TINY) --out $(OUT)/bench/sequence.html
	@$(BIN)/erasable tables gnn $(filter-out --published,$(TINY)) --out $(OUT)/bench/gnn.html

demo-diffusion: $(STAMP)  ## Train a generator on digits, forget, draw again; writes out/samples.png
	@$(BIN)/erasable figures samples --data digits --preset demo --per-class 3 --runs $(OUT)/generation --out $(OUT)/samples.png
	@$(BIN)/erasable figures votes --data digits --preset demo --class 3 --runs $(OUT)/generation --out $(OUT)/votes.png

speed: $(STAMP)  ## Measure speed; writes out/benchmarks.md
	@$(BIN)/python benchmarks/run.py --out $(OUT)/benchmarks.md

census: $(STAMP)  ## Count lines, modules, imports, and files on the way of a call
	@$(BIN)/python benchmarks/census.py

results: demo speed  ## Run demo and benchmarks and put their pages and picture into docs/
	@cp $(OUT)/demo.md $(OUT)/benchmarks.md docs/
	@cp $(OUT)/teaser.png docs/images/

TABLES := $(BIN)/erasable tables
RESULTS := docs/results

tables: $(STAMP)  ## Run the experiments of docs/results (hours; interrupted, it goes on)
	@$(TABLES) exact --data cifar10 --encoder efficientnet_lite0:160 --encoder efficientnet_lite0:224 \
	  --encoder efficientnet_lite2:224 --runs $(RESULTS)/runs --out $(RESULTS)/cifar10-exact.md
	@$(TABLES) gap --data fashion-mnist --preset laptop --runs $(RESULTS)/runs --out $(RESULTS)/fashion-mnist-gap.md
	@$(TABLES) std_cls --data fashion-mnist --preset laptop --runs $(RESULTS)/runs --out $(RESULTS)/fashion-mnist.md
	@$(TABLES) std_cls --data cifar10 --preset laptop --runs $(RESULTS)/runs --out $(RESULTS)/cifar10-memory.md
	@$(TABLES) share --data cifar10 --preset laptop --frozen efficientnet_lite0:160 \
	  --runs $(RESULTS)/runs --out $(RESULTS)/cifar10-share.md

KEPT := --preset laptop --runs $(RESULTS)/runs
NARROW := --encoder-option width=0.25 --encoder-option precision=bfloat16
DELETIONS := --method mute --kind knn --kind spm --published
READINGS := --kind knn --kind spm --kind spm_neighbours --kind spm_gaussian

unlearning: $(STAMP)  ## Run the unlearning benchmark of docs/results (many hours; interrupted, it goes on)
	@$(TABLES) cls_random --data fashion-mnist $(KEPT) --out $(RESULTS)/fashion-mnist-random.md --out $(RESULTS)/fashion-mnist-random.csv
	@$(TABLES) cls_cifar --data fashion-mnist --classes 0 $(KEPT) --out $(RESULTS)/fashion-mnist-classes.md --out $(RESULTS)/fashion-mnist-classes.csv
	@$(TABLES) cls_cifar --data fashion-mnist --classes 0 --halves 0 --method mute --method salun $(READINGS) $(KEPT) --out $(RESULTS)/fashion-mnist-readings.md
	@$(TABLES) cls_cifar --data fashion-mnist --classes 3 --halves 0 $(DELETIONS) $(KEPT) --out $(RESULTS)/fashion-mnist-plain.md
	@$(TABLES) cls_cifar --data fashion-mnist --classes 3 --halves 0 $(DELETIONS) --label-smoothing 0.1 $(KEPT) --out $(RESULTS)/fashion-mnist-smoothed.md
	@for class in 'Ankle boot' Bag Coat Dress Pullover Sandal Shirt Sneaker T-shirt/top Trouser; do \
	  name=$$(echo "$$class" | tr 'A-Z /' 'a-z--'); \
	  $(BIN)/erasable bench pack --data fashion-mnist --rule "class:$$class" $(KEPT) --out $(RESULTS)/packs/fashion-mnist-$$name.npz || exit 1; done
	@$(BIN)/erasable bench pack --data fashion-mnist --rule 'classes:Ankle boot,Bag,Coat,Dress,Pullover' $(KEPT) --out $(RESULTS)/packs/fashion-mnist-five-classes.npz
	@$(TABLES) tradeoff --data fashion-mnist --public mnist $(KEPT) --out $(RESULTS)/fashion-mnist-tradeoff.md
	@$(TABLES) sequence --data fashion-mnist $(KEPT) --out $(RESULTS)/fashion-mnist-sequence.md
	@$(TABLES) gnn --data fashion-mnist $(KEPT) --out $(RESULTS)/fashion-mnist-gnn.md
	@$(TABLES) cls_cifar --data cifar10 $(NARROW) $(KEPT) --out $(RESULTS)/cifar10-classes.md --out $(RESULTS)/cifar10-classes.csv
	@$(TABLES) cls_random --data cifar10 --share 10 $(NARROW) $(KEPT) --out $(RESULTS)/cifar10-random.md --out $(RESULTS)/cifar10-random.csv

HALF := --network-option precision=bfloat16
GENERATED := --data mnist $(KEPT) $(HALF) --drawing-steps 15

generation: $(STAMP)  ## Run the experiments on generation of docs/results (many hours; interrupted, it goes on)
	@$(TABLES) std_ddpm $(GENERATED) --seeds 2 --out $(RESULTS)/mnist-generation.md --out $(RESULTS)/mnist-generation.csv
	@# Class by class: both tables need the same oracles. Two classes have floors.
	@for class in 1 3; do \
	  $(TABLES) ddpm --class $$class $(GENERATED) || exit 1; \
	  $(TABLES) erasediff --class $$class $(GENERATED) || exit 1; done
	@for class in 5 7 9; do \
	  $(TABLES) ddpm --class $$class --floors 0 $(GENERATED) || exit 1; \
	  $(TABLES) erasediff --class $$class --floors 0 $(GENERATED) || exit 1; done
	@$(TABLES) ddpm --floors 2 $(GENERATED) --out $(RESULTS)/mnist-forgetting.md --out $(RESULTS)/mnist-forgetting.csv
	@$(TABLES) erasediff --floors 2 $(GENERATED) --out $(RESULTS)/mnist-erasediff.md --out $(RESULTS)/mnist-erasediff.csv
	@$(TABLES) reminded $(GENERATED) --out $(RESULTS)/mnist-reminded.md --out $(RESULTS)/mnist-reminded.csv
	@$(TABLES) label_perm --class 1 --class 9 $(GENERATED) --out $(RESULTS)/mnist-labels.md --out $(RESULTS)/mnist-labels.csv
	@$(TABLES) variants --data digits --preset demo --seeds 3 --runs $(RESULTS)/runs --out $(RESULTS)/digits-variants.md
	@for name in samples votes pipeline; do \
	  $(BIN)/erasable figures $$name --data mnist $(KEPT) $(HALF) --out $(RESULTS)/mnist-$$name.png || exit 1; done
	@$(BIN)/erasable figures samples --per-class 3 --data mnist $(KEPT) $(HALF) --out $(RESULTS)/mnist-samples-three.png
	@$(BIN)/erasable figures gmm --data mnist $(KEPT) --out $(RESULTS)/mnist-gmm.png
	@$(BIN)/erasable figures samples --data cifar10 --preset trial --runs $(RESULTS)/runs --out $(RESULTS)/cifar10-trial.png
	@for table in ddpm erasediff; do \
	  $(TABLES) $$table --data cifar10 --preset trial --class cat --untuned --drawing-steps 10 --runs $(RESULTS)/runs --out $(RESULTS)/cifar10-trial-$$table.md || exit 1; done

clean:  ## Remove everything the targets made
	rm -rf $(VENV) $(OUT) site dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
