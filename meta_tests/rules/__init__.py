"""Tests of mlperf_suite/rules."""
