"""Tests of mlperf_suite/profiling"""
