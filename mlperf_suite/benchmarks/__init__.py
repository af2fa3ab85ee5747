"""What MLPerf says, as data: benchmarks, scenarios, rounds, limits, tasks and baselines."""
