"""Commands that are more than just any command: other machines, other rights, what no undo brings back."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType

from turnwright.session.permissions.paths import is_protected, is_secret, paths_in
from turnwright.session.permissions.segments import Ground, Kind
from turnwright.session.permissions.syntax import UNKNOWN, Word
from turnwright.session.permissions.words import words_of

NETWORK = words_of(
    """
    curl wget ssh scp sftp rsync nc ncat netcat socat telnet ftp lftp tftp ping traceroute dig
    nslookup host whois aria2c httpie http https xh websocat gh glab hub aws gcloud az gsutil
    kubectl helm terraform ansible doctl heroku vercel netlify fly flyctl wrangler firebase sshfs
    mosh rclone restic smbclient openssl nmap npx pnpx bunx uvx pipx corepack
    """
)
INSTALLERS = MappingProxyType[str, frozenset[str]](
    {
        **dict.fromkeys(("pip", "pip3"), frozenset({"install", "download", "wheel", "index", "search"})),
        "uv": frozenset({"add", "sync", "lock", "pip", "tool", "python", "publish", "self"}),
        "poetry": frozenset({"install", "add", "update", "lock", "publish", "self"}),
        **dict.fromkeys(
            ("npm", "pnpm", "yarn", "bun"),
            words_of(
                """
    install i ci add update upgrade up publish audit outdated view info search login init create dlx
    """
            ),
        ),
        "cargo": frozenset({"install", "add", "update", "fetch", "publish", "search", "login", "owner", "yank"}),
        "go": frozenset({"get", "install"}),
        "gem": frozenset({"install", "update", "push", "fetch"}),
        "bundle": frozenset({"install", "update", "add"}),
        **dict.fromkeys(("docker", "podman"), frozenset({"pull", "push", "run", "login", "build", "compose"})),
        "composer": frozenset({"install", "update", "require"}),
        **dict.fromkeys(("mvn", "gradle"), frozenset({"deploy", "publish"})),
    }
)
GRAVE = words_of(
    """
    su mkfs mkswap fdisk sfdisk gdisk parted wipefs blkdiscard shred srm mount umount swapon swapoff
    losetup dmsetup cryptsetup insmod rmmod modprobe sysctl iptables ip6tables nft ufw firewall-cmd
    reboot shutdown halt poweroff init telinit systemctl service launchctl crontab at batch useradd
    userdel usermod adduser deluser groupadd passwd chpasswd visudo vipw chattr setcap setfacl mknod
    update-alternatives diskutil csrutil spctl tccutil nvram kexec debugfs apt apt-get aptitude dpkg
    yum dnf rpm zypper pacman apk brew port snap flatpak
    """
)
PUBLISHES = MappingProxyType[str, frozenset[str]](
    {
        **dict.fromkeys(
            ("npm", "pnpm", "yarn", "bun", "cargo", "poetry", "uv"), frozenset({"publish", "unpublish", "yank"})
        ),
        "twine": frozenset({"upload"}),
        "gem": frozenset({"push", "yank"}),
        **dict.fromkeys(("docker", "podman"), frozenset({"push"})),
        "terraform": frozenset({"apply", "destroy"}),
        "kubectl": frozenset({"delete", "apply", "drain", "scale"}),
        "helm": frozenset({"install", "upgrade", "uninstall"}),
        "gh": frozenset({"release", "repo", "secret", "api", "pr"}),
    }
)
EDITS = frozenset({"mkdir", "touch", "cp", "mv", "rmdir"})
"""Edits of files like those by the tools, where all that they name is known and lies in the workspace."""
TOUCHES = words_of(
    """
    rm unlink ln install chmod chown chgrp dd truncate tee patch rsync tar unzip zip gzip bzip2 xz
    ed ex vi vim nano emacs split csplit
    """
)
_HOST = re.compile(
    r"(?:[a-z][a-z0-9+.-]*://)?(?:[^\s/@]+@)?(\[[0-9a-f:]+\]|[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)(?::\d+)?(?:[/?#:].*)?",
    re.I,
)
_SYSTEM = re.compile(
    r"/?(|\*|bin|boot|dev|etc|home|lib\w*|opt|proc|root|sbin|srv|sys|usr|var|Users|System|Library)(/\*?)?"
)


def effect(
    name: str, words: Sequence[Word], ground: Ground, folders: tuple[str, ...]
) -> tuple[Kind, str, tuple[str, ...] | None]:
    """The gravest of what it is. The last value: the hosts it names."""
    rest = tuple(words[1:])
    texts = [word.text for word in rest]
    first = next((text for text in texts if not text.startswith("-")), "")
    if name in GRAVE or name.startswith("mkfs."):
        return "grave", f"{name} changes the machine itself", None
    if first in PUBLISHES.get(name, ()):
        return "grave", f"{name} {first} cannot be taken back", None
    if loss := _loses(name, rest, ground):
        return "grave", loss, None
    if protected := _protected(name, rest, folders):
        return "protected", f"{protected} makes something run later, or decides what may", None
    if secret := next((path for path in paths_in(rest) if is_secret(path)), ""):
        return "secret", f"{secret.replace(UNKNOWN, '…')} is where keys and passwords are kept", None
    if name in NETWORK:
        return "network", f"{name} reaches other machines", _hosts(name, texts)
    if first in INSTALLERS.get(name, ()):
        return "network", f"{name} {first} fetches from other machines", None
    if name in EDITS:
        return *_edit(name, rest, ground), None
    return "runs", "", None


def _loses(name: str, rest: tuple[Word, ...], ground: Ground) -> str:
    texts = [word.text for word in rest]
    if name == "dd" and any(text.startswith("of=/dev/") and text not in ("of=/dev/null",) for text in texts):
        return "dd writes to a device"
    if name in ("kill", "pkill", "killall") and ("-1" in texts[1:] or name == "killall5"):
        return "it ends every process"
    recursive = any(
        (text.startswith("-") and not text.startswith("--") and re.search("[rR]", text))
        or (len(text) > 4 and "--recursive".startswith(text))
        for text in texts
    )
    if name not in ("rm", "chmod", "chown", "chgrp", "mv", "cp", "truncate") or (name != "mv" and not recursive):
        return ""
    for text in texts:
        if text.startswith("-"):
            continue
        if name in ("rm", "chmod", "chown", "chgrp", "mv") and _whole(text):
            return f"{name} takes all of {text.replace(UNKNOWN, '…')}"
        if name == "rm" and UNKNOWN not in text and not ground.inside(text):
            return f"rm takes {text}, which lies outside the workspace"
    return ""


def _whole(text: str) -> bool:
    """The root, a home, a folder of the system, the workspace itself, or what an empty variable makes of a path."""
    trimmed = text.rstrip("/") or "/"
    if trimmed in ("/", "~", ".", "..", "*", "./*", "../*", "~/*", ".*", "./.*", ".git", "~root"):
        return True
    if text.startswith(UNKNOWN) and text.strip(f"{UNKNOWN}/*.") == "":
        return True
    return text.startswith("/") and _SYSTEM.fullmatch(text) is not None


def _protected(name: str, rest: tuple[Word, ...], folders: tuple[str, ...]) -> str:
    if name not in EDITS and name not in TOUCHES and name not in ("curl", "wget"):
        return ""
    candidates = list(paths_in(rest))
    if name in ("cp", "rsync", "tar") and candidates:
        candidates = candidates[-1:] + [path for path in candidates if path.startswith(".git")]
    for path in candidates:
        if is_protected(path) or any(is_protected(f"{folder}/{path}") for folder in folders):
            return path.replace(UNKNOWN, "…")
    return ""


def _edit(name: str, rest: tuple[Word, ...], ground: Ground) -> tuple[Kind, str]:
    paths = [word for word in rest if not word.text.startswith("-")]
    if any(word.text.startswith("-t") or word.text.startswith("--t") or UNKNOWN in word.text for word in rest):
        return "runs", f"what {name} touches cannot be known"
    if paths and all(ground.inside(word.text) for word in paths):
        return "writes", ""
    return "runs", f"{name} reaches outside the workspace" if paths else ""


_FETCH_VALUES = words_of(
    """
    -o -H -d -X -A -e -m -b -c -w -F -O --output --header --data --data-raw --request --user-agent
    --max-time --retry --connect-timeout --output-document --tries --timeout
    """
)


def _hosts(name: str, texts: Sequence[str]) -> tuple[str, ...] | None:
    """Every machine that is named; None where another one may be reached too."""
    if name not in ("curl", "wget") or any(UNKNOWN in text for text in texts):
        return None
    hosts: list[str] = []
    left = list(texts)
    while left:
        text = left.pop(0)
        if text in _FETCH_VALUES and not (name == "curl" and text == "-O"):
            del left[:1]
        elif re.fullmatch(r"-[sSfkvqiIgNO#]+|--(silent|fail|show-error|head|include|verbose|quiet|no-verbose)", text):
            continue
        else:
            found = _HOST.fullmatch(text)
            if found is None or "://" not in text or "@" in text or "\\" in text:
                return None
            hosts.append(found[1].lower())
    return tuple(hosts) or None
