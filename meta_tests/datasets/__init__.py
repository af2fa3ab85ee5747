"""Tests of mlperf_suite/datasets."""
