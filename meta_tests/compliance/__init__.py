"""Tests of mlperf_suite/compliance."""
