"""The only reader of configuration: files and environment come in here, and below are only types.

Layers, each over the one before: defaults, the user's `config.yaml`, the project's `.turnwright/config.yaml`,
`--config FILE`, `TURNWRIGHT_*` variables, flags.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

import msgspec

from turnwright.config.environment import environment_layer
from turnwright.config.folders import Folders, folders_of
from turnwright.config.layers import KeyPath, Layer, Leaf, Place, Said, dotted, layer_of, merged, settings_from
from turnwright.config.mcp_servers import check_server
from turnwright.config.narrowing import narrowed, rule_layers
from turnwright.config.trust import Trust, trust_in
from turnwright.config.yaml_file import file_bytes, said_in
from turnwright.schema.errors import ConfigError
from turnwright.schema.limits import check_limits
from turnwright.schema.permissions import RuleLayer
from turnwright.schema.settings import Settings, answered_by
from turnwright.schema.trust import Untrusted

PROJECT_CONFIG = Path(".turnwright", "config.yaml")


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    """A setting from the command line or the API."""

    path: KeyPath
    value: object
    flag: str
    """As it was written, for messages: `--max-steps`."""


ASSIGNED = "--set "


class Loaded(msgspec.Struct, frozen=True, kw_only=True):
    """The settings and where each of them came from."""

    settings: Settings
    folders: Folders
    said: dict[KeyPath, Leaf]
    """What was set anywhere; everything else is a default."""
    files: tuple[Path, ...]
    """The files that were read, weakest first."""
    trust: Trust
    """What may be used of that which the project brings."""
    untrusted: tuple[Untrusted, ...] = ()
    """Its configuration, where it has one that was not used."""
    rules: tuple[RuleLayer, ...] = ()
    """`permissions.rules` of each layer, weakest first: they are not merged, each keeps its place."""
    refused: tuple[str, ...] = ()
    """What the project's configuration may not say, trusted or not, each with its place."""

    @property
    def assigned(self) -> dict[str, str]:
        """What was set with `--set`, for this conversation alone."""
        return {
            leaf.place.where.removeprefix(ASSIGNED): (
                leaf.value if isinstance(leaf.value, str) else msgspec.json.encode(leaf.value).decode()
            )
            for leaf in self.said.values()
            if leaf.place.where.startswith(ASSIGNED)
        }


def load(
    cwd: Path,
    *,
    file: Path | None = None,
    flags: Iterable[Flag] = (),
    assigned: Mapping[str, str] = MappingProxyType({}),
    environ: Mapping[str, str] | None = None,
    trust_all: bool = False,
) -> Loaded:
    """Reads every layer. A mistake anywhere is a ConfigError that names its place.

    The project's layer is read only if the user has trusted it, byte for byte: what it says could lead requests and
    keys elsewhere. `trust_all`: whoever calls vouches for the folder."""
    environ = os.environ if environ is None else environ
    folders = folders_of(environ)
    trust = trust_in(cwd, folders, everything=trust_all)
    layers: list[Layer] = []
    files: list[Path] = []
    untrusted: list[Untrusted] = []
    for layer, path in (("user", folders.user_config), ("project", project_config(cwd, folders)), ("file", file)):
        raw = file_bytes(path) if path else None
        if path is None or raw is None:
            if layer == "file" and path:
                raise ConfigError(
                    f"The configuration {path} does not exist.", remedy="Check the name given to --config."
                )
            continue
        if layer == "project":
            found = trust.decide("config", trust.name_of(path.resolve()), raw)
            if isinstance(found, Untrusted):
                untrusted.append(found)
                continue
        layers.append(layer_of(said_in(raw, path, layer)))
        files.append(path)
    layers.append(environment_layer(environ))
    layers.append(assigned_layer(assigned))
    layers.append(layer_of(_said(flags)))
    layers, refused = narrowed(layers)
    leaves = merged(layers)
    settings = _of(leaves)
    _check(settings, leaves)
    return Loaded(
        settings=settings,
        folders=folders,
        said=leaves,
        files=tuple(files),
        trust=trust,
        untrusted=tuple(untrusted),
        rules=tuple(rule_layers(layers)),
        refused=refused,
    )


def assigned_layer(assigned: Mapping[str, str]) -> Layer:
    """`--set KEY=VALUE`, by key: text, as in variables."""
    said = [
        Said(path=tuple(key.split(".")), value=value, place=Place(layer="flag", where=f"{ASSIGNED}{key}"))
        for key, value in assigned.items()
    ]
    return layer_of(said, textual=True)


def with_assigned(loaded: Loaded, assigned: Mapping[str, str]) -> Loaded:
    """What was set for a conversation when it began; what is said on this command line is stronger."""
    kept = {path: leaf for path, leaf in assigned_layer(assigned).items() if not _on_command_line(loaded, path)}
    if not kept:
        return loaded
    leaves = merged([loaded.said, kept])
    settings = _of(leaves)
    _check(settings, leaves)
    return msgspec.structs.replace(loaded, settings=settings, said=leaves)


def _of(leaves: Mapping[KeyPath, Leaf]) -> Settings:
    """A model that is named for one run answers alone, unless tiers are named beside it."""
    settings = settings_from(leaves)
    flags = {path[0] for path, leaf in leaves.items() if leaf.place.layer == "flag"}
    return answered_by(settings, settings.model) if "model" in flags and "tiers" not in flags else settings


def _on_command_line(loaded: Loaded, path: KeyPath) -> bool:
    return path in loaded.said and loaded.said[path].place.layer == "flag"


def project_config(cwd: Path, folders: Folders) -> Path | None:
    """The nearest one from `cwd` upward, not beyond the repository's root; never the user's own again."""
    for folder in (cwd.absolute(), *cwd.absolute().parents):
        path = folder / PROJECT_CONFIG
        # Not pathlib's: above the workspace there may be folders that are nobody's to look into.
        if path != folders.user_config and os.path.isfile(path):  # noqa: PTH113
            return path
        if os.path.exists(folder / ".git"):  # noqa: PTH110
            return None
    return None


def _said(flags: Iterable[Flag]) -> Iterable[Said]:
    return (Said(path=one.path, value=one.value, place=Place(layer="flag", where=one.flag)) for one in flags)


def _check(settings: Settings, leaves: Mapping[KeyPath, Leaf]) -> None:
    """What no single value shows; the message names the places that met."""
    try:
        check_limits(settings.loop.limits)
    except ConfigError as bad:
        set_at = [f"{dotted(path)} in {leaf.place}" for path, leaf in leaves.items() if path[:2] == ("loop", "limits")]
        raise ConfigError(bad.args[0], remedy=f"{bad.remedy} (Set: {', '.join(set_at)}.)") from bad
    for name, provider in settings.providers.named.items():
        if provider.base_url and not provider.base_url.startswith(("http://", "https://")):
            path = ("providers", name, "base_url")
            raise ConfigError(
                f"{leaves[path].place}: {dotted(path)} is not an address.", remedy="It begins with http:// or https://."
            )
    _check_journal(settings.journal.url, leaves)
    for name, server in settings.mcp.servers.items():
        said = [leaf.place for path, leaf in leaves.items() if path[:3] == ("mcp", "servers", name)]
        check_server(name, server, str(said[0]))
    for name, model in settings.catalogue.models.items():
        if (model.price.input is None) != (model.price.output is None):
            missing = "input" if model.price.input is None else "output"
            raise ConfigError(
                f"catalogue.models.{name}.price has no {missing} price.",
                remedy="Give both, or neither: half a price would count as free.",
            )


def _check_journal(url: str, leaves: Mapping[KeyPath, Leaf]) -> None:
    if not url:
        return
    place = leaves["journal", "url"].place
    parts = urlsplit(url)
    if parts.scheme not in ("postgresql", "postgres") or not parts.path.strip("/"):
        raise ConfigError(
            f"{place}: journal.url does not name a PostgreSQL database.",
            remedy="It is written postgresql://user@host:port/name.",
        )
    if parts.password or "password=" in parts.query:
        raise ConfigError(
            f"{place}: journal.url holds a password.", remedy="Keep it in PGPASSWORD or in ~/.pgpass instead."
        )
