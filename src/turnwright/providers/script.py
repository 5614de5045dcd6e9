"""What a script of a model's replies may say, and how it is read. `scripted.py` plays it;
`docs/reference/scripted-model.md` describes the YAML form."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from turnwright.schema.errors import ConfigError, InputError
from turnwright.schema.routes import Price
from turnwright.schema.verdicts import ErrorKind, FinishClass, StallReason

REFERENCE = "docs/reference/scripted-model.md lists what a script may hold."
FOREVER = 1 << 62


class _Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a YAML file may say: an unknown key is an error, never ignored."""


class Call(_Data, frozen=True, kw_only=True):
    """A tool call. `raw` replaces the arguments' text, to be malformed on purpose."""

    name: str
    arguments: dict[str, Any] = {}
    raw: str | None = None
    id: str | None = None
    """Left out, it is unique within the script; an empty one is sent as missing."""


class Tokens(_Data, frozen=True, kw_only=True):
    input: int | None = None
    output: int | None = None
    cache_read: int | None = None
    cache_write: int | None = None
    reasoning: int | None = None


class Expect(_Data, frozen=True, kw_only=True):
    """What a step asserts about the prompt it is sent. Everything given must hold."""

    user_contains: str | None = None
    runtime_contains: str | None = None
    system_contains: str | None = None
    result_contains: str | None = None
    """In the outputs of the last tool results, joined by newlines."""
    result_is: str | list[str] | None = None
    tools: list[str] | None = None
    """Exactly these are offered; an empty list: none."""
    tools_include: list[str] | None = None
    messages: int | None = None
    temperature: float | None = None


class Truncated(_Data, frozen=True, kw_only=True, tag_field="is", tag="truncated"):
    """The bytes end without a terminal frame, after that many deltas (left out: after all of them)."""

    after: int | None = None


class Stalled(_Data, frozen=True, kw_only=True, tag_field="is", tag="stall"):
    """Nothing more comes; after `wait_s` the timers of a real route would give up. `forever` leaves it to the loop."""

    after: int | None = None
    reason: StallReason = "gap"
    wait_s: float | Literal["forever"] = 0.0


class Reported(_Data, frozen=True, kw_only=True, tag_field="is", tag="error"):
    """An error inside a success."""

    after: int | None = None
    kind: ErrorKind = "server"
    message: str = "scripted error"
    code: str = ""


class HttpError(_Data, frozen=True, kw_only=True, tag_field="is", tag="http_error"):
    status: int = 503
    kind: ErrorKind = "server"
    message: str = "scripted error"
    code: str = ""
    retry_after_s: float | None = None


class Broken(_Data, frozen=True, kw_only=True, tag_field="is", tag="transport"):
    """The connection is lost."""

    after: int | None = None
    detail: str = "connection reset (scripted)"


class WrongBody(_Data, frozen=True, kw_only=True, tag_field="is", tag="wrong_body"):
    """A page or noise where an answer belongs."""

    how: Literal["interstitial", "non_json"] = "interstitial"
    status: int = 200
    excerpt: str = "<!doctype html><title>scripted</title>"


Fault: TypeAlias = Truncated | Stalled | Reported | HttpError | Broken | WrongBody


class Step(_Data, frozen=True, kw_only=True):
    """The answer to one attempt, in this order: reasoning, text, refusal, calls, usage, finish."""

    text: str = ""
    reasoning: str = ""
    signature: str = ""
    refusal: str = ""
    calls: list[Call] = []
    usage: Tokens | Literal["none"] | None = None
    """Left out, it is estimated from the lengths, the same every time."""
    finish: FinishClass | None = None
    expect: Expect | None = None
    fault: Fault | None = None
    delay_s: float = 0.0
    gap_s: float = 0.0
    chunk: int | Literal["words", "lines", "whole"] = "words"
    repeat: int | Literal["forever"] = 1

    @property
    def times(self) -> int:
        return FOREVER if self.repeat == "forever" else self.repeat

    @property
    def replies(self) -> bool:
        """Whether this step leaves a reply in the history."""
        return self.fault is None and bool(self.text or self.reasoning or self.refusal or self.calls)


class Script(_Data, frozen=True, kw_only=True):
    steps: list[Step]
    follow: Literal["attempts", "history"] = "attempts"
    """`attempts`: each attempt takes the next step. `history`: the number of replies in the history says where we are,
    so that another process can carry the script on after a crash."""
    digest: str | None = None
    """What it answers when it is asked for a summary to make room; no step is used up by that. Left out, the next step
    answers."""
    route: str = "scripted"
    model: str = "scripted"
    price: Price | None = None
    window: int | None = None
    max_output: int | None = None


def parse_script(text: str, source: str = "script") -> Script:
    """A script from YAML; `source` is what errors call it."""
    import yaml

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as bad:
        raise ConfigError(f"{source} is not YAML: {' '.join(str(bad).split())}.") from bad
    if isinstance(data, list):
        data = {"steps": data}
    try:
        script = msgspec.convert(_long_forms(data), Script)
    except msgspec.ValidationError as bad:
        raise ConfigError(f"{source}: {bad}.", remedy=REFERENCE) from bad
    return checked(script, source)


def read_script(path: Path) -> Script:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as bad:
        raise InputError(
            f"The script {path} cannot be read: {bad.strerror}.", remedy="Write --model scripted/FILE, a YAML file."
        ) from bad
    except UnicodeDecodeError as bad:
        raise InputError(f"The script {path} is not UTF-8 (byte {bad.start}).", remedy="Save it as UTF-8.") from bad
    return parse_script(text, source=str(path))


def _long_forms(data: Any) -> Any:
    """`fault: stall` for `fault: {is: stall}`, and `- read: {path: a}` for `- {name: read, arguments: {path: a}}`."""
    if not isinstance(data, dict) or not isinstance(data.get("steps"), list):
        return data
    return {**data, "steps": [_long_step(step) if isinstance(step, dict) else step for step in data["steps"]]}


def _long_step(step: dict[str, Any]) -> dict[str, Any]:
    step = dict(step)
    if isinstance(fault := step.get("fault"), str):
        step["fault"] = {"is": fault}
    if isinstance(calls := step.get("calls"), list):
        step["calls"] = [_long_call(call) for call in calls]
    return step


def _long_call(call: Any) -> Any:
    if isinstance(call, dict) and len(call) == 1 and "name" not in call:
        ((name, arguments),) = call.items()
        return {"name": name, "arguments": arguments if arguments is not None else {}}
    return call


def checked(script: Script, source: str) -> Script:
    for number, step in enumerate(script.steps, 1):
        if step.times < 1:
            raise ConfigError(
                f"{source}: step {number} has repeat {step.repeat}.", remedy="Use 1 or more, or `forever`."
            )
        if step.repeat == "forever" and number < len(script.steps):
            raise ConfigError(f"{source}: step {number} repeats forever, so that the steps after it are never reached.")
        if isinstance(step.chunk, int) and step.chunk < 1:
            raise ConfigError(f"{source}: step {number} has chunk {step.chunk}.", remedy="Use 1 or more, or `whole`.")
        if step.delay_s < 0 or step.gap_s < 0:
            raise ConfigError(f"{source}: step {number} has a negative delay.")
    return script
