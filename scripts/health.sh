#!/usr/bin/env bash
# The image's health check: the smoke run, Offline's performance with the embedded model, unless a
# run is under way, which it would disturb and which is itself what the container is for.
set -eu
cd "$(dirname "$0")/.."
for process in /proc/[0-9]*; do
  # A zombie or a process of another user has no command line here.
  command=$(tr '\0' ' ' <"$process/cmdline" 2>/dev/null || true)
  case $command in
    *"python -m pytest "* | *"python3 -m pytest "*)
      echo "a run is under way"
      exit 0
      ;;
  esac
done
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
.venv/bin/python -m pytest -q -m "offline and datacenter and performance" --profile smoke \
  --results-dir "$results"
