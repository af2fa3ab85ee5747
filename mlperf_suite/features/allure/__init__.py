"""What Allure shows: each rule's verdict in words, and what every result ended with."""

from mlperf_suite.feature import Feature

FEATURE = Feature(
    name="allure",
    summary="--alluredir: verdicts in words, logs, reports and plots for Allure",
    plugin="mlperf_suite.features.allure.plugin",
)
