"""Energy of a run: counters of GPUs and CPUs, read alongside it; joules per token; cost.

None of it is MLPerf Power, which is the wall power of the whole system, and every figure says so.
"""
