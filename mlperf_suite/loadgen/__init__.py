"""Everything between LoadGen and the engine. The only place that imports mlperf_loadgen."""
