"""What tests need: a model that follows a script, time and ids that a test decides, crashes at a chosen moment.

Further fakes have modules of their own: `ports` (small ports for driving the loop), `journal_conformance` (the suite
that any journal must pass), `faults` and `fake_provider` (servers on loopback).
"""

from __future__ import annotations

TYPE_CHECKING = False

if TYPE_CHECKING:
    from turnwright.providers.script import Call as Call
    from turnwright.providers.script import Expect as Expect
    from turnwright.providers.script import Script as Script
    from turnwright.providers.script import Step as Step
    from turnwright.providers.script import parse_script as parse_script
    from turnwright.providers.script import read_script as read_script
    from turnwright.providers.scripted import ScriptedModel as ScriptedModel
    from turnwright.providers.scripted import ScriptMismatch as ScriptMismatch
    from turnwright.testing.clock import FakeClock as FakeClock
    from turnwright.testing.crash import Crash as Crash
    from turnwright.testing.crash import CrashPlan as CrashPlan
    from turnwright.testing.crash import crashing as crashing
    from turnwright.testing.ids import CountingIds as CountingIds

_HOMES = {
    "Call": "turnwright.providers.script",
    "CountingIds": "turnwright.testing.ids",
    "Crash": "turnwright.testing.crash",
    "CrashPlan": "turnwright.testing.crash",
    "Expect": "turnwright.providers.script",
    "FakeClock": "turnwright.testing.clock",
    "Script": "turnwright.providers.script",
    "ScriptMismatch": "turnwright.providers.scripted",
    "ScriptedModel": "turnwright.providers.scripted",
    "Step": "turnwright.providers.script",
    "crashing": "turnwright.testing.crash",
    "parse_script": "turnwright.providers.script",
    "read_script": "turnwright.providers.script",
}
"""Imported on first use: a fake provider in a process of its own has no need of the rest."""

__all__ = ["Call", "CountingIds", "Crash", "CrashPlan", "Expect", "FakeClock", "Script", "ScriptMismatch"]
__all__ += ["ScriptedModel", "Step", "crashing", "parse_script", "read_script"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'turnwright.testing' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
