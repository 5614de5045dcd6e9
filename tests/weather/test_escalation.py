"""A run that failed, handed to whoever runs the provider: all of it in one zip, and no key in it or anywhere else."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from weather_runs import Nursery, Place, nursery
from weather_server import row

from turnwright.testing.exchange import Exchange, whole
from turnwright.testing.faults import serve

KEY = "tw-9f8e7d6c5b4a39281706-Zq/+x"
"""Of no known shape: only its place says that it is one."""
SHAPED = "sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x"
IN_HEADER = "team-token-55d1f0a7c3b94e62"
IN_QUERY = "qk-0c7be1f24a9d4f3f86"
PLANTED = (KEY, SHAPED, IN_HEADER, IN_QUERY)


def spellings(secret: str) -> dict[str, bytes]:
    raw = secret.encode()
    return {
        "plain": raw,
        "base64": base64.b64encode(raw),
        "hex": raw.hex().encode(),
        "url": quote(secret, safe="").encode(),
        "json": json.dumps(secret)[1:-1].replace("/", "\\/").encode(),
        "utf-16 in base64": base64.b64encode(secret.encode("utf-16-le")),
    }


def failure() -> Exchange:
    """A host that tells everybody everything."""
    said = " ".join(
        f"{name}={spelt.decode()}" for secret in (KEY, IN_HEADER) for name, spelt in spellings(secret).items()
    )
    body = json.dumps({"error": {"message": f"Internal: {said}; {SHAPED}; {IN_QUERY}", "type": "server_error"}})
    return whole(500, "application/json", body.encode(), ("X-Request-Id", "req-777"), ("X-Echo", KEY))


@pytest.fixture
async def forks() -> AsyncIterator[Nursery]:
    async with nursery() as forks:
        yield forks


async def test_a_kit_holds_what_is_promised_and_no_key(tmp_path: Path, forks: Nursery) -> None:
    place = Place(tmp_path / "place")
    async with serve([row("own", failure())]) as server:
        own = {
            "base_url": server.url("own"),
            "api_key_env": "OWN_KEY",
            "headers": {"X-Team-Token": IN_HEADER},
            "query": {"subscription-key": IN_QUERY},
        }
        config = place.config({"model": "own/m", "providers": {"own": own}, "loop": {"retry": {"attempts": 2}}})
        words = ["--config", str(config), "--cwd", str(place.work)]
        task = f"Use {SHAPED} to log in, please."
        ran = await forks.run(place, "run", task, *words, "--no-input", "--output", "stream-json", env={"OWN_KEY": KEY})
        assert ran.code == 59, ran.err
        assert server.seen("own")[0].headers["authorization"] == f"Bearer {KEY}"
        conversation = ran.lines[0]["conversation_id"]
        kit = tmp_path / "kit.zip"
        made = await forks.run(place, "escalate", conversation, *words, "--to", str(kit), env={"OWN_KEY": KEY})
        assert made.code == 0, made.err

    with zipfile.ZipFile(kit) as opened:
        files = {name: opened.read(name) for name in opened.namelist()}
    attempt = "attempts/" + next(name for name in files if name.startswith("attempts/")).split("/")[1]
    assert {name for name in files if name.startswith(attempt)} == {
        f"{attempt}/{name}"
        for name in ("attempt.cassette.ndjson", "request_body.json", "response_body.bin", "headers.txt", "reproduce.sh")
    }
    assert {"README.txt", "timeline.txt", "facts.ndjson", "metrics.json", "request_ids.txt", "probes.json"} <= set(
        files
    )
    assert sum(name.endswith("reproduce.sh") for name in files) == 2, "one for each attempt"
    assert b"http_error" in files["timeline.txt"]
    assert b"req-777" in files["request_ids.txt"]
    assert json.loads(files[f"{attempt}/request_body.json"])["model"] == "m"
    assert b"Internal: " in files[f"{attempt}/response_body.bin"]
    assert b"x-request-id: req-777" in files[f"{attempt}/headers.txt"].lower()
    assert b'"$API_KEY"' in files[f"{attempt}/reproduce.sh"]
    assert json.loads(files["metrics.json"])

    texts = {**files, **dict(written(tmp_path)), "the run's own words": (ran.out + ran.err + made.out).encode()}
    config_itself = str(config)
    found = [
        (name, how, secret[:6])
        for name, data in texts.items()
        if name != config_itself
        for secret in PLANTED
        for how, spelt in spellings(secret).items()
        if spelt in data
    ]
    assert found == [], "\n".join(map(str, found))


def written(root: Path) -> Iterator[tuple[str, bytes]]:
    """Every file, and whatever can be inflated in it."""
    for path in root.rglob("*"):
        if path.is_file() and path.suffix != ".zip":
            data = path.read_bytes()
            yield str(path), data
            for at in (found.start() for found in re.finditer(rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08", data)):
                yield f"{path}@{at}", inflated(data[at:])


def inflated(data: bytes) -> bytes:
    try:
        if data.startswith(b"\x1f\x8b"):
            return gzip.GzipFile(fileobj=io.BytesIO(data)).read()
        return zlib.decompressobj().decompress(data)
    except (OSError, EOFError, zlib.error):
        return b""
