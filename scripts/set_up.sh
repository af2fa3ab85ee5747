#!/usr/bin/env bash
# Set up everything the suite needs in .venv and .assets, once for each state of the locks.
# BUILD=cpu or gpu picks the lock; without it the build that is there stays, and a new one is cpu.
# PYTHON names the interpreter; without it the first of 3.11 to 3.13 that is found, or one that uv
# brings. VLLM=present takes the vLLM of an environment that is there, such as a vendor's image: PYTHON
# names its interpreter, .venv sees its packages and adds what is missing; nothing in it changes.
# SET_UP_ANYWAY=1 installs where the machine does not fit. Nothing is done where the last
# set-up still holds. `set_up.sh packages` ends after the packages and `set_up.sh assets` after the
# assets, for layers of an image below the code.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'set-up: %s\n' "$*"; }
fail() {
  say "$*" >&2
  exit 1
}
digest() { cat "$@" | sha256sum | cut -d' ' -f1; }

known=.venv/.build
was=$(cat "$known" 2>/dev/null || true)
build=${BUILD:-${was:-cpu}}
if [ -n "${VLLM:-}" ]; then
  [ "$VLLM" = present ] || fail "VLLM=$VLLM: must be present"
  [ -z "${BUILD:-}" ] || fail "VLLM=present BUILD=$BUILD: each names a vLLM: leave one out"
  build=present
fi
lock=requirements/$build.lock
case $build in
  present) lock=pyproject.toml size="what is missing" ;;
  cpu) size="3.3 GB" ;;
  gpu) size="9.4 GB" ;;
  *) fail "BUILD=$build: must be cpu or gpu" ;;
esac
packages=$(digest "$lock")
assets=$(digest requirements/assets.lock mlperf_suite/assets.py 2>/dev/null || true)
state=$(digest "$lock" requirements/assets.lock "$0" pyproject.toml mlperf_suite/assets.py 2>/dev/null || true)
holds() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }
if holds .venv/.set-up "$state" && holds .assets/.set-up "$assets"; then
  exit 0
fi

# The interpreter: sets $python, or ends.
fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
find_python() {
  if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || fail "PYTHON=$PYTHON is $("$PYTHON" -V 2>&1 || true): Python 3.11 to 3.13 is needed"
    python=$PYTHON
    return
  fi
  local one bare=""
  for one in python3.11 python3.12 python3.13 python3 .python/*/bin/python3.12; do
    fits "$one" || continue
    if "$one" -c 'import ensurepip, venv' 2>/dev/null; then
      python=$one
      return
    fi
    bare=${bare:-$one}
  done
  [ -z "$bare" ] || fail "$bare cannot make a virtual environment: apt-get install $bare-venv, or set PYTHON=/path/to/python3.11"
  local why="found no Python 3.11 to 3.13 (python3 is $(python3 -V 2>&1 || true))"
  local uv
  uv=$(command -v uv || true)
  if [ -z "$uv" ]; then
    uv=.uv/bin/uv
    [ -x "$uv" ] || python3 -m pip --disable-pip-version-check install -qq --no-deps \
      --require-hashes -r requirements/uv.lock --target .uv 2>/dev/null ||
      fail "$why and no uv to install one: set PYTHON=/path/to/python3.11, or install uv (https://docs.astral.sh/uv)"
  fi
  say "$why: installing Python 3.12 into .python with uv"
  UV_PYTHON_INSTALL_DIR=$PWD/.python "$uv" python install --quiet --no-bin 3.12 ||
    fail "uv could not download Python 3.12 from GitHub: set PYTHON=/path/to/python3.11"
  python=$(ls -d .python/cpython-3.12*/bin/python3.12 | head -n 1)
}

# The interpreter of an environment that has vLLM: sets $python, or ends.
find_vllm() {
  for python in ${PYTHON:-python python3 python3.12 python3.11 python3.13}; do
    if fits "$python" && "$python" -c "$vllm_is_there" 2>/dev/null; then
      return
    fi
  done
  fail "VLLM=present: ${PYTHON:-no python on PATH} is no Python 3.11 to 3.13 that has vLLM: set PYTHON=/path/to/python"
}
# .venv itself, if it is activated, is what will be replaced.
vllm_is_there='
import importlib.util, os, sys
own = os.path.realpath(".venv") == os.path.realpath(sys.prefix)
sys.exit(own or importlib.util.find_spec("vllm") is None)'

# Beside the packages of $python: each keeps its version, or nothing is installed.
install_missing() {
  "$python" -m venv --system-site-packages .venv || fail "$python cannot make a virtual environment: apt-get install python3-venv"
  printf '%s\n' "$build" >"$known"
  "$python" scripts/present_packages.py .venv
  say "adding to the packages of $python what the suite lacks"
  .venv/bin/python -m pip --disable-pip-version-check install -qq -c .venv/present.txt -e '.[present]' ||
    fail "pip found no versions that go with the packages of $python, for the reason above; nothing of it was changed"
  printf '%s\n' "$packages" >.venv/.packages
}

install_packages() {
  if [ "$build" = present ]; then find_vllm; else find_python; fi
  if [ -n "$was" ] && [ "$was" != "$build" ]; then
    # Both builds have a package `vllm`: one installed over the other is neither.
    say "replacing the $was build in .venv with the $build build"
    rm -rf .venv
  fi
  "$python" scripts/check_machine.py "$build" || [ -n "${SET_UP_ANYWAY:-}" ] ||
    fail "nothing was installed; SET_UP_ANYWAY=1 installs anyway"
  say "making a virtual environment in .venv ($("$python" -V 2>&1))"
  if [ "$build" = present ]; then
    install_missing
    return
  fi
  "$python" -m venv .venv || fail "$python cannot make a virtual environment: apt-get install $python-venv"
  printf '%s\n' "$build" >"$known"
  mkdir -p .venv/tmp
  # pip unpacks here what it downloads: /tmp is small on many machines.
  export TMPDIR=$PWD/.venv/tmp
  # What pip takes in has the hash of the lock, so that a swapped or mixed-up package is refused,
  # and what is built is built with the lock's setuptools. -qq: errors only. A find-links place that
  # is not there is a warning for every package.
  pip=".venv/bin/python -m pip --disable-pip-version-check install -qq --no-deps --no-compile"
  locked="$pip --no-build-isolation --require-hashes"
  say "installing the packages of $lock ($size on disk, a few minutes)"
  one_of_lock setuptools >.venv/tmp/setuptools.lock
  $locked -r .venv/tmp/setuptools.lock || fail "$refused"
  if grep -q '^torch==.*+cpu' "$lock"; then
    # The CPU build of torch lies on PyTorch's own index, unless pip is set up to find it elsewhere.
    one_of_lock torch >.venv/tmp/torch.lock
    $locked -r .venv/tmp/torch.lock 2>/dev/null ||
      $locked --index-url https://download.pytorch.org/whl/cpu -r .venv/tmp/torch.lock || fail "$refused"
  fi
  $locked -r "$lock" || fail "$refused"
  # pip compiles one file after another; some packages bring files that are no Python.
  .venv/bin/python -m compileall -qq -j 0 .venv/lib || true
  rm -rf .venv/tmp
  unset TMPDIR
  printf '%s\n' "$packages" >.venv/.packages
}
refused="pip could not install $lock for the reason above; if a hash differs, the package is not the one that was locked"
# The lines of one package of the lock.
one_of_lock() {
  awk -v name="$1" '$0 ~ "^" name "==" { on = 1 } on { print } on && !/\\$/ { exit }' "$lock"
}

# A set-up that is interrupted from here on holds for no lock.
rm -f .venv/.set-up
if [ "$was" != "$build" ] || ! holds .venv/.packages "$packages"; then
  rm -f .venv/.packages
  install_packages
fi
if [ "${1:-}" = packages ]; then
  exit 0
fi
if ! holds .assets/.set-up "$assets"; then
  say "installing the embedded model, NLTK's punkt and Whisper's spellings in .assets (about 400 MB)"
  .venv/bin/python -m mlperf_suite.assets
  printf '%s\n' "$assets" >.assets/.set-up
fi
if [ "${1:-}" = assets ]; then
  exit 0
fi
# The suite itself, for pytest to know its options before it looks for tests.
[ "$build" = present ] ||
  .venv/bin/python -m pip --disable-pip-version-check install -qq --no-deps --no-build-isolation -e .
printf '%s\n' "$state" >.venv/.set-up
say "done"
