"""The commands of `mlperf-suite`: each is a module with a `COMMAND`."""
