"""As much of msgspec as the modules need that are sent to the far side, where it is put in its place."""

from __future__ import annotations

import dataclasses
from typing import Any


class Struct:
    __struct_fields__: tuple[str, ...] = ()

    def __init_subclass__(cls, *, frozen: bool = False, kw_only: bool = False, **_: Any) -> None:
        for name in cls.__annotations__:
            if isinstance(default := getattr(cls, name, None), dict | list | set):
                setattr(cls, name, dataclasses.field(default_factory=type(default)))
        dataclasses.dataclass(frozen=frozen, kw_only=kw_only)(cls)
        cls.__struct_fields__ = tuple(field.name for field in dataclasses.fields(cls))  # type: ignore[arg-type]
