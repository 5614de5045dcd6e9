"""Test modules may import what lies beside them (`driving`, builders); nothing else is shared here."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in sorted({path.parent for path in HERE.rglob("*.py")}):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
