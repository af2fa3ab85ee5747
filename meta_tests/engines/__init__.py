"""Tests of mlperf_suite/engines."""
