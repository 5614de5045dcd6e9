"""Where a key comes from, and what is said when there is none."""

import pytest

from turnwright.config.keys import Key, Keyring, NoKey, env_names, find_key, key_of, keys_found, system_keyring
from turnwright.schema.errors import CredentialsError
from turnwright.schema.settings import Provider


def ring(answer: Key | NoKey) -> Keyring:
    return lambda provider: answer


EMPTY = ring(NoKey("nothing there"))
FULL = ring(Key(value="from-ring", source="keyring turnwright/openai"))


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
    key = find_key("openai", explicit=explicit, named_env=named_env, environ=environ, keyring=keyring)
    assert key.source == source


def test_a_missing_key_names_all_the_places() -> None:
    with pytest.raises(CredentialsError) as caught:
        find_key("gemini", environ={}, keyring=EMPTY)
    assert str(caught.value) == (
        "There is no key for provider gemini. Looked for: an explicit key, providers.gemini.api_key_env, "
        "the variable GEMINI_API_KEY and the variable GOOGLE_API_KEY, the keyring entry turnwright/gemini "
        "(nothing there). Set GEMINI_API_KEY."
    )


def test_a_named_variable_that_is_not_set_is_never_replaced_by_another_key() -> None:
    with pytest.raises(CredentialsError, match="the variable MINE is not set"):
        find_key("openai", named_env="MINE", environ={"OPENAI_API_KEY": "other account"}, keyring=FULL)


def test_an_endpoint_of_the_users_own_may_go_without() -> None:
    own = Provider(base_url="http://127.0.0.1:1/v1")
    assert key_of("local", own, environ={}, keyring=EMPTY) is None
    assert key_of("local", own, environ={"LOCAL_API_KEY": "k"}, keyring=EMPTY) == Key(value="k", source="LOCAL_API_KEY")
    with pytest.raises(CredentialsError, match="the variable MINE is not set"):
        key_of("local", Provider(base_url="http://h", api_key_env="MINE"), environ={}, keyring=EMPTY)
    with pytest.raises(CredentialsError, match="Set OPENAI_API_KEY"):
        key_of("openai", Provider(), environ={}, keyring=EMPTY)


def test_a_provider_of_the_users_own_has_a_variable_too() -> None:
    assert env_names("my-host.2") == ("MY_HOST_2_API_KEY",)


def test_a_key_does_not_show_itself() -> None:
    assert repr(Key(value="0123456789abcdef", source="X")) == "Key(012***def, from X)"


def test_keys_found() -> None:
    found = list(keys_found({"GROQ_API_KEY": "g", "OTHER_API_KEY": "o", "GOOGLE_API_KEY": "k"}))
    assert [(provider, key.source) for provider, key in found] == [
        ("gemini", "GOOGLE_API_KEY"),
        ("groq", "GROQ_API_KEY"),
    ]


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
