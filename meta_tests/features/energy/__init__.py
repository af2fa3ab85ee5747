"""Tests of mlperf_suite/features/energy"""
