"""Tests of mlperf_suite/compliance/rules."""
