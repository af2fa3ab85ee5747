"""MLPerf's definitions: one file per benchmark, the rounds, the audits."""
