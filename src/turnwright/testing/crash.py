"""Dying at a chosen moment, by wrapping ports: no product code knows of it.

A first run without a moment lists them all (`CrashPlan().passed`); a test then dies at each in turn:

    plan = CrashPlan(at=17)                      # or CrashPlan(at="after record tool.started", nth=2)
    record = crashing(journal.record, plan, "record")
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from functools import wraps
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any, Literal, TypeVar, cast

from turnwright.schema.facts import Fact
from turnwright.schema.hosting import Request

Port = TypeVar("Port")


class Crash(BaseException):
    """We died here. A BaseException: whoever could catch it would not have been killed."""


class CrashPlan:
    """Counts the moments that pass and dies at one of them.

    `raise` is for tests in one process: `finally` blocks still run, so that afterwards every wrapped port is dead and
    raises again. `kill` is SIGKILL to this very process.
    """

    def __init__(self, at: int | str | None = None, *, nth: int = 1, how: Literal["raise", "kill"] = "raise") -> None:
        """`at` is a moment's place in order, from 0, or its name, met for the `nth` time."""
        self._at = at
        self._nth = nth
        self._how = how
        self.passed: list[str] = []
        self.dead = False

    def reached(self, name: str) -> None:
        if self.dead:
            raise Crash(f"dead since {self.passed[-1]}")
        self.passed.append(name)
        if not self._due(name):
            return
        if self._how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        self.dead = True
        raise Crash(name)

    def _due(self, name: str) -> bool:
        if isinstance(self._at, str):
            return name == self._at and self.passed.count(name) == self._nth
        return len(self.passed) - 1 == self._at


def crashing(port: Port, plan: CrashPlan, *names: str) -> Port:
    """The same port with a moment before and after each of these methods.

    A port that is itself called, such as `record`, gives its one name: `crashing(record, plan, "record")`. A moment
    is called `before NAME DETAIL`, where the detail is what can be read off the arguments: types of facts, the type of
    a request, a tool's or a route's name. Of an async generator each batch is a moment too (`at NAME`).
    """
    if len(names) == 1 and not hasattr(port, names[0]):
        return cast(Port, _wrapped(cast(Callable[..., Any], port), names[0], plan))
    return cast(Port, _Proxy(port, plan, names))


class _Proxy:
    def __init__(self, port: object, plan: CrashPlan, names: tuple[str, ...]) -> None:
        self._port = port
        self._wrapped = {name: _wrapped(getattr(port, name), name, plan) for name in names}

    def __getattr__(self, name: str) -> Any:
        return self._wrapped[name] if name in self._wrapped else getattr(self._port, name)


def _wrapped(function: Callable[..., Any], name: str, plan: CrashPlan) -> Callable[..., Any]:
    body = function if hasattr(function, "__name__") else type(function).__call__

    @wraps(body)
    async def generates(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        moment = _moment(name, args)
        plan.reached(f"before {moment}")
        async with aclosing(function(*args, **kwargs)) as items:
            async for item in items:
                plan.reached(f"at {moment}")
                yield item
        plan.reached(f"after {moment}")

    @wraps(body)
    async def awaits(*args: Any, **kwargs: Any) -> Any:
        moment = _moment(name, args)
        plan.reached(f"before {moment}")
        result = await function(*args, **kwargs)
        plan.reached(f"after {moment}")
        return result

    @wraps(body)
    def calls(*args: Any, **kwargs: Any) -> Any:
        moment = _moment(name, args)
        plan.reached(f"before {moment}")
        result = function(*args, **kwargs)
        plan.reached(f"after {moment}")
        return result

    if isasyncgenfunction(body):
        return generates
    return awaits if iscoroutinefunction(body) else calls


def _moment(name: str, args: tuple[Any, ...]) -> str:
    facts = [arg for arg in _flat(args) if isinstance(arg, Fact)]
    if facts:
        return f"{name} {'+'.join(str(type(fact).__struct_config__.tag) for fact in facts)}"
    detail = args[0] if args else ""
    if isinstance(detail, Request):
        return f"{name} {detail.__struct_config__.tag}"
    detail = getattr(detail, "name", detail)
    return f"{name} {detail}" if isinstance(detail, str) and detail else name


def _flat(args: Iterable[Any]) -> Iterator[Any]:
    for arg in args:
        if isinstance(arg, list | tuple):
            yield from _flat(arg)
        else:
            yield arg
