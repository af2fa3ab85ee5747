#!/usr/bin/env bash
# Make the locks again from their .in files, with the hashes of every file of each version. One lock
# fits Python 3.11 to 3.13. Needs uv (pip install uv).
# TORCH_FIND_LINKS may name a folder or page that holds the CPU build of torch.
set -eu
cd "$(dirname "$0")/../requirements"
links=${TORCH_FIND_LINKS:-https://download.pytorch.org/whl/cpu/torch/}
compile="uv pip compile --quiet --no-header --universal --python-version 3.11 --generate-hashes"
$compile cpu.in --override cpu.overrides.txt --find-links "$links" -o cpu.lock
$compile gpu.in -o gpu.lock
$compile llama-cpp.in -o llama-cpp.lock
$compile uv.in -o uv.lock
$compile --no-deps ray.in -o ray.lock
$compile --no-deps mlflow.in -o mlflow.lock
$compile --no-deps evidence.in -o evidence.lock
# Every line would say which machines the lock is for: [tool.uv] in pyproject.toml says it once.
sed -i -E "s/^([^ ]+) ; python_full_version < '3.14' and implementation_name == 'cpython' and .* and sys_platform == 'linux'/\1/" ./*.lock
# `==2.13.0` takes 2.13.0+cpu as well, wherever pip knows PyTorch's CPU index; `===` does not.
sed -i -E 's/^(torch|torchvision|torchaudio|torchcodec)==/\1===/' gpu.lock
