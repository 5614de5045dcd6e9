"""Arguments held against a schema that a stranger wrote, before anything is sent.

Nothing of such a schema may reach out or run away: references lead nowhere but into itself, and only so many are
followed; its patterns are not tried, since the engine at hand could take hours over one. The server checks them itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

PROBLEMS_SHOWN = 5
REFERENCES_MAX = 2_000


class _TooMany(Exception):
    """References that lead to references: a few lines can ask for years of work."""


class _Budget:
    left = 0


_budget = _Budget()


def problem_of(arguments: dict[str, Any], schema: dict[str, Any]) -> str:
    """How they break it; empty where they fit, or where the schema is none that can be checked."""
    from jsonschema.exceptions import SchemaError  # type: ignore[import-untyped]
    from referencing.exceptions import Unresolvable

    validator = _validator_class()(schema, registry=_registry())
    _budget.left = REFERENCES_MAX
    try:
        found = [f"`{each.json_path}`: {each.message[:300]}" for each in _first(validator.iter_errors(arguments))]
    except (_TooMany, SchemaError, Unresolvable, RecursionError, TypeError, ValueError, AttributeError, KeyError):
        return ""  # a schema that is itself at fault: what the server makes of the call it says in its answer
    if not found:
        return ""
    known = schema.get("properties")
    takes = ", ".join(map(str, known)) if isinstance(known, dict) and known else "no arguments"
    return f"{'; '.join(found)}. It takes: {takes}."


def _first(errors: Any) -> list[Any]:
    return [error for error, _ in zip(errors, range(PROBLEMS_SHOWN), strict=False)]


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    from jsonschema import Draft202012Validator, validators  # type: ignore[import-untyped]

    follow = Draft202012Validator.VALIDATORS["$ref"]

    def counted(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _budget.left -= 1
        if _budget.left < 0:
            raise _TooMany
        yield from follow(validator, reference, instance, schema) or ()

    changed = {"pattern": None, "patternProperties": None, "$ref": counted, "$dynamicRef": counted}
    return validators.extend(Draft202012Validator, changed)


@lru_cache(maxsize=1)
def _registry() -> Any:
    """Without it, a reference to an address would be fetched."""
    from referencing import Registry

    return Registry()
