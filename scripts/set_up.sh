#!/usr/bin/env bash
# Set up everything the suite needs in .venv and .assets, once for each state of the locks.
# BUILD=cpu or gpu picks the lock; without it the build that is there stays, and a new one is cpu.
# Nothing is done where the last set-up still holds.
set -eu
cd "$(dirname "$0")/.."
known=.venv/.build
was=$(cat "$known" 2>/dev/null || true)
build=${BUILD:-${was:-cpu}}
lock=requirements/$build.lock
state=$(cat "$lock" requirements/assets.lock "$0" pyproject.toml mlperf_suite/assets.py | sha256sum | cut -d' ' -f1)
stamp=.venv/.set-up
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ] && [ -f .assets/.set-up ]; then
  exit 0
fi

# A set-up that is interrupted from here on holds for no lock.
rm -f "$stamp"

say() { printf 'set-up: %s\n' "$*"; }
python=${PYTHON:-python3.11}
command -v "$python" >/dev/null || python=python3
"$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || {
  say "the locks are for Python 3.11, and $python is $("$python" -V): set PYTHON=/path/to/python3.11" >&2
  exit 1
}
if [ -n "$was" ] && [ "$was" != "$build" ]; then
  # Both builds have a package `vllm`: one installed over the other is neither.
  say "the $was build in .venv makes room for the $build build"
  rm -rf .venv
fi
say "virtual environment in .venv"
"$python" -m venv .venv || {
  say "python3.11 cannot make a virtual environment: apt-get install python3.11-venv" >&2
  exit 1
}
printf '%s\n' "$build" >"$known"
pip=".venv/bin/python -m pip --disable-pip-version-check"
# -qq below: errors only. A find-links place that is not there is a warning for every package.
case $build in gpu) size="10 GB" ;; *) size="3 GB" ;; esac
say "packages of $lock (about $size on disk, a few minutes)"
torch=$(grep -o '^torch==[^ ]*+cpu' "$lock" || true)
if [ -n "$torch" ]; then
  # The CPU build of torch lies on PyTorch's own index, unless pip is set up to find it elsewhere.
  $pip install -qq --no-deps "$torch" 2>/dev/null ||
    $pip install -qq --no-deps --index-url https://download.pytorch.org/whl/cpu "$torch"
fi
$pip install -qq --no-deps -r "$lock"
# The suite itself, for pytest to know its options before it looks for tests.
$pip install -qq --no-deps --no-build-isolation -e .
say "the embedded model and NLTK's punkt in .assets (about 300 MB)"
.venv/bin/python -m mlperf_suite.assets
touch .assets/.set-up
printf '%s\n' "$state" >"$stamp"
say "done"
