"""Profiling of a run: named ranges, Nsight Systems, the operations of a trace."""
