"""Tests of mlperf_suite/features/profiling"""
