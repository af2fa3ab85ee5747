"""Tests of mlperf_suite/results."""
