#!/usr/bin/env bash
# Set up Ray in .venv, for replicas: seconds, 240 MB. Nothing is done where the last set-up still
# holds.
set -eu
cd "$(dirname "$0")/.."
lock=requirements/ray.lock
state=$(cat "$lock" "$0" .venv/.packages 2>/dev/null | sha256sum | cut -d' ' -f1)
stamp=.venv/.ray
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$state" ]; then
  exit 0
fi
rm -f "$stamp"
printf 'set-up: Ray in .venv (240 MB)\n'
.venv/bin/python -m pip --disable-pip-version-check install -qq --no-deps --require-hashes -r "$lock"
printf '%s\n' "$state" >"$stamp"
