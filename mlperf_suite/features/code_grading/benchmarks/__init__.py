"""MLPerf's definitions of the benchmarks whose answers are graded by programs."""
