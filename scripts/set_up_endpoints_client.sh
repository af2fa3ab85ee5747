#!/usr/bin/env bash
# Build MLCommons' official HTTP client (mlcommons/endpoints, on no package index) from a checkout
# into an environment of its own, .endpoints-client: its pins are not the suite's.
# CHECKOUT=DIR names the checkout, PYTHON the interpreter; without it the first of 3.12 and 3.13 that
# is found, also pyenv's and uv's, else 3.11. Nothing is done where that commit is built already.
set -eu
cd "$(dirname "$0")/.."
folder=.endpoints-client
stamp=$folder/.set-up
tried=ea3327530376fef63d706f4105612e17c2c80a8d

say() { printf 'endpoints-client: %s\n' "$*"; }
fail() {
  say "$*" >&2
  exit 1
}
where=${CHECKOUT:-}
[ -n "$where" ] ||
  fail "no checkout: git clone https://github.com/mlcommons/endpoints DIR, then make endpoints-client CHECKOUT=DIR"
commit=$(git -C "$where" rev-parse --verify HEAD 2>/dev/null) ||
  fail "CHECKOUT=$where is no git checkout with a commit: git clone https://github.com/mlcommons/endpoints DIR"
# A bare repository has no prefix, and does for a checkout.
prefix=$(git -C "$where" rev-parse --show-prefix 2>/dev/null || true)
git -C "$where" show "HEAD:${prefix}pyproject.toml" 2>/dev/null | grep -q '^name = "inference-endpoint"' ||
  fail "CHECKOUT=$where is no checkout of mlcommons/endpoints: its pyproject.toml names no inference-endpoint"
if [ -n "$(git -C "$where" status --porcelain --untracked-files=no 2>/dev/null)" ]; then
  say "changes in $where that are not committed are left out"
fi
[ "$commit" = "$tried" ] || say "tried was commit ${tried:0:8}, this is ${commit:0:8}"
metric=metrics/rouge
[ -z "${EVALUATE:-}" ] || [ -f "$EVALUATE/$metric/rouge.py" ] ||
  fail "EVALUATE=$EVALUATE has no $metric/rouge.py: git clone https://github.com/huggingface/evaluate DIR"
copy_metric() {
  [ -n "${EVALUATE:-}" ] || return 0
  mkdir -p "$folder/$metric"
  cp "$EVALUATE/$metric/rouge.py" "$folder/$metric/rouge.py"
  say "$folder/$metric/rouge.py: ROUGE is scored without the hub"
}
state=$(printf '%s\n' "$commit" | cat - "$0" | sha256sum | cut -d' ' -f1)
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then
  copy_metric
  exit 0
fi

fits() { "$1" -c 'import sys, ensurepip, venv; sys.exit(not (3, '"$2"') <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }
find_python() {
  local candidate
  for candidate in ${PYTHON:-python3.12 python3.13 python3 "$HOME"/.pyenv/versions/3.1[23].*/bin/python3 \
    .python/*/bin/python3.12 "$(uv python find '>=3.12,<3.14' 2>/dev/null || true)"}; do
    if fits "$candidate" 12; then
      python=$candidate
      return
    fi
  done
  for candidate in ${PYTHON:-python3.11 .venv/bin/python}; do
    if fits "$candidate" 11; then
      python=$candidate
      return
    fi
  done
  fail "${PYTHON:+PYTHON=$PYTHON does not fit: }no Python 3.11 to 3.13 that makes virtual environments: set PYTHON=/path/to/python3.12"
}
find_python

say "commit ${commit:0:8} in $folder with $("$python" -V) (two minutes)"
rm -rf "$folder"
"$python" -m venv "$folder"
# A clone and not the checkout: the results name the commit of the folder that the client runs from.
git clone -q "$where" "$folder/source"
git -C "$folder/source" checkout -q "$commit"
older=()
if ! fits "$python" 12; then
  printf '%s\n' 'numpy<2.4' 'scipy<1.17' 'pandas<3' 'pyarrow<24' >"$folder/constraints.txt"
  older=(--ignore-requires-python -c "$folder/constraints.txt")
  # A factory of tasks that 3.11 lacks; None is the usual one. Debian's own sitecustomize would win.
  echo 'import asyncio; asyncio.eager_task_factory = None' \
    >"$("$folder/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/eager_tasks.pth"
fi
# aiohttp: its own echo server, which the tests use, needs it. The others: its ROUGE, which it leaves out.
"$folder/bin/python" -m pip --disable-pip-version-check install -q "${older[@]}" -e "$folder/source" \
  aiohttp evaluate nltk rouge_score ||
  fail "pip could not install commit ${commit:0:8}: its message is above"
version=$("$folder/bin/inference-endpoint" --version) ||
  fail "commit ${commit:0:8} was installed and does not start: its message is above"
copy_metric
printf '%s\n' "$state" >"$stamp"
say "$folder/bin/inference-endpoint, version $version, commit $commit"
