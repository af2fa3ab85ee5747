"""Energy counters of GPUs and CPUs, and the thread that reads them alongside a run."""
