"""Tests of mlperf_suite/benchmarks."""
