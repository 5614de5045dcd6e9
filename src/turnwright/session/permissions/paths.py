"""What a path stands for: the workspace, what lies beyond it, keys, and files that make something run later."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from turnwright.session.permissions.segments import Ground, Kind
from turnwright.session.permissions.syntax import UNKNOWN, Word
from turnwright.session.permissions.words import words_of

_PROTECTED_ANYWHERE = re.compile(
    r"""(^|/)(
        \.git(/|$) | \.turnwright(/|$) | turnwright/config\.ya?ml$
      | \.mcp\.json$ | \.claude(/|$) | \.codex(/|$) | \.vscode(/|$) | \.idea(/|$)
      | \.(bash|zsh|k|c)?(rc|profile|shrc|cshrc)$ | \.bash_(profile|login|logout|aliases)$ | \.zlog(in|out)$
      | \.z(profile|shenv)$
      | \.envrc$ | \.gitconfig$ | \.gitmodules$ | \.config/(git|fish|systemd|autostart)(/|$) | \.husky(/|$)
      | \.pre-commit-config\.ya?ml$ | \.npmrc$ | \.yarnrc(\.yml)?$ | \.pypirc$ | pip\.conf$ | sitecustomize\.py$
      | \.github/(workflows|actions)(/|$) | \.gitlab-ci\.yml$ | \.circleci(/|$) | jenkinsfile$ | azure-pipelines\.ya?ml$
      | \.travis\.yml$ | \.ci(/|$) | \.ssh(/|$) | authorized_keys$ | crontab$ | \.netrc$ | \.git-credentials$
      | \.aws(/|$) | \.kube(/|$) | \.docker(/|$) | \.gnupg(/|$)
    )""",
    re.VERBOSE,
)
_SECRET = re.compile(
    r"""(^|/)(
        \.ssh(/|$) | id_(rsa|ed25519|ecdsa|dsa)$ | \.aws(/|$) | \.config/(gh|gcloud|op)(/|$) | \.netrc$
      | \.git-credentials$ | \.gnupg(/|$) | \.kube(/|$) | \.docker/config\.json$ | \.azure(/|$) | \.password-store(/|$)
      | \.pypirc$ | \.npmrc$ | \.pgpass$ | \.my\.cnf$ | shadow$ | gshadow$ | sudoers(\.d)?(/|$) | \.vault-token$
      | credentials\.json$ | \.env(\.(local|production|prod|secret))?$ | [^/]*\.(pem|p12|pfx|keystore|jks)$ | environ$
      | keychains(/|$) | trust\.json$
    )""",
    re.VERBOSE,
)
HARMLESS = words_of(
    """/dev/null /dev/zero /dev/urandom /dev/random /dev/stdout /dev/stderr /dev/stdin /dev/tty /dev/fd/0 /dev/fd/1
    /dev/fd/2 -"""
)


def is_protected(path: str) -> bool:
    return bool(_PROTECTED_ANYWHERE.search(_plain(path)))


def is_secret(path: str) -> bool:
    return bool(_SECRET.search(_plain(path)))


def written(path: str, ground: Ground, folders: tuple[str, ...] = ()) -> tuple[Kind, str]:
    """What writing to this path is. `folders`: where the line may have gone before."""
    if path in HARMLESS:
        return "reads", ""
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        return "network", "it opens a connection"
    if any(is_protected(each) for each in _meant(path, folders)):
        return "protected", f"{_shown(path)} makes something run later, or decides what may"
    if path.startswith("/dev/"):
        return "grave", f"it writes to the device {path}"
    if UNKNOWN in path:
        return "outside", "which file it writes cannot be known"
    if not ground.inside(path):
        return "outside", f"{path} lies outside the workspace"
    return "writes", ""


def read(path: str, ground: Ground, folders: tuple[str, ...] = ()) -> tuple[Kind, str]:
    if path in HARMLESS:
        return "reads", ""
    if path.startswith(("/dev/tcp/", "/dev/udp/")):
        return "network", "it opens a connection"
    if any(is_secret(each) for each in _meant(path, folders)):
        return "secret", f"{_shown(path)} is where keys and passwords are kept"
    if UNKNOWN in path:
        return "runs", "which file it reads cannot be known"
    if not ground.inside(path):
        return "runs", f"{path} lies outside the workspace"
    return "reads", ""


def paths_in(words: tuple[Word, ...]) -> Iterator[str]:
    """Whatever in these words could be a path: as it stands, behind `=`, behind a letter of an option."""
    for word in words:
        text = word.text
        if text.startswith("--") and "=" in text:
            yield text.partition("=")[2]
        elif text.startswith("-") and len(text) > 2 and not text.startswith("--"):
            yield text[2:]
        elif not text.startswith("-") and text:
            yield text
            if "=" in text:
                yield text.partition("=")[2]
        if ":" in text and "://" not in text:
            yield from text.split(":")[1:]


def _meant(path: str, folders: tuple[str, ...]) -> Iterator[str]:
    yield path
    for folder in folders:
        yield posixpath.join(folder, path)


def _plain(path: str) -> str:
    """Other spellings of the same name: case, `//`, `./`, `..`, a slash at the end."""
    text = re.sub("[\u200b-\u200f\u2060\ufeff]", "", path).casefold().replace("\\", "/")
    return posixpath.normpath(text)


def _shown(path: str) -> str:
    return path.replace(UNKNOWN, "…")
