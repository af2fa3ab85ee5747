"""Tests of mlperf_suite/scorers."""
