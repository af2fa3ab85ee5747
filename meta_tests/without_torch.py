"""A session on a stand-in without torch and scikit-learn, as where the client alone is installed.

transformers and NLTK import both if they are there: two thirds of the time of such a session.
"""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_ABSENT = ("torch", "sklearn")


class _Finder:
    """Python's own finder of modules, but for these."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if name in _ABSENT else PathFinder.find_spec(name, path, target)

    def __getattr__(self, name: str) -> Any:
        return getattr(PathFinder, name)


# transformers says that there are no models without torch.
os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
sys.meta_path[:] = [_Finder() if finder is PathFinder else finder for finder in sys.meta_path]
