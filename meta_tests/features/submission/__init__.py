"""Tests of mlperf_suite/submission."""
