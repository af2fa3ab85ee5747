#!/usr/bin/env bash
# Install bfcl-eval, the checker of function calling, into an environment of its own, .bfcl: its pins
# (numpy 1.26.4 among them) are not the suite's. PYTHON names the interpreter.
set -eu
cd "$(dirname "$0")/.."
folder=.bfcl
version=2026.3.23
say() { printf 'bfcl: %s\n' "$*"; }
if [ -f "$folder/.set-up" ] && [ "$(cat "$folder/.set-up")" = "$version" ]; then
  exit 0
fi
rm -rf "$folder"
say "bfcl-eval $version in $folder (a few minutes, 6 GB)"
"${PYTHON:-.venv/bin/python}" -m venv "$folder"
# soundfile: a package of bfcl-eval's imports it and does not ask for it.
"$folder/bin/python" -m pip --disable-pip-version-check install -q "bfcl-eval==$version" soundfile || {
  say "pip could not install bfcl-eval $version: its message is above" >&2
  exit 1
}
(cd "$folder" && bin/python -c 'from bfcl_eval.eval_checker.ast_eval import ast_checker') || {
  say "bfcl-eval $version was installed and does not start: its message is above" >&2
  exit 1
}
printf '%s\n' "$version" >"$folder/.set-up"
say "$folder/bin/python"
