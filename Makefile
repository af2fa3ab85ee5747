# One target per task. Each sets up what it needs, once.
SHELL := /bin/bash
PYTEST := .venv/bin/python -m pytest
EVIDENCE = MLPERF_ENDPOINTS_CLI=$${MLPERF_ENDPOINTS_CLI:-.evidence/endpoints-checker/bin/endpoints-submission-cli} $(PYTEST) evidence --ignore=evidence/submission/test_trees.py -rfEs
OF_REAL_ENGINES = evals multimodal real_engines replicas vllm_builds whole_sessions $(addsuffix .py,\
  caching_audit/test_caching_of_vllm chats/test_agentic_smoke_run endpoints/test_points_on_vllm mmlu/test_several_engines peak_search/test_rate_search tuning/test_tunable_arguments \
  $(addprefix replay/test_,conversations_on_vllm trace_on_vllm) $(addprefix servers/test_,faulty_servers honest_streams litellm local_servers measured_servers starting_servers vllm_scoring))
OF_A_MINUTE = comparing conversion datasets energy estimates hostile_runs log_consistency model_identity pages scorers searches $(addsuffix .py,\
  caching_audit/test_prompts_of_the_mix chats/test_any_stream chats/test_hostile_schemas \
  $(addprefix code_grading/test_,any_answer embedded_data official_pattern siblings) damaged_logs/test_each_key endpoints/test_hostile_curve \
  $(addprefix loadgen/test_,any_log linear_expressions long_logs) $(addprefix mmlu/test_,any_summary embedded_questions) $(addprefix multimodal/test_,any_answers siblings) \
  $(addprefix replicas/test_,any_placement any_traces scaling) replay/test_any_trace $(addprefix aggregate/test_,any_times damaged_summaries hostile_nodes) $(addprefix servers/test_,any_cuts demos) $(addprefix set_up/test_,image set_up wheel) \
  submission/test_accuracy_texts $(addprefix submission_check/test_,any_damage nameplates) vllm_builds/test_vllm_contract \
  $(addprefix whole_sessions/test_,ci_baselines ci_comment ci_files own_tests smoke_forms) \
  $(addprefix endpoints/test_more_,client_breaks package_breaks) tracking/with_submission_check/test_trees tracking/with_comparing/test_ci_gate $(addprefix servers/with_mmlu/test_,forecasts secrets_of_servers) servers/with_comparing/test_wheel code_grading/with_servers/test_wheel)
MUTANTS_DATA = MUTANTS_COVERAGE=$(CURDIR)/.evidence/coverage
# Set by many images: without Python's caches each session compiles the suite again, half a second.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup stacks endpoints-client bfcl offline server interactive singlestream edge compliance peak mmlu submission-check submission-proof public-results serve endpoint curve ray cluster test evidence evidence-brief evidence-quick evidence-pages mutants lint locks options rules-page summary-page pictures perf clean

help:             ## print this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

setup:            ## install the virtual environment, locked packages and embedded model (BUILD=cpu|gpu, or VLLM=present)
	@scripts/set_up.sh

stacks: setup     ## build another serving stack to measure: llama.cpp's server, from source
	@scripts/set_up_stacks.sh

endpoints-client: ## build MLCommons' official HTTP client from a checkout of mlcommons/endpoints (CHECKOUT=DIR; EVALUATE=DIR)
	@CHECKOUT='$(CHECKOUT)' EVALUATE='$(EVALUATE)' scripts/set_up_endpoints_client.sh

bfcl: setup       ## install bfcl-eval, the function calling checker, in its own environment
	@scripts/set_up_bfcl.sh

offline: setup    ## Offline, datacenter: accuracy, performance and TEST06 (ARGS=more options)
	$(PYTEST) -m "offline and datacenter" $(ARGS)

server: setup     ## Server: accuracy, performance and TEST06
	$(PYTEST) -m server $(ARGS)

interactive: setup ## Interactive: accuracy, performance and TEST06
	$(PYTEST) -m interactive $(ARGS)

singlestream: setup ## SingleStream, edge: accuracy and performance
	$(PYTEST) -m singlestream $(ARGS)

edge: setup       ## both scenarios of the edge category
	$(PYTEST) -m edge $(ARGS)

compliance: setup ## TEST06 and the caching audit; ARGS="--logs FOLDER" judges existing logs
	$(PYTEST) -m compliance $(ARGS)

peak: setup       ## find the highest valid Server rate
	$(PYTEST) mlperf_suite/features/peak_search/tests -m server --find-peak-qps $(ARGS)

submission-check: setup ## judge a finished submission tree (TREE=DIR)
	$(PYTEST) -m compliance --logs=$(TREE) $(ARGS)

submission-proof: setup ## build full-size trees of replayed answers and run the official checker on them
	$(PYTEST) evidence/submission/test_trees.py -s $(ARGS)

public-results: setup ## judge a checkout of public results and regenerate docs/evidence/public-results.md (CHECKOUT=DIR)
	.venv/bin/python -m evidence.submission_check.public_results $(CHECKOUT) $(ARGS)

mmlu: setup       ## measure the MMLU score with lm-eval, on an engine with a prefix cache
	$(PYTEST) -m mmlu $(ARGS)

serve: setup      ## start vLLM's own server, to measure from another terminal; Ctrl-C ends it (ARGS=--model FOLDER, --port N, vLLM's)
	@.venv/bin/python -m scripts.demos serve $(ARGS)

endpoint: setup   ## start vLLM's own server and measure it over HTTP, Offline and Server
	@.venv/bin/python -m scripts.demos endpoint $(ARGS)

curve: setup      ## start vLLM's own server and measure a curve over fixed concurrencies (not an MLPerf result)
	@.venv/bin/python -m scripts.demos curve $(ARGS)

ray: setup        ## install Ray, for replicas on several GPUs or nodes (docs/replicas.md)
	@scripts/set_up_ray.sh

cluster: ray      ## start two Ray nodes on this machine and measure replicas on them
	@.venv/bin/python -m scripts.demos cluster $(ARGS)

test: ray         ## run the suite's own tests
	$(PYTEST) meta_tests -rfE -n 3 --dist loadfile --no-loadscope-reorder $(ARGS)

evidence: ray     ## all evidence: real engines and servers, bulk damages, official checkers; hours
	@scripts/set_up_evidence.sh
	$(EVIDENCE) $(ARGS)

evidence-brief: ray ## the part of the evidence without real engines and official checkers
	$(EVIDENCE) $(addprefix --ignore=evidence/,$(OF_REAL_ENGINES)) -n 2 --dist loadfile $(ARGS)

evidence-quick: ray ## the part of the evidence that takes minutes: pages, set-up, readers, damaged logs, searches with drawn inputs
	$(PYTEST) $(addprefix evidence/,$(OF_A_MINUTE)) -rfE -n 2 --dist loadfile $(ARGS)

evidence-pages: setup ## make each page of docs/evidence again that this machine can, and say which differ
	.venv/bin/python -m evidence.pages $(ARGS)

mutants: ray      ## make 320 small mistakes in the package and see which the suite's own tests find
	@scripts/set_up_evidence.sh
	$(MUTANTS_DATA) .venv/bin/python -m coverage run --rcfile evidence/mutants/coverage.ini -m pytest meta_tests -p evidence.mutants.contexts --ignore meta_tests/real_engine -q -n 2 --dist loadfile
	$(MUTANTS_DATA) .venv/bin/python -m coverage combine -q --rcfile evidence/mutants/coverage.ini
	$(MUTANTS_DATA) .venv/bin/python -m evidence.mutants $(ARGS)

perf: setup       ## measure the suite's overhead over the bare engine
	.venv/bin/python -m perf.offline_overhead
	.venv/bin/python -m perf.server_overhead
	.venv/bin/python -m perf.always_on
	.venv/bin/python -m perf.long_use
	.venv/bin/python -m perf.warm_up

lint: setup       ## run ruff and mypy
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

locks:            ## regenerate the lock files (needs uv)
	scripts/make_locks.sh

options: setup    ## regenerate docs/options.md from the code
	.venv/bin/python -m scripts.make_options

rules-page: setup ## regenerate docs/rules.md from the code
	.venv/bin/python -m scripts.make_rules_page

summary-page: setup ## regenerate docs/summary.md and its JSON Schema from the code
	.venv/bin/python -m scripts.make_summary_page

pictures: setup   ## regenerate the README's pictures from the latest run's report (needs Chromium)
	.venv/bin/python -m scripts.make_pictures

clean:            ## remove everything that set-up targets installed; keep results/
	rm -rf .venv .venv-llama-cpp .endpoints-client .bfcl .evidence .assets .python .uv
