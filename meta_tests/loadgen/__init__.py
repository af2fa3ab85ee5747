"""Tests of mlperf_suite/loadgen."""
