"""Tests of mlperf_suite/judging."""
