from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sandbox_ground import Ground, ground_of


@pytest.fixture(params=["namespaces", "kernel-lite"])
async def ground(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Ground]:
    async for made in ground_of(request.param, tmp_path):
        yield made


@pytest.fixture
async def namespaces(tmp_path: Path) -> AsyncIterator[Ground]:
    async for made in ground_of("namespaces", tmp_path):
        yield made
