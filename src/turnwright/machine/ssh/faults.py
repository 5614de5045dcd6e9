"""Errors on their way from the far side: what a tool sees is what the local machine would have raised."""

from __future__ import annotations

from typing import Any

from turnwright.machine.port import FileChanged, ForbiddenFile, NotRegular, OutsideWorkspace, SharedFile, ThroughLink
from turnwright.schema.errors import InputError, MachineError, TurnwrightError

_FILE_FAULTS: dict[str, type[OSError]] = {
    kind.__name__: kind
    for kind in (
        FileChanged,
        FileExistsError,
        FileNotFoundError,
        ForbiddenFile,
        IsADirectoryError,
        NotADirectoryError,
        NotRegular,
        OSError,
        OutsideWorkspace,
        PermissionError,
        SharedFile,
        ThroughLink,
    )
}


def told(fault: Exception) -> dict[str, Any]:
    match fault:
        case OSError():
            name = type(fault).__name__
            kind = name if name in _FILE_FAULTS else "OSError"
            filename = fault.filename if isinstance(fault.filename, str) else ""
            return {"kind": kind, "errno": fault.errno or 0, "said": fault.strerror or str(fault), "path": filename}
        case TurnwrightError():
            return {"kind": type(fault).__name__, "said": fault.args[0], "remedy": fault.remedy}
        case _:
            return {"kind": "bug", "said": f"{type(fault).__name__}: {fault}"}


def raised_from(fault: dict[str, Any], host: str) -> Exception:
    said, kind = str(fault.get("said", "")), str(fault.get("kind", ""))
    if kind in _FILE_FAULTS:
        return _file_fault(_FILE_FAULTS[kind], int(fault.get("errno", 0)), said, str(fault.get("path", "")))
    if kind == InputError.__name__:
        return InputError(f"On {host}: {said}", remedy=str(fault.get("remedy", "")))
    if kind == MachineError.__name__:
        return MachineError(f"On {host}: {said}", remedy=str(fault.get("remedy", "")))
    return MachineError(f"Our own program on {host} failed: {said}")


def _file_fault(kind: type[OSError], number: int, said: str, path: str) -> OSError:
    """Not by the constructors of our own kinds, which word it themselves."""
    fault = kind.__new__(kind, number, said, path)
    OSError.__init__(fault, number, said, path)
    return fault
