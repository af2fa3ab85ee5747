# One target for each thing a person does. Each sets up what it needs, once.
SHELL := /bin/bash
PYTEST := .venv/bin/python -m pytest
# Set by many images: without Python's caches each session compiles the suite again, half a second.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup stacks endpoints-client bfcl offline server interactive singlestream edge compliance peak mmlu submission-check submission-proof public-results endpoint curve ray cluster test test-slow test-search lint locks options rules-page summary-page pictures perf clean

help:             ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

setup:            ## virtual environment, locked packages, embedded model (BUILD=cpu|gpu)
	@scripts/set_up.sh

stacks: setup     ## other serving stacks to measure: llama.cpp's server, built from source
	@scripts/set_up_stacks.sh

endpoints-client: ## MLCommons' official HTTP client, built from a checkout of mlcommons/endpoints (CHECKOUT=DIR; EVALUATE=DIR)
	@CHECKOUT='$(CHECKOUT)' EVALUATE='$(EVALUATE)' scripts/set_up_endpoints_client.sh

bfcl: setup       ## bfcl-eval, the checker of function calling, in an environment of its own
	@scripts/set_up_bfcl.sh

offline: setup    ## Offline, datacenter: measure and judge a real engine (ARGS=more options)
	$(PYTEST) -m "offline and datacenter" $(ARGS)

server: setup     ## Server: accuracy, performance and TEST06
	$(PYTEST) -m server $(ARGS)

interactive: setup ## Interactive: accuracy, performance and TEST06
	$(PYTEST) -m interactive $(ARGS)

singlestream: setup ## SingleStream, edge
	$(PYTEST) -m singlestream $(ARGS)

edge: setup       ## both scenarios of the edge category
	$(PYTEST) -m edge $(ARGS)

compliance: setup ## TEST06 in every scenario; ARGS="--logs FOLDER" judges logs instead
	$(PYTEST) -m compliance $(ARGS)

peak: setup       ## search for the highest valid Server rate
	$(PYTEST) tests/performance/test_peak_qps.py -m server --find-peak-qps $(ARGS)

submission-check: setup ## judge a finished submission tree (TREE=DIR)
	$(PYTEST) -m compliance --logs=$(TREE) $(ARGS)

submission-proof: setup ## full-size trees of replayed answers, and the official checker's word
	$(PYTEST) meta_tests/proof/test_full_size.py -m slow -s $(ARGS)

public-results: setup ## judge a checkout of public results and make docs/evidence/public-results.md again (CHECKOUT=DIR)
	.venv/bin/python -m meta_tests.proof.public_results $(CHECKOUT) $(ARGS)

mmlu: setup       ## the MMLU score, through lm-eval on an engine of its own
	$(PYTEST) -m mmlu $(ARGS)

endpoint: setup   ## start vLLM's own server and measure it over HTTP, Offline and Server
	@.venv/bin/python -m meta_tests.servers.demos endpoint $(ARGS)

curve: setup      ## start vLLM's own server and measure its curve over fixed concurrencies (a rehearsal)
	@.venv/bin/python -m meta_tests.servers.demos curve $(ARGS)

ray: setup        ## Ray, for replicas on several GPUs or nodes (docs/replicas.md)
	@scripts/set_up_ray.sh

cluster: ray      ## start two Ray nodes on this machine and measure replicas on them
	@.venv/bin/python -m meta_tests.servers.demos cluster $(ARGS)

test: ray         ## the tests of the suite itself
	$(PYTEST) meta_tests -m "not slow" -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

test-slow: ray    ## the long tests of the suite itself
	$(PYTEST) meta_tests -m slow --ignore=meta_tests/proof/test_full_size.py $(ARGS)

test-search: ray  ## the property tests of the suite itself, a thousand new examples each
	$(PYTEST) meta_tests -m "hypothesis and not slow" --hypothesis-profile search -n auto --maxprocesses 4 $(ARGS)

perf: setup       ## what the suite itself costs, beside the bare engine
	.venv/bin/python -m perf.offline_overhead
	.venv/bin/python -m perf.server_overhead
	.venv/bin/python -m perf.always_on
	.venv/bin/python -m perf.long_use
	.venv/bin/python -m perf.warm_up

lint: setup       ## ruff and mypy
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

locks:            ## make the locks again (needs uv)
	scripts/make_locks.sh

options: setup    ## docs/options.md again, from the options as the code declares them
	.venv/bin/python -m scripts.make_options

rules-page: setup ## docs/rules.md again, from the rules as the code declares them
	.venv/bin/python -m scripts.make_rules_page

summary-page: setup ## docs/summary.md and its JSON Schema again, from the types in the code
	.venv/bin/python -m scripts.make_summary_page

pictures: setup   ## the README's pictures, of the latest run's report (needs Chromium)
	.venv/bin/python -m scripts.make_pictures

clean:            ## remove what setup made
	rm -rf .venv .venv-llama-cpp .endpoints-client .bfcl .assets .python .uv
