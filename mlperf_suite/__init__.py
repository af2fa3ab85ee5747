"""Measures an LLM serving stack the way MLPerf Inference does, and judges it.

pytest need not rewrite this file's assertions, there are none: PYTEST_DONT_REWRITE.
"""

from pathlib import Path

__version__ = "0.1.0"

PACKAGE = Path(__file__).resolve().parent
IS_CLONE = (PACKAGE.parent / "pytest.ini").is_file()
SUITE_FOLDER = PACKAGE.parent if IS_CLONE else PACKAGE / "suite"
"""The folder of conftest.py, pytest.ini, tests/ and fixtures/: a clone, or where setup.py puts them
in a wheel."""
