"""Every word that a guard says to the model or the user, in one place. All of it is said in the runtime's own name."""

from __future__ import annotations

from turnwright.schema.messages import RuntimeMessage

LAST_STEP = (
    "No tools are available any more. Answer now, from what you have: what was done, what was found, and what is left."
)


def said(guard: str, text: str) -> RuntimeMessage:
    return RuntimeMessage(code=f"guard-{guard}", text=text)


def repeated_call(name: str, times: int) -> str:
    return (
        f"You have called {name} {times} times with the same arguments and the same result. Calling it again will not "
        "change the result: use what it said, change something first, or answer."
    )


def alternating_calls(one: str, other: str, times: int) -> str:
    return (
        f"Your last {times} calls alternate between {one} and {other}, with the same results each time. "
        "Neither will be executed again: do something else, or answer."
    )


def blocked_call(name: str, times: int) -> str:
    return (
        f"{name} was called {times} times with these arguments and had the same result each time. "
        "Use that result, or do something else."
    )


def monologue(replies: int) -> str:
    return f"Your last {replies} replies called no tool, and did not end the task either. {LAST_STEP}"


def refused_calls(row: int, turn: int) -> str:
    return f"Your calls keep being refused: {row} in a row, {turn} in this turn. Their results say why. {LAST_STEP}"


def budget_is_near(used: int, budget: int) -> str:
    return f"{used} of the {budget} tool calls of this turn are used. Bring the task to its end with what is left."


def budget_is_used(budget: int) -> str:
    return f"All {budget} tool calls of this turn are used. {LAST_STEP}"


def beyond_budget(left: int, budget: int) -> str:
    return f"only {left} of the {budget} tool calls of this turn were left"


def beyond_reply(limit: int) -> str:
    return f"a reply may make {limit} calls; ask for the others in the next one, if they are still needed"
