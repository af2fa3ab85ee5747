"""A plugin of pytest: the official client is the one in the folder that MADE_CLIENT names."""

import os
from pathlib import Path

from mlperf_suite.features.endpoints.official_client import installation

installation.OFFICIAL_CLIENT_FOLDER = Path(os.environ["MADE_CLIENT"])
