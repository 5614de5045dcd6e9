"""What `doctor` and `models` are told about keys."""

from __future__ import annotations

from turnwright.app.keys import keys_of
from turnwright.config.keys import Key, NoKey
from turnwright.schema.settings import Provider


def ring(provider: str) -> Key | NoKey:
    return Key(value="r" * 20, source="keyring turnwright/groq") if provider == "groq" else NoKey("nothing there")


def test_every_place_is_looked_at() -> None:
    environ = {"AZURE_OPENAI_API_KEY": "a" * 20, "OLLAMA_API_KEY": "o" * 20, "OTHER_API_KEY": "x"}
    found = {each.provider: each for each in keys_of({}, environ, ring)}
    assert {name: each.key.source for name, each in found.items() if each.key} == {
        "azure": "AZURE_OPENAI_API_KEY",
        "ollama": "OLLAMA_API_KEY",
        "groq": "keyring turnwright/groq",
    }
    assert {name for name, each in found.items() if not each.key and not each.problem} == {
        "llamacpp",
        "vllm",
        "lmstudio",
    }


def test_configured_providers_say_what_is_wrong() -> None:
    named = {
        "own": Provider(base_url="http://h"),
        "mine": Provider(base_url="http://h", api_key_env="MINE"),
        "odd": Provider(),
        "openai": Provider(api_key_env="WORK"),
    }
    found = {each.provider: each for each in keys_of(named, {"WORK": "w" * 20}, ring)}
    assert [name for name, each in found.items() if each.configured] == ["openai", "own", "mine", "odd"]
    assert found["openai"].key == Key(value="w" * 20, source="WORK")
    assert (found["own"].key, found["own"].problem) == (None, None)
    assert "the variable MINE is not set" in str(found["mine"].problem)
    assert "No provider 'odd' is known" in str(found["odd"].problem)
