"""The command of evidence/pages/programs.py."""

from __future__ import annotations

import sys

from evidence.pages.programs import main

if __name__ == "__main__":
    sys.exit(main())
