#!/usr/bin/env bash
# Install what evidence compares with or runs, as far as package indexes have it: coverage and MLflow's client in .venv,
# the checker of MLPerf Endpoints in .evidence/endpoints-checker, MLflow's server in .evidence/mlflow,
# LiteLLM's proxy in .evidence/litellm, SGLang's server in .evidence/sglang,
# bfcl-eval in .bfcl and, for root on Debian or Ubuntu, PHP, Ruby, Node.js, TypeScript and Chromium.
# Tests that lack something name it.
set -eu
cd "$(dirname "$0")/.."
folder=.evidence
checker=endpoints-submission-cli==1.5.3.0
mlflow=mlflow==3.17.2
# Later ones need a package of their own version that package indexes do not all have.
litellm=litellm[proxy]==1.108.7
state=$(cat "$0" requirements/evidence.lock requirements/mlflow.lock .venv/.packages 2>/dev/null | sha256sum | cut -d' ' -f1)
stamp=$folder/.set-up
say() { printf 'evidence: %s\n' "$*"; }
scripts/set_up_bfcl.sh || say "without bfcl-eval the function calling checker is not compared with"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then
  exit 0
fi
rm -rf "$folder"
mkdir -p "$folder"
pip="-m pip --disable-pip-version-check install -qq"
.venv/bin/python $pip --no-deps --require-hashes -r requirements/evidence.lock -r requirements/mlflow.lock
for program in "endpoints-checker $checker" "mlflow $mlflow" "litellm $litellm"; do
  place=$folder/${program% *} package=${program#* }
  say "$package in $place"
  .venv/bin/python -m venv "$place"
  "$place/bin/python" $pip "$package" || say "pip could not install $package: its message is above"
done
# SGLang's package requires what computes on NVIDIA's GPUs, and PyTorch for them. On a CPU its server needs only these;
# everything else is the suite's own.
place=$folder/sglang
say "sglang in $place"
.venv/bin/python -m venv "$place"
packages=$("$place/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$packages/suite.pth"
cp evidence/servers/sglang_sitecustomize.py "$packages/sitecustomize.py"
"$place/bin/python" $pip --no-deps sglang==0.5.23 triton==3.9.0 torchvision==0.28.0 torchaudio==2.11.0 \
  orjson==3.13.0 ipython==9.18.1 traitlets==5.16.1 soundfile==0.14.0 || say "pip could not install sglang: its message is above"
# The parts of torchaudio that were compiled against PyTorch for GPUs, which it does without.
rm -f "$packages"/torchaudio/lib/*.so
missing=()
for tool in php:php-cli ruby:ruby node:nodejs tsc:node-typescript chromium:chromium; do
  command -v "${tool%%:*}" >/dev/null || missing+=("${tool#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "apt-get install ${missing[*]}"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null ||
      say "apt-get could not install ${missing[*]}: its message is above"
  else
    say "for the tests that need them: apt-get install ${missing[*]}"
  fi
fi
printf '%s\n' "$state" >"$stamp"
say "done"
