# Everything runs in a virtual environment of its own, made on first use: `make demo` on a fresh machine is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: setup demo train-demo lecture clients test test-times test-cpus test-all mutants fuzz torture check docs audit lowest bench bench-serve soak clean

setup: $(READY)

$(BIN)/dragoman:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable .

$(READY): $(BIN)/dragoman pyproject.toml constraints.txt $(wildcard dragoman/engine/onnx/native/*.[ch])
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[train,serve,convert,ray,documents,mcp,docs,dev]"
	# Makes a client from our description, for a test. It asks for an older typer than the pinned one and does without.
	$(BIN)/pip install --quiet --no-deps openapi-python-client==0.29.1 ruamel.yaml==0.19.1
	touch $(READY)

# The model that comes with the package, without PyTorch: most of the time goes into installing.
demo: $(BIN)/dragoman
	$(BIN)/dragoman translate --to en "Wo ist der Bahnhof?" "¿Dónde está mi bolso?" "Où est la gare ?" "Onde fica a estação?"
	$(BIN)/dragoman translate --to de "Where is the station?" "My brother plays the piano very well."
	$(BIN)/dragoman translate --to fr "Where is the station?" "Tom hat einen Hund."
	$(BIN)/dragoman translate --to es "Where is the station?" "Tom a un chien."
	$(BIN)/dragoman translate --to pt "Where is the station?" "Tom tiene un perro."

# Trains the tiny preset on a slice of Tatoeba and translates with it: a few minutes on two cores.
train-demo: setup
	rm -rf runs/demo
	$(BIN)/dragoman train examples/tatoeba.de.gz examples/tatoeba.en.gz --out runs/demo \
	    --valid examples/valid.de.gz examples/valid.en.gz --config configs/demo.toml --device cpu
	$(BIN)/dragoman translate --model runs/demo "Ich bin müde." "Wo ist meine Tasche?" "Tom hat einen Hund." "Das ist gut."

# A Transformer in one file learns from the same slice and translates: a few minutes. One thread, as for the tests: a
# small model gains little from a second one, and loses much where the cores are busy.
lecture: setup
	OMP_NUM_THREADS=1 $(BIN)/python examples/transformer_from_scratch.py examples/tatoeba.de.gz examples/tatoeba.en.gz \
	    --translate "Ich bin müde." "Wo ist meine Tasche?" "Tom hat einen Hund." "Das ist gut."

# One thread for each process: small models are slower with more. One process more than there are cores, since some
# tests wait for others' processes. Compiled modules are kept, whatever the environment says: each process imports all
# tests, and compiling them takes as long as importing them.
WORKERS := $(shell $(PYTHON) -c "import os; print((os.cpu_count() or 1) + 1)")
PYTEST := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal

test: setup
	$(PYTEST) -m "not slow"

# For tests that are skipped without them: spaCy, LangChain and pyarrow (for Ray Data) beside dragoman, MCP's inspector
# (which needs npm), and Weblate in an environment of its own. What draws Weblate's badges and makes its backups is left
# out: that has to be compiled.
clients: build/weblate/.ready build/inspector/.ready setup
	$(BIN)/pip install --quiet --constraint constraints.txt spacy==3.8.18 langchain-core==1.7.2 pyarrow==26.0.1
build/inspector/.ready:
	npm install --silent --no-fund --prefix build/inspector @modelcontextprotocol/inspector@0.15.0
	touch $@
build/weblate/.ready:
	$(PYTHON) -m venv build/weblate
	build/weblate/bin/pip install --quiet --no-deps weblate==5.14.3
	build/weblate/bin/python -c "import importlib.metadata as m; print(*(r for r in m.requires('weblate') if 'extra' not in r and not r.lower().startswith(('borgbackup', 'pygobject', 'pycairo', 'standardwebhooks'))), sep='\n')" > build/weblate/needed.txt
	build/weblate/bin/pip install --quiet --requirement build/weblate/needed.txt standardwebhooks openai==3.49.0
	touch $@

# The same, with the CPU seconds of each test, which a busy machine changes little.
test-times: setup
	$(PYTEST) -p tests.cpu_times -m "not slow"

# What depends on the CPU, as every kind of CPU that this machine can pass for; a table tells which were real.
test-cpus: setup
	OMP_NUM_THREADS=1 $(BIN)/python tools/cpu_kind.py test -m "not slow"

# Also what takes long: the wheel in an environment of its own, a Ray cluster, kills in the middle of runs.
test-all: setup check
	$(PYTEST)

# Breaks the package on purpose: the rules that a mutant names, then N random places. Whoever stops it goes on where it was:
# verdicts stay in build/mutants, one file for each SEED.
N ?= 100
SEED ?= 1
mutants: setup
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/run.py
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutants/sample.py $(N) --seed $(SEED)

# Thousands of random cases for text, settings and bundles; then, for DRAGOMAN_FUZZ_S seconds, files of all formats changed
# by their structure and read in processes with limits. DRAGOMAN_FUZZ_FROM is the first case: each night can try others.
DRAGOMAN_FUZZ_S ?= 300
fuzz: setup
	HYPOTHESIS_PROFILE=fuzz DRAGOMAN_FUZZ_S=$(DRAGOMAN_FUZZ_S) $(BIN)/python -m pytest tests/fuzz --hypothesis-show-statistics

# Kills, damage, full disks and forgeries in full number.

torture: setup fuzz
	DRAGOMAN_KILLS=20 DRAGOMAN_FLIPS=2000 DRAGOMAN_CASES=2000 DRAGOMAN_HTTP_CASES=10000 DRAGOMAN_HEALTH_S=0.5 \
	    timeout 30m $(BIN)/python -m pytest tests/fuzz/test_http.py tests/torture

check: setup audit
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, in build/site: every page, and nothing that a browser would have to fetch from elsewhere.
# The variable silences what the theme says about its successor.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

# Fails on a pinned version with a known vulnerability. Where the advisories cannot be reached, it says in one line that
# nothing was audited, and passes.
audit: setup
	$(BIN)/python tools/dependencies.py audit

# Tests with the lowest versions that pyproject.toml allows, in an environment of its own. What has no bound there, PyTorch
# among it, comes from the usual one.
LOWEST := build/lowest
lowest: setup
	$(BIN)/python -m venv --clear $(LOWEST)
	$(BIN)/python tools/dependencies.py lowest > $(LOWEST)/versions.txt
	$(LOWEST)/bin/pip install --quiet --requirement $(LOWEST)/versions.txt
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > "$$(echo $(LOWEST)/lib/python3.*/site-packages)/rest.pth"
	$(LOWEST)/bin/python -m pytest -p no:schemathesis tests/unit/text tests/unit/decode tests/unit/engine tests/unit/serve \
	    tests/unit/inspect tests/unit/test_*.py tests/story/test_pretrained.py tests/torture/test_attacks_on_files.py

bench: setup
	$(BIN)/python benchmarks/training_cpu.py
	$(BIN)/python benchmarks/doctor.py
	$(BIN)/python benchmarks/cpu.py

# The service under load beside its engine, with the demo's model.
bench-serve: setup
	test -e runs/demo/manifest.json || $(MAKE) train-demo
	$(BIN)/python benchmarks/serve.py --model runs/demo

# The service under attack for fifteen minutes, with the packaged model.
soak: setup
	$(BIN)/python benchmarks/soak.py

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
