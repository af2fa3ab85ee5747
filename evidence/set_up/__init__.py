"""Set-up beyond `make setup`: with pip itself, and of the parts beside the suite."""
