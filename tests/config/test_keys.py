"""Where a key comes from, and what is said when there is none."""

import pytest

from turnwright.config.keys import Key, Keyring, NoKey, find_key, key_of, system_keyring
from turnwright.schema.errors import CredentialsError
from turnwright.schema.settings import Provider


def ring(answer: Key | NoKey) -> Keyring:
    return lambda provider: answer


EMPTY = ring(NoKey("nothing there"))
FULL = ring(Key(value="from-ring", source="keyring turnwright/openai"))
OPENAI = ("OPENAI_API_KEY",)


@pytest.mark.parametrize(
    ("explicit", "named_env", "environ", "keyring", "source"),
    [
        ("given-key", "NAMED", {"NAMED": "a", "OPENAI_API_KEY": "b"}, FULL, "given"),
        (None, "NAMED", {"NAMED": "a", "OPENAI_API_KEY": "b"}, FULL, "NAMED"),
        (None, "", {"NAMED": "a", "OPENAI_API_KEY": "b"}, FULL, "OPENAI_API_KEY"),
        (None, "", {"NAMED": "a", "OPENAI_API_KEY": ""}, FULL, "keyring turnwright/openai"),
    ],
)
def test_precedence(
    explicit: str | None, named_env: str, environ: dict[str, str], keyring: Keyring, source: str
) -> None:
    key = find_key("openai", OPENAI, explicit=explicit, named_env=named_env, environ=environ, keyring=keyring)
    assert key.source == source


def test_a_missing_key_names_all_the_places() -> None:
    with pytest.raises(CredentialsError) as caught:
        find_key("gemini", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), environ={}, keyring=EMPTY)
    assert str(caught.value) == (
        "There is no key for provider gemini. Looked for: an explicit key, providers.gemini.api_key_env, "
        "the variable GEMINI_API_KEY, the variable GOOGLE_API_KEY, the keyring entry turnwright/gemini "
        "(nothing there). Set GEMINI_API_KEY."
    )


def test_a_named_variable_that_is_not_set_is_never_replaced_by_another_key() -> None:
    with pytest.raises(CredentialsError, match="the variable MINE is not set"):
        find_key("openai", OPENAI, named_env="MINE", environ={"OPENAI_API_KEY": "other account"}, keyring=FULL)


def test_an_endpoint_of_the_users_own_may_go_without() -> None:
    own, mine = Provider(base_url="http://127.0.0.1:1/v1"), ("LOCAL_API_KEY",)
    key = Key(value="k", source="LOCAL_API_KEY")
    assert key_of("local", own, mine, environ={}, keyring=EMPTY) is None
    assert key_of("local", own, mine, environ={"LOCAL_API_KEY": "k"}, keyring=EMPTY) == key
    with pytest.raises(CredentialsError, match="the variable MINE is not set"):
        key_of("local", Provider(base_url="http://h", api_key_env="MINE"), mine, environ={}, keyring=EMPTY)
    with pytest.raises(CredentialsError, match="Set OPENAI_API_KEY"):
        key_of("openai", Provider(), OPENAI, environ={}, keyring=EMPTY)


def test_a_provider_that_answers_without_a_key_still_gets_the_one_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnwright.config.keys.system_keyring", lambda provider: pytest.fail("asked the keyring"))
    variables, key = ("OLLAMA_API_KEY",), Key(value="k", source="OLLAMA_API_KEY")
    assert key_of("ollama", Provider(), variables, environ={}, optional=True) is None
    assert key_of("ollama", Provider(), variables, environ={"OLLAMA_API_KEY": "k"}, optional=True) == key
    with pytest.raises(CredentialsError, match="the variable MINE is not set"):
        key_of("ollama", Provider(api_key_env="MINE"), variables, environ={}, optional=True)


def test_a_key_does_not_show_itself() -> None:
    assert repr(Key(value="0123456789abcdef", source="X")) == "Key(012***def, from X)"


def test_without_the_extra_the_keyring_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "keyring", None)
    assert system_keyring("openai") == NoKey("the extra turnwright[keyring] is not installed")


def test_a_keyring_is_asked_and_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for the extra's two modules: the real one would ask this machine's desktop."""
    import sys
    import types

    class KeyringError(Exception): ...

    class Locked(KeyringError): ...

    def get_password(service: str, name: str) -> str | None:
        if name == "locked":
            raise Locked
        return {"openai": "k1"}.get(name) if service == "turnwright" else None

    module, errors = types.ModuleType("keyring"), types.ModuleType("keyring.errors")
    monkeypatch.setattr(module, "get_password", get_password, raising=False)
    monkeypatch.setattr(errors, "KeyringError", KeyringError, raising=False)
    monkeypatch.setitem(sys.modules, "keyring", module)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    assert system_keyring("openai") == Key(value="k1", source="keyring turnwright/openai")
    assert system_keyring("groq") == NoKey("nothing there")
    assert system_keyring("locked") == NoKey("it could not be read: Locked")
