"""Files that never end or never begin: a program that reads them whole does not return."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

UNREADABLE: dict[str, Callable[[Path], object]] = {
    "FIFO": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "sparse file": lambda path: subprocess.run(["truncate", "-s10G", str(path)], check=True),
}
"""How such a file is made at a path, by its kind."""
