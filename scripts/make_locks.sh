#!/usr/bin/env bash
# Make the locks again from their .in files. Needs uv (pip install uv).
# TORCH_FIND_LINKS may name a folder or page that holds the CPU build of torch.
set -eu
cd "$(dirname "$0")/../requirements"
links=${TORCH_FIND_LINKS:-https://download.pytorch.org/whl/cpu/torch/}
compile="uv pip compile --quiet --no-header --python-version 3.11 --python-platform x86_64-manylinux_2_28"
$compile cpu.in --override cpu.overrides.txt --find-links "$links" -o cpu.lock
$compile gpu.in -o gpu.lock
$compile llama-cpp.in -o llama-cpp.lock
