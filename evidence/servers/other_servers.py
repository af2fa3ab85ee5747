"""llama.cpp's, SGLang's and `transformers serve` with the embedded model, and what may stand before
a server: LiteLLM's proxy. Each is a process of its own."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from mlperf_suite import SUITE_FOLDER
from mlperf_suite.assets import GGUF_FILE, assets_dir, embedded_model_dir
from mlperf_suite.engines.vllm_arguments import VLLM_DTYPES
from mlperf_suite.errors import UsageError
from mlperf_suite.hardware import choose_precision
from scripts.local_servers import LocalServer, model_server

LLAMA_CPP_PYTHON = SUITE_FOLDER / ".venv-llama-cpp" / "bin" / "python"
"""The environment in which `make stacks` installs llama.cpp's server."""
SGLANG_PYTHON = SUITE_FOLDER / ".evidence" / "sglang" / "bin" / "python"
"""The environment in which `make evidence` installs SGLang, without what only a GPU needs."""
LITELLM = SUITE_FOLDER / ".evidence" / "litellm" / "bin" / "litellm"
"""LiteLLM's proxy, as `make evidence` installs it."""
LITELLM_KEY = "sk-of-this-machine"
"""It does not start without a key that every request must have."""


def llama_cpp_server() -> AbstractContextManager[LocalServer]:
    """llama.cpp's server (llama-cpp-python) with the GGUF file that the embedded model comes from.

    The model is served under the folder of the embedded model, so that the suite recognizes it.
    Raises UsageError if `make stacks` did not run, EngineError if the server does not start.
    """
    if not LLAMA_CPP_PYTHON.is_file():
        raise UsageError(f"llama.cpp is not installed at {LLAMA_CPP_PYTHON}: run 'make stacks'")
    model = assets_dir() / GGUF_FILE
    if not model.is_file():
        raise UsageError(f"the embedded model's GGUF file is missing at {model}: run 'make stacks'")
    name = str(embedded_model_dir())
    command = [str(LLAMA_CPP_PYTHON), "-m", "llama_cpp.server", "--model", str(model)]
    command += ["--model_alias", name, "--n_ctx", "8192"]
    # By default a new request interrupts the current one, and logits are computed for every token
    # of a prompt.
    command += ["--interrupt_requests", "false", "--logits_all", "false"]
    return model_server("llama.cpp's server", command, name, "/v1/models")


def transformers_server() -> AbstractContextManager[LocalServer]:
    """`transformers serve` of the installed transformers with the embedded model, on the CPU.

    The server lists the models in the hub's cache but no folder, so the suite must be given the
    model's name. Raises like `vllm_server`.
    """
    name = str(embedded_model_dir())
    dtype = VLLM_DTYPES[choose_precision("auto", on_cpu=True).value]
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", name]
    command += ["--device", "cpu", "--dtype", dtype]
    return model_server("transformers serve", command, name, "/health", {"HF_HUB_OFFLINE": "1"})


def sglang_server(*arguments: str) -> AbstractContextManager[LocalServer]:
    """SGLang's server with the embedded model, on the CPU by PyTorch's own attention.

    Without a cache of prompts, as docs/endpoints.md starts it. Raises UsageError if `make evidence`
    did not install it, EngineError if it does not start.
    """
    if not SGLANG_PYTHON.is_file():
        raise UsageError(f"SGLang is not installed at {SGLANG_PYTHON}: run 'make evidence'")
    name = str(embedded_model_dir())
    command = [str(SGLANG_PYTHON), "-m", "sglang.launch_server", "--model-path", name]
    command += ["--disable-radix-cache", "--enable-metrics"]
    command += ["--device", "cpu", "--attention-backend", "torch_native"]
    command += ["--sampling-backend", "pytorch", "--grammar-backend", "none"]
    # It takes a share of the memory otherwise, and schedules for a GPU that computes meanwhile.
    command += ["--max-total-tokens", "20000", "--disable-overlap-schedule", *arguments]
    return model_server("SGLang", command, name, "/health", {"HF_HUB_OFFLINE": "1"})


@contextlib.contextmanager
def litellm_proxy(server: LocalServer) -> Iterator[LocalServer]:
    """LiteLLM's proxy in front of a server, with the configuration of docs/endpoints.md.

    Raises UsageError if `make evidence` did not install it, EngineError if it does not start.
    """
    if not LITELLM.is_file():
        raise UsageError(f"LiteLLM is not installed at {LITELLM}: run 'make evidence'")
    reached = {"model": f"hosted_vllm/{server.model}", "api_base": f"{server.url}/v1"}
    config = {"model_list": [{"model_name": server.model, "litellm_params": reached}]}
    with tempfile.TemporaryDirectory() as folder:
        # YAML reads JSON.
        file = Path(folder) / "litellm.yaml"
        file.write_text(json.dumps(config))
        command = [str(LITELLM), "--config", str(file)]
        # It asks GitHub for the prices of models otherwise.
        variables = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": LITELLM_KEY}
        ready = "/health/liveliness"
        with model_server("LiteLLM", command, server.model, ready, variables) as proxy:
            yield proxy
