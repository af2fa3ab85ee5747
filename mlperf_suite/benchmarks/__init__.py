"""What MLPerf says: a file for each benchmark, the rounds, the audits."""
