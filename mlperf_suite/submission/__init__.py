"""The official directory tree of a submission, made from this suite's result folders."""
