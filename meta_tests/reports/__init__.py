"""Tests of mlperf_suite/reports."""
