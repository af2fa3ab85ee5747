#!/usr/bin/env bash
# Set up the serving stacks beside vLLM that the suite can be tried against: llama.cpp's server, in
# .venv-llama-cpp and built from source, and the embedded model as the GGUF file that it takes.
# Needs .venv (make setup), a C++ compiler and some minutes. Nothing is done where the last set-up
# still holds.
set -eu
cd "$(dirname "$0")/.."
lock=requirements/llama-cpp.lock
folder=.venv-llama-cpp
state=$(cat "$lock" "$0" | sha256sum | cut -d' ' -f1)
stamp=$folder/.set-up
gguf=("${MLPERF_SUITE_ASSETS:-.assets}"/*.gguf)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ] && [ -f "${gguf[0]}" ]; then
  exit 0
fi
rm -f "$stamp"

say() { printf 'set-up: %s\n' "$*"; }
command -v g++ >/dev/null || {
  say "llama.cpp is built from source, and there is no g++: apt-get install g++" >&2
  exit 1
}
say "llama.cpp's server in $folder (built from source: 6 minutes on two cores)"
.venv/bin/python -m venv "$folder"
# For any x86-64 CPU with AVX2 and not for this one alone: what GCC 12 makes of llama.cpp's AMX code
# crashes (llama.cpp's issue 20824). pip's cache may hold a build for this one.
CMAKE_ARGS="-DGGML_NATIVE=OFF" "$folder/bin/python" -m pip --disable-pip-version-check \
  install -qq --no-deps --no-cache-dir -r "$lock"
say "the embedded model as a GGUF file in .assets (about 100 MB)"
.venv/bin/python -m mlperf_suite.assets gguf
printf '%s\n' "$state" >"$stamp"
say "done"
