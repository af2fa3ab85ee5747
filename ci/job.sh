#!/usr/bin/env bash
# One job, alone on its machine: ci/job.sh HOME sets up in HOME (ci/install.sh), measures and, with
# MLPERF_KEEP=true, keeps the results of a run that passes as baselines (ci/gate.py, which lists the
# other variables).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
home=${1:?usage: ci/job.sh HOME}
baselines=${MLPERF_BASELINES:-/var/lib/mlperf-baselines}
say() { printf 'ci: %s\n' "$*"; }
locks=8
case $baselines in
  mlflow:*) ;;
  *)
    locks="8 9"
    mkdir -p "$baselines" || {
      say "$baselines cannot be made: make it for the runner's user, or name another folder for the baselines" >&2
      exit 1
    }
    exec 9<"$baselines"
    ;;
esac
# Two jobs on one machine disturb each other's measurements, also where their baselines differ, and
# a set-up replaces the environment that the other one uses. A folder, since anybody can lock it and
# nobody can put a link in its place.
machine=${MLPERF_LOCK:-/tmp/mlperf-suite.lock}
mkdir -p "$machine"
exec 8<"$machine"
for lock in $locks; do
  flock --nonblock "$lock" || {
    say "another job measures on this machine: this one waits for its end"
    flock "$lock"
  }
done
"$here/install.sh" "$home"
cd "$home/suite"
.venv-job/bin/python ci/gate.py measure
[ "${MLPERF_KEEP:-}" != true ] || .venv-job/bin/python ci/gate.py keep
