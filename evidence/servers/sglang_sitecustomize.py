"""For SGLang's environment: lets torchvision load beside PyTorch's CPU build.

Published torchvision is compiled against PyTorch for GPUs. Beside the CPU build its operators are
missing, and its import, which transformers asks for, fails where it describes them. They are
declared here and computed nowhere: no text model uses them.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType

_OPERATORS = ("nms", "qnms")
_KEPT: list[object] = []
"""A library of operators ends with its object."""


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Declares the operators once, when torchvision is first looked for."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torchvision":
            return None
        sys.meta_path.remove(self)
        import torch

        library = torch.library.Library("torchvision", "DEF")
        for operator in _OPERATORS:
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)
        return importlib.util.find_spec(name)


sys.meta_path.insert(0, _BeforeTorchvision())
