"""The rules, as pure functions from parsed logs to verdicts."""
