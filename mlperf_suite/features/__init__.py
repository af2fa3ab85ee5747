"""A folder for each capability beside the core (`mlperf_suite/feature.py`)."""
