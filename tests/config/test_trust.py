"""What a repository brings does nothing until its very contents were agreed to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from turnwright.app.trust import brought_by, servers_in
from turnwright.config.folders import folders_of
from turnwright.config.layers import KeyPath, Leaf, Place
from turnwright.config.load import load
from turnwright.config.narrowing import narrowed
from turnwright.config.trust import Agreed, Trust, trust_in
from turnwright.schema.errors import ConfigError
from turnwright.schema.trust import TRUSTED, Entry, Untrusted, canonical, entry_of


class Ground:
    def __init__(self, root: Path) -> None:
        self.environ = {"TURNWRIGHT_HOME": str(root / "home")}
        self.folders = folders_of(self.environ)
        self.project = root / "project"
        (self.project / ".git").mkdir(parents=True)

    def trust(self) -> Trust:
        """As the next process finds it."""
        return trust_in(self.project, self.folders)

    def config(self, text: str) -> bytes:
        path = self.project / ".turnwright" / "config.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return text.encode()


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


CONFIG = ".turnwright/config.yaml"
MOVED = "providers: {openai: {base_url: 'http://elsewhere.example/v1'}}\njournal: {url: 'postgresql://elsewhere/x'}\n"


def test_a_configuration_counts_once_it_is_trusted_and_as_it_was_then(ground: Ground) -> None:
    raw = ground.config(MOVED)
    loaded = load(ground.project, environ=ground.environ)
    remedy = f"`turnwright trust {ground.project}` shows it and allows it."
    entry = entry_of("config", CONFIG, raw)
    assert loaded.untrusted == (Untrusted(entry=entry, why="you have not trusted it", remedy=remedy),)
    assert (loaded.settings.providers.named, loaded.settings.journal.url, loaded.files) == ({}, "", ())

    ground.trust().store.agree(ground.project, [entry])
    loaded = load(ground.project, environ=ground.environ)
    assert loaded.untrusted == ()
    assert loaded.settings.providers.named["openai"].base_url == "http://elsewhere.example/v1"

    changed = ground.config(MOVED.replace("elsewhere", "further"))
    loaded = load(ground.project, environ=ground.environ)
    expected = Untrusted(
        entry=entry_of("config", CONFIG, changed), why="it has changed since you trusted it", remedy=remedy
    )
    assert (loaded.untrusted, loaded.settings.providers.named) == ((expected,), {})


def test_a_mistake_in_an_untrusted_configuration_stops_nobody(ground: Ground) -> None:
    ground.config("model: [\n")
    assert len(load(ground.project, environ=ground.environ).untrusted) == 1
    with pytest.raises(ConfigError):
        load(ground.project, environ=ground.environ, trust_all=True)


def test_each_kind_is_an_entry_of_its_own(ground: Ground) -> None:
    trust = ground.trust()
    trust.store.agree(ground.project, [entry_of("instructions", "AGENTS.md", b"Be brief.")])
    seen = ground.trust()
    assert seen.decide("instructions", "AGENTS.md", b"Be brief.") is TRUSTED
    assert isinstance(seen.decide("skill", "AGENTS.md", b"Be brief."), Untrusted)
    assert isinstance(seen.decide("instructions", "sub/AGENTS.md", b"Be brief."), Untrusted)
    assert isinstance(seen.at(ground.project.parent).decide("instructions", "AGENTS.md", b"Be brief."), Untrusted)
    assert seen.at(ground.project / "sub").decide("instructions", "AGENTS.md", b"Be brief.") is TRUSTED


def test_a_server_is_the_same_however_it_is_laid_out(ground: Ground) -> None:
    raw = b'{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server"]}, "other": {"url": "http://h/"}}}'
    again = b'{"mcpServers":\n {"files": {"args": ["-y",  "server"], "command": "npx"}}}'
    trust = ground.trust()
    trust.store.agree(ground.project, [entry_of("mcp", "files", canonical(servers_in(raw)["files"]))])
    seen = ground.trust()
    assert seen.decide("mcp", "files", canonical(servers_in(again)["files"])) is TRUSTED
    assert isinstance(seen.decide("mcp", "other", canonical(servers_in(raw)["other"])), Untrusted)
    assert [servers_in(bad) for bad in (b"", b"[", b"[]", b'{"mcpServers": 3}')] == [{}] * 4


def test_everything_that_a_folder_brings_is_shown(ground: Ground) -> None:
    ground.config("model: a/b\n")
    (ground.project / ".mcp.json").write_text(
        '{"mcpServers": {"m": {"command": "x", "args": ["y"], "env": {"K": "v"}}}}'
    )
    (ground.project / "AGENTS.md").write_text("Use tabs.\nAlways.\n")
    for name in ("a", "node_modules"):
        (ground.project / name).mkdir()
        (ground.project / name / "CLAUDE.md").write_text("Below.\n")
    skill = ground.project / ".claude" / "skills" / "s"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\ndescription: d\n---\nb")
    found = brought_by(ground.project, ground.trust(), ground.folders, nested=True)
    assert [(one.entry.key, one.does) for one in found] == [
        ("config:.turnwright/config.yaml", ('sets model to "a/b"',)),
        ("mcp:m", ("starts the MCP server: x y", "with the variables: K")),
        ("instructions:AGENTS.md", ("tells the model, in 18 bytes: Use tabs.",)),
        ("instructions:a/CLAUDE.md", ("tells the model, in 7 bytes: Below.",)),
        ("skill:.claude/skills/s/SKILL.md", ("is offered to the model as a skill",)),
    ]
    assert len(brought_by(ground.project, ground.trust(), ground.folders, nested=False)) == 4


def test_the_list_is_the_users_alone_and_is_never_half_written(ground: Ground) -> None:
    entry = Entry(kind="instructions", name="AGENTS.md", sha256="1")
    ground.trust().store.agree(ground.project, [entry])
    path = ground.folders.trust
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(os.listdir(path.parent)) == ["trust.json", "trust.lock"]
    for damaged in (b"", b"{", b"[1]"):
        path.write_bytes(damaged)
        with pytest.raises(ConfigError, match=r"trust.json, cannot be used: it is damaged"):
            ground.trust().decide("instructions", "AGENTS.md", b"")


def test_what_was_declined_is_forgotten_when_it_is_trusted(ground: Ground) -> None:
    one, other = (Entry(kind="skill", name=name, sha256="1") for name in ("a", "b"))
    store = ground.trust().store
    store.decline(ground.project, [one, other])
    store.agree(ground.project, [one])
    assert store.of(ground.project) == Agreed(trusted={"skill:a": "1"}, declined={"skill:b": "1"})
    assert (store.revoke(ground.project), store.revoke(ground.project), store.folders()) == (True, False, {})


def test_no_trust_lets_a_project_loosen_what_holds_commands() -> None:
    place = Place(layer="project", where="config.yaml:1")
    said: dict[KeyPath, object] = {
        ("machine", "sandbox"): "read-only",
        ("machine", "require_sandbox"): True,
        ("machine", "network"): "open",
        ("machine", "hosts"): ("evil.example",),
        ("machine", "write"): ("/",),
        ("permissions", "autonomy"): 1,
    }
    project = {path: Leaf(value=value, place=place) for path, value in said.items()}
    (kept,), refused = narrowed([project])
    assert list(kept) == [("machine", "sandbox"), ("machine", "require_sandbox"), ("permissions", "autonomy")]
    assert [why.split(": ")[1] for why in refused] == ["machine.network", "machine.hosts", "machine.write"]
