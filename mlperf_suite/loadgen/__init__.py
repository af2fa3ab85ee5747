"""Everything between LoadGen and the engine. Only this package imports mlperf_loadgen."""
