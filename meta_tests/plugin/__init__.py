"""Tests of mlperf_suite/plugin."""
