"""The language results of a public repository, judged: docs/evidence/public-results.md."""
