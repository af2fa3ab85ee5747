"""Names the fixture plugins; no logic of its own."""

pytest_plugins = (
    "fixtures.options",
    "fixtures.runs",
    "fixtures.workers",
    "fixtures.mmlu",
    "fixtures.regression",
    "fixtures.logs",
    "fixtures.reporting",
    "fixtures.ci",
    "fixtures.secrets",
)
