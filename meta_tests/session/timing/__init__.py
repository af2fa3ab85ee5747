"""Tests of mlperf_suite/session."""
