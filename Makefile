# `make demo` runs the demo, `make test` runs the tests; both set up everything they need in .venv.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3.14 || command -v python3.15 || echo python3)
BIN := .venv/bin
DEMO := build/demo
# Without it, each process that imports PyTorch would compile it again: 4 s instead of 2 s.
unexport PYTHONDONTWRITEBYTECODE

# Answers, documents and formats are tracekit's own.
export TRACEKIT_NO_PLUGINS = 1

# Bytecode is compiled when it is first imported: all of PyTorch's at once would take half a minute.
PIP := python -m pip install --disable-pip-version-check -qq --no-compile -c constraints.txt
# What traceinsight imports. It also lists JupyterLab, with 60 packages, and never imports it.
HTA_NEEDS := networkx 'pandas<3' plotly psutil pydot pyyaml

SIZE := 1GB
# The sources that an install compiles.
NATIVE := setup.py packaging/tracekit_build.py tracekit/native/walk_codes.py $(wildcard tracekit/native/src/*.[ch])

.PHONY: demo wheels browser checks test test-all answers bench diagnosis docs gpu-check clean

demo: .venv/installed
	@BIN=$(BIN) sh examples/demo.sh $(DEMO)

# The browser is installed at the same time as the packages.
test:
	@$(MAKE) --no-print-directory -j2 .venv/installed browser
	@$(MAKE) --no-print-directory checks

# Form and types are checked while the tests run; their errors are printed after the tests. One
# worker more than two cores, since tests also wait: for timeouts, servers and programs that start.
checks:
	@mkdir -p build; { $(BIN)/ruff check --quiet . && $(BIN)/ruff format --check --quiet . && \
	  $(BIN)/mypy --no-error-summary --pretty; } >build/types.txt 2>&1 & types=$$!; \
	  $(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder; tested=$$?; \
	  wait $$types || { echo 'wrong types or form:'; cat build/types.txt; exit 1; } >&2; exit $$tested

# A browser for the tests of pages: without one, they are skipped.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -qq && \
	    apt-get install -y -qq --no-install-recommends chromium fonts-noto-cjk >/dev/null; } || \
	  echo 'no Chromium: tests of pages are skipped (on Debian: apt install chromium)' >&2

# Runs every case (`make test` runs a sample, as it says at its end), starts each command in its own process, and has all extras: only tests that need a GPU are skipped.
test-all: export TRACEKIT_TEST_ALL = 1
test-all: BIN := build/test-all/bin
test-all: build/test-all/installed browser checks

# Prints in words how the answers to every trace differ from those in tests/answers.json; with
# ACCEPT=1, commits them there. NAMES="mtia pair" analyzes only traces with these words in their names. Takes minutes.
answers: .venv/installed
	@$(BIN)/python -m tests.answers $(if $(ACCEPT),--accept) $(NAMES)

# Loads a generated trace of SIZE (1GB) with tracekit and with other tools, and prints one table; without
# SIZE, prints how tracekit's time and memory grow from 10^3 to 10^7 events. Takes minutes. Perfetto's
# trace processor is measured, too, if trace_processor_shell is on the PATH.
bench: .venv/installed build/peers/installed
	@$(BIN)/python -m tests.bench.loading $(SIZE)

# Asks tracekit and its peers why runs are slow, and prints how often each is right:
# tests/bench/diagnosis/README.md. NAME=graph asks only about cases with that word in their names, and prints the wrong answers. Takes minutes.
diagnosis: .venv/installed build/peers/installed
	@$(BIN)/python -m tests.bench.diagnosis $(if $(PAGE),--page) $(if $(NAME),--failures $(NAME))

# Each peer has its own folder: HolisticTraceAnalysis and traceinsight, which is in .venv, have modules
# with the same names.
PEERS := gpu-idle HolisticTraceAnalysis==0.5.0 orjson
build/peers/installed: constraints.txt | .venv/installed
	@rm -rf $(@D)
	@for each in $(PEERS); do $(BIN)/$(PIP) --no-deps --target $(@D)/$${each%==*} $$each || exit; done
	@touch $@

# Builds the documentation site in build/docs/site; a broken link is an error. The first time, it
# downloads 30 MB.
docs: build/docs/installed
	@NO_MKDOCS_2_WARNING=1 build/docs/venv/bin/mkdocs build -q --strict -f docs/mkdocs.yml
	@echo build/docs/site/index.html

build/docs/installed: pyproject.toml constraints.txt $(NATIVE)
	@rm -rf build/docs
	$(call venv,$(@D)/venv)
	@$(@D)/venv/bin/$(PIP) -e . --group docs
	@touch $@

# Needs a GPU: runs PART (first, tests, bench, experiments, faults, programs, ncu or sanitize; by default,
# all of them), and writes all results to the folder OUT. GPU_PYTHON=python3 uses that Python as it is, and
# installs nothing: docs/howto/gpu.md. DEVICE=cpu rehearses it.
PART :=
DEVICE := cuda
OUT ?= build/gpu
gpu-check: $(if $(GPU_PYTHON),,.venv/installed)
	@$(or $(GPU_PYTHON),$(BIN)/python) -m tests.bench.gpu_check $(PART) --device $(DEVICE) --output $(OUT)

.venv/installed: pyproject.toml constraints.txt $(NATIVE)
	$(call install,.venv,$(EXTRAS),--group dev)

build/test-all/installed: pyproject.toml constraints.txt $(NATIVE)
	$(call install,build/test-all,$(EXTRAS)$(comma)notebook,--group dev --group frameworks-test --group trackers-test \
	  --group docs --group wheels)
	@$(@D)/bin/$(PIP) --no-deps liger-kernel

comma := ,
EXTRAS := capture,report,excel,mcp,lake,ray

# Makes the virtual environment $(1) with tracekit's extras $(2) and groups $(3), and traceinsight.
define install
	$(call venv,$(1))
	@$(1)/bin/$(PIP) --no-deps traceinsight & alone=$$!; \
	  $(1)/bin/$(PIP) --no-build-isolation -e '.[$(2)]' $(3) $(HTA_NEEDS) && wait $$alone
	@touch $@
endef

# Makes the virtual environment $(1), with a pip that knows dependency groups and with what a build needs.
define venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'tracekit needs Python 3.11 or later: make PYTHON=/path/to/python3.11' >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo '$(PYTHON) has no venv module: install it (on Debian: apt install python3-venv)' >&2; exit 2; }
	@rm -rf $(1)
	@$(PYTHON) -m venv $(1)
	@$(1)/bin/$(PIP) pip setuptools ziglang
endef

# Wheels for every system, from this one, and the source distribution; then tries the wheel for
# this system. The others are built, not run.
WHEELS := build/wheels/venv/bin/python
wheels: build/wheels/installed
	@rm -rf dist && PYTHONWARNINGS=ignore $(WHEELS) -m build --no-isolation --sdist -o dist . >/dev/null
	@for each in $$($(WHEELS) -c "import runpy; print(*runpy.run_path('setup.py')['PLATFORMS'])"); do \
	  rm -rf build/lib* build/bdist*; \
	  PYTHONWARNINGS=ignore TRACEKIT_PLATFORM=$$each $(WHEELS) -m build --no-isolation --wheel -o dist . >/dev/null || exit; \
	done
	@$(WHEELS) -m twine check --strict dist/*
	@sh tests/try_wheel.sh $(WHEELS) dist

build/wheels/installed: pyproject.toml constraints.txt $(NATIVE)
	@rm -rf build/wheels
	$(call venv,$(@D)/venv)
	@$(@D)/venv/bin/$(PIP) --group wheels
	@touch $@

clean:
	@rm -rf .venv build
