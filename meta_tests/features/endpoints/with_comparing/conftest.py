"""The fixture of comparisons."""

from meta_tests.features.comparing.conftest import compare

__all__ = ["compare"]
