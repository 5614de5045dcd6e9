"""Test modules may import what lies beside them (`driving`, builders); nothing else is shared here."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in sorted({path.parent for path in HERE.rglob("*.py")}):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))

# Nobody sits here to answer, and machines without a sandbox run these tests too: commands of scripted models may do
# what they do. Tests of permissions say their own.
os.environ.setdefault("TURNWRIGHT_PERMISSIONS__AUTONOMY", "4")
