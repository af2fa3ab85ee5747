"""Puts the suite's own tests into a wheel, where `mlperf_suite.SUITE_FOLDER` looks for them.

The rest of the build is in pyproject.toml.
"""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_OF_SUITE = ("conftest.py", "pytest.ini", "requirements/assets.lock", "tests/**/*", "fixtures/*")


class BuildWithTests(build_py):
    """Copies the package, and beside it the tests that a clone has in its root."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        suite = Path(self.build_lib) / "mlperf_suite" / "suite"
        for path in (path for pattern in _OF_SUITE for path in Path().glob(pattern)):
            if path.is_file() and path.suffix != ".pyc":
                (suite / path).parent.mkdir(parents=True, exist_ok=True)
                self.copy_file(str(path), str(suite / path))


setup(cmdclass={"build_py": BuildWithTests})
