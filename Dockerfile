# The suite with vLLM's GPU build. docs/docker.md has the commands, and says what was tried.
#
#   docker build -t mlperf-suite .
#   mkdir -p results ~/.cache/huggingface
#   docker run --rm --gpus all --ipc=host --user "$(id -u):$(id -g)" --env-file .env \
#     -v "$PWD/results:/app/results" -v "$HOME/.cache/huggingface:/home/suite/.cache/huggingface" \
#     mlperf-suite -m offline --profile official
#
# CUDA's devel image has nvcc and headers, which FlashInfer and Triton compile kernels with when vLLM
# starts. Ubuntu 24.04's Python is 3.12. Another base needs a Python of 3.11 to 3.13.
ARG BASE=nvidia/cuda:13.0.2-devel-ubuntu24.04@sha256:5dc1bca23d05bd37b011be68ec470c03b403a5da07ec3a86e41af9470e9d0cc6
# hadolint ignore=DL3006
FROM ${BASE}
ARG PYTHON=python3.12
ARG BUILD=gpu
# The versions of the distribution's compiler and Python are the base's.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates gcc g++ libnuma1 make \
    "${PYTHON}" "${PYTHON}-dev" "${PYTHON}-venv" \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /app

# The packages, made anew only where the locks change; no wheel stays in the layer.
COPY requirements requirements
COPY scripts/set_up.sh scripts/set_up_ray.sh scripts/check_machine.py scripts/
RUN PIP_NO_CACHE_DIR=1 scripts/set_up.sh packages \
 && PIP_NO_CACHE_DIR=1 scripts/set_up_ray.sh \
 && .venv/bin/python -m pip install -qq --no-cache-dir --no-deps --require-hashes -r requirements/mlflow.lock

# The embedded model and NLTK's data, below the code as well.
COPY mlperf_suite/__init__.py mlperf_suite/assets.py mlperf_suite/errors.py mlperf_suite/secrets.py mlperf_suite/
RUN PIP_NO_CACHE_DIR=1 scripts/set_up.sh assets

COPY . .
# Whoever runs it, by --user or not, may write results and caches, and nothing else.
RUN PIP_NO_CACHE_DIR=1 scripts/set_up.sh \
 && mkdir -p results /home/suite/.cache/huggingface \
 && chmod -R 1777 results /home/suite \
 && .venv/bin/python -m compileall -q conftest.py fixtures mlperf_suite tests \
 && .venv/bin/python -c "import vllm"

ENV HOME=/home/suite \
    # A user without a name of its own: torch asks for one.
    USER=suite LOGNAME=suite \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTEST_ADDOPTS="-p no:cacheprovider" \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 1000:1000
HEALTHCHECK --interval=1h --timeout=15m --retries=1 CMD ["/app/scripts/health.sh"]
ENTRYPOINT ["/app/.venv/bin/python", "-m", "pytest"]
CMD ["-m", "offline", "--profile", "official"]
