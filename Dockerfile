# For GPU runners: docker build -t mlperf-suite . && docker run --gpus all --ipc=host -e HF_TOKEN \
#   -v "$PWD/results:/suite/results" -v "$HOME/.cache/huggingface:/root/.cache/huggingface" \
#   mlperf-suite -m offline --profile official
#
# Several GPUs share a model through the host's shared memory, hence --ipc=host.
# CUDA comes with the locked wheels, the driver from the host (NVIDIA Container Toolkit).
FROM python:3.11-slim-bookworm
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
# vLLM compiles kernels at its first start.
RUN apt-get update \
 && apt-get install -y --no-install-recommends gcc g++ make \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /suite
COPY . .
RUN BUILD=gpu scripts/set_up.sh
ENTRYPOINT ["/suite/.venv/bin/python", "-m", "pytest"]
CMD ["-m", "offline", "--profile", "official"]
