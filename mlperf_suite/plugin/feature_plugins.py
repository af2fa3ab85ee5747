"""Loads the pytest plugin of each feature that has one.

A module of its own: the entry point in `own_folder` imports this package into every session of the
environment, which must not look for features.
"""

from mlperf_suite.feature import features

pytest_plugins = tuple(feature.plugin for feature in features() if feature.plugin)
