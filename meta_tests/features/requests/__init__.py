"""Tests of mlperf_suite/features/requests"""
