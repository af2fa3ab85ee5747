"""The fixtures of the tests of packages."""

from meta_tests.features.submission_check.judged_yaml import yaml_once

__all__ = ["yaml_once"]
