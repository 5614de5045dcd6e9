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
NESTED_MAX = 20
"""References within references. Far from where the interpreter would run out of stack: the validator's own tables are
kept by a library that does not survive that."""
_NAMES = ("$schema", "$id", "id")


class _TooMany(Exception):
    """References that lead to references: a few lines can ask for years of work."""


class _Budget:
    left = 0
    depth = 0


_budget = _Budget()


def problem_of(arguments: dict[str, Any], schema: dict[str, Any]) -> str:
    """How they break it; empty where they fit, or where the schema is none that can be checked."""
    _budget.left, _budget.depth = REFERENCES_MAX, 0
    try:
        validator = _validator_class()(_without_names(schema), registry=_registry())
        found = [f"`{each.json_path}`: {each.message[:300]}" for each in _first(validator.iter_errors(arguments))]
    except Exception:  # noqa: BLE001 - the schema is a stranger's, and at fault
        return ""  # what the server itself makes of the call it says in its answer
    if not found:
        return ""
    known = schema.get("properties")
    takes = ", ".join(map(str, known)) if isinstance(known, dict) and known else "no arguments"
    return f"{'; '.join(found)}. It takes: {takes}."


def _without_names(schema: Any) -> Any:
    """Of dialects and addresses: the one would bring back a validator that tries patterns, the other one that looks
    things up."""
    match schema:
        case dict():
            kept = {key: each for key, each in schema.items() if key not in _NAMES or not isinstance(each, str)}
            return {key: _without_names(each) for key, each in kept.items()}
        case list():
            return [_without_names(each) for each in schema]
        case _:
            return schema


def _first(errors: Any) -> list[Any]:
    return [error for error, _ in zip(errors, range(PROBLEMS_SHOWN), strict=False)]


@lru_cache(maxsize=1)
def _validator_class() -> Any:
    from jsonschema import Draft202012Validator, validators  # type: ignore[import-untyped]

    follow = Draft202012Validator.VALIDATORS["$ref"]

    def counted(validator: Any, reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
        _budget.left -= 1
        _budget.depth += 1
        if _budget.left < 0 or _budget.depth > NESTED_MAX:
            raise _TooMany
        yield from follow(validator, reference, instance, schema) or ()
        _budget.depth -= 1

    changed = {"pattern": None, "patternProperties": None, "$ref": counted, "$dynamicRef": counted}
    return validators.extend(Draft202012Validator, changed)


@lru_cache(maxsize=1)
def _registry() -> Any:
    """Without it, a reference to an address would be fetched."""
    from referencing import Registry

    return Registry()
