"""Where an attempt goes, and what was tried: what the turn loop and whoever provides models say to each other."""

from __future__ import annotations

import msgspec

from turnwright.schema.verdicts import ErrorKind, Verdict


class PriceTier(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Prices for the whole of a call whose prompt, its cached share included, is longer than `above` tokens."""

    above: int
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None


class Price(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """USD per million tokens; None is unknown, never free."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    tiers: tuple[PriceTier, ...] = ()
    """In rising order."""


class Route(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Provider, model, endpoint and credential under one name. Reasoning is bound to it."""

    name: str
    model: str
    price: Price | None = None
    window: int | None = None
    max_output: int | None = None
    stream: bool = True
    """Whether the reply is asked for as a stream."""
    tools: bool | None = None
    """Whether the model takes tools in the provider's own way; None is unknown, as for what follows."""
    images: bool | None = None
    reasoning: bool | None = None


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt of this step that is over."""

    route: str
    verdict: Verdict
    status: int | None = None
    kind: ErrorKind | None = None
    retryable: bool = False
    """The same request, sent again, could do better."""
    stream: bool = True
    tools: bool = False
    """Tools were offered in it."""
    retry_after_s: float | None = None
    longest_gap_s: float = 0.0


class NoRoute(msgspec.Struct, frozen=True, kw_only=True):
    """Why no further attempt can be made."""

    message: str
