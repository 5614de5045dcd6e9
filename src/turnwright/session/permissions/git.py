"""What a git command does. Its options may be abbreviated, and many of them name a program that it would start."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from turnwright.session.permissions.paths import paths_in
from turnwright.session.permissions.segments import Ground, Kind, Segment
from turnwright.session.permissions.syntax import Word
from turnwright.session.permissions.words import words_of

READS = words_of(
    """
    status diff log show rev-parse ls-files ls-tree cat-file blame annotate describe shortlog
    rev-list name-rev merge-base for-each-ref grep count-objects check-ignore check-attr version
    whatchanged diff-tree diff-index diff-files show-ref show-branch cherry range-diff var
    """
)
COMMITS = words_of(
    """
    commit merge rebase cherry-pick revert am tag branch commit-tree fast-import replace notes
    update-ref symbolic-ref
    """
)
NETWORK = words_of(
    """
    push fetch pull clone ls-remote send-email request-pull svn p4 archive-remote lfs
    """
)
LISTS = {
    "branch": re.compile(r"-(-list|-all|a|r|v|vv|-show-current|-remotes|-merged|-no-merged|-contains|-sort=.*)"),
    "tag": re.compile(r"-(-list|l|n\d*|-sort=.*|-contains|-points-at|-merged)"),
    "remote": re.compile(r"-v|--verbose|get-url"),
    "stash": re.compile(r"list|show"),
    "worktree": re.compile(r"list"),
    "reflog": re.compile(r"show"),
    "config": re.compile(r"--get.*|--list|-l|get|list|--show-origin|--show-scope"),
    "submodule": re.compile(r"status|summary"),
    "bisect": re.compile(r"log"),
    "notes": re.compile(r"list|show"),
    "symbolic-ref": re.compile(r"--short|-q|HEAD"),
}
"""Where the first word behind the subcommand makes it only look. Without any word `branch`, `tag`, `remote`, `reflog`
and `worktree` only look too."""
GRAVE = {
    "push": ("--force", "--force-with-lease", "--mirror", "--delete", "--prune", "-f", "-d"),
    "reset": ("--hard",),
    "clean": ("-f", "--force"),
    "branch": ("-D", "--delete", "-d", "-f", "--force"),
    "tag": ("-d", "--delete", "-f", "--force"),
    "checkout": ("-f", "--force"),
    "switch": ("-f", "--force", "--discard-changes"),
    "worktree": ("--force", "-f"),
    "update-ref": ("-d",),
    "gc": ("--prune",),
    "reflog": ("expire", "delete"),
    "stash": ("drop", "clear"),
    "filter-branch": ("",),
    "filter-repo": ("",),
}
STARTS = {
    "": ("--upload-pack", "--receive-pack", "--exec", "--extcmd", "--open-files-in-pager", "--run"),
    "rebase": ("--exec", "-x"),
    "difftool": ("--extcmd", "-x"),
    "grep": ("--open-files-in-pager", "-O"),
    "clone": ("--upload-pack", "-u"),
    "ls-remote": ("--upload-pack", "--exec"),
    "filter-branch": ("--tree-filter", "--index-filter", "--msg-filter", "--env-filter", "--commit-filter"),
    "send-email": ("--sendmail-cmd", "--to-cmd", "--cc-cmd"),
}
"""Options whose value is a command."""
_HARMLESS_KEYS = re.compile(
    r"(color\..*|advice\..*|user\.(name|email)|core\.(quotepath|abbrev|autocrlf|safecrlf|filemode|ignorecase|precomposeunicode)"
    r"|log\..*|diff\.(algorithm|renames|context|noprefix|mnemonicprefix)|init\.defaultbranch|commit\.gpgsign|tag\.gpgsign"
    r"|merge\.(conflictstyle|ff)|pull\.(rebase|ff)|status\..*|column\..*|gc\.auto|fetch\.prune)"
)
_OFF = {("core.fsmonitor", "false"), ("core.hookspath", "/dev/null"), ("core.pager", "cat"), ("core.editor", "true")}
_GLOBAL_VALUES = frozenset(
    {"--git-dir", "--work-tree", "--namespace", "--super-prefix", "--exec-path", "--attr-source"}
)
_GLOBAL_FLAGS = words_of(
    """
    --no-pager -P --bare --literal-pathspecs --no-optional-locks --no-replace-objects
    --glob-pathspecs --icase-pathspecs --no-lazy-fetch --no-advice
    """
)


class Started:
    """A command that git would start, as a line of shell."""

    def __init__(self, line: str, why: str) -> None:
        self.line, self.why = line, why


def git_segments(words: Sequence[Word], text: str, ground: Ground) -> Iterator[Segment | Started]:
    """One for what git does, and one for each command that it would start."""
    found: list[Started] = []
    problem, left = _globals(list(words[1:]), ground, found)
    if not left:
        shown: Kind = "runs" if problem or found else "reads"
        yield Segment(text=text, kind=shown, why=problem)
        yield from found
        return
    subcommand, rest = left[0].text, left[1:]
    plain = " ".join(["git", *(word.text for word in left)])
    also = (plain, *_unabbreviated(subcommand, rest)) if plain != text else _unabbreviated(subcommand, rest)
    found += _started(subcommand, rest)
    kind, why = _kind(subcommand, rest, ground)
    if problem and kind == "reads":
        kind, why = "runs", problem
    yield Segment(text=text, kind=kind, why=why, also=also)
    yield from found


def _globals(left: list[Word], ground: Ground, found: list[Started]) -> tuple[str, list[Word]]:
    """What stands before the subcommand. The first value says why it is not harmless."""
    problem = ""
    while left and left[0].text.startswith("-"):
        text = left.pop(0).text
        name, equals, _ = text.partition("=")
        if text.startswith("-c") and not text.startswith("--"):
            problem = _configured(text[2:] or (left.pop(0).text if left else ""), found) or problem
        elif "--config-env".startswith(name) and len(name) > 5:
            problem = "it takes a setting from the environment"
            if not equals and left:
                left.pop(0)
        elif name == "-C":
            # Files that came with a clone may be laid out as a repository, whose settings start programs.
            if not (left and left[0].text == "."):
                problem = "it works in another folder, where another repository's settings may start programs"
            del left[:1]
        elif name in _GLOBAL_VALUES:
            problem = f"{name} leads to settings of another repository"
            if not equals and left and name != "--exec-path":
                left.pop(0)
        elif name in ("-p", "--paginate"):
            problem = "it starts a pager"
        elif name in ("--version", "--help", "-h", "-v", "--html-path", "--man-path", "--info-path"):
            return problem, []
        elif name not in _GLOBAL_FLAGS:
            problem = f"the option {name} is not known"
    return problem, left


def _configured(setting: str, found: list[Started]) -> str:
    key, _, value = setting.partition("=")
    key = key.casefold()
    if _HARMLESS_KEYS.fullmatch(key) or (key, value.strip()) in _OFF:
        return ""
    if key.startswith("alias."):
        found.append(Started(value[1:] if value.startswith("!") else f"git {value}", f"an alias for {value}"))
    elif value and not re.fullmatch(r"true|false|\d+", value):
        found.append(Started(value, f"git may start what {key} names"))
    return f"it sets {key}"


def _started(subcommand: str, rest: Sequence[Word]) -> Iterator[Started]:
    options = (*STARTS[""], *STARTS.get(subcommand, ()))
    texts = [word.text for word in rest]
    for place, text in enumerate(texts):
        if text == "--":
            break
        if text.startswith(("ext::", "fd::")):
            yield Started(text.partition("::")[2], "the address names a command")
        if not text.startswith("-"):
            continue
        name, equals, value = text.partition("=")
        for option in options:
            if option.startswith("--") and len(name) > 3 and option.startswith(name):
                yield Started(value if equals else "".join(texts[place + 1 : place + 2]), f"the value of {option}")
                break
            if not option.startswith("--") and text.startswith(option) and not text.startswith("--"):
                yield Started(text[2:] or "".join(texts[place + 1 : place + 2]), f"the value of {option}")
                break
    if subcommand in ("submodule", "bisect") and texts[:1] in (["foreach"], ["run"]):
        behind = [text for text in texts[1:] if text not in ("--recursive", "--quiet", "-q")]
        yield Started(" ".join(behind), f"git {subcommand} starts it")


def _kind(subcommand: str, rest: Sequence[Word], ground: Ground) -> tuple[Kind, str]:
    texts = [word.text for word in rest]
    grave = GRAVE.get(subcommand, ())
    if any(_is(text, option) for text in texts for option in grave) or "" in grave:
        return "grave", f"git {subcommand} with this loses what was there"
    if subcommand == "push" and any(text.startswith("+") or re.match(r":\w", text) for text in texts):
        return "grave", "it overwrites or deletes on the other side"
    if subcommand == "config" and not _lists(subcommand, texts):
        return "protected", "it changes git's settings, which may start programs"
    if subcommand in NETWORK or (subcommand == "remote" and not _lists(subcommand, texts)):
        return "network", "it speaks to another repository"
    if subcommand == "submodule" and texts[:1] in (["update"], ["add"]):
        return "network", "it speaks to another repository"
    if _lists(subcommand, texts) or subcommand in READS:
        return _looks(subcommand, rest, ground)
    if subcommand in COMMITS:
        return "commits", f"git {subcommand} changes the history"
    if subcommand == "stash":
        return "runs", "it puts away what was changed"
    return "runs", ""


def _looks(subcommand: str, rest: Sequence[Word], ground: Ground) -> tuple[Kind, str]:
    for text in (word.text for word in rest):
        name = text.partition("=")[0]
        if ("--output".startswith(name) and len(name) > 3) or (text.startswith("-o") and subcommand != "ls-files"):
            return "runs", "it writes a file"
        if len(name) > 4 and any(each.startswith(name) for each in ("--ext-diff", "--textconv", "--filters")):
            return "runs", f"{name} starts programs"
        if name == "--no-index" or (len(name) > 6 and "--no-index".startswith(name)):
            return "runs", "it compares any two files"
    if any(not word.known for word in rest):
        return "runs", "what it is given cannot be known"
    paths = [path for path in paths_in(tuple(rest)) if path.startswith(("/", "~")) or ".." in path.split("/")]
    outside = [path for path in paths if not ground.inside(path)]
    return ("runs", f"{outside[0]} lies outside the workspace") if outside else ("reads", "")


def _lists(subcommand: str, texts: Sequence[str]) -> bool:
    if subcommand not in LISTS:
        return False
    if not texts:
        return subcommand in ("branch", "tag", "remote", "reflog", "worktree", "submodule", "notes")
    if subcommand == "symbolic-ref":
        return len([text for text in texts if not text.startswith("-")]) <= 1 and "-d" not in texts
    if subcommand == "remote" and texts[0] != "get-url":
        return all(text in ("-v", "--verbose") for text in texts)
    options = [text for text in texts if text.startswith("-")] if subcommand in ("branch", "tag") else []
    return all(LISTS[subcommand].fullmatch(text) for text in (texts[0], *options))


def _is(text: str, option: str) -> bool:
    """The option, an abbreviation of it, or its letter among others."""
    if option.startswith("--"):
        name = text.partition("=")[0]
        return len(name) > 3 and option.startswith(name) and name.startswith("--")
    if option.startswith("-"):
        return text.startswith("-") and not text.startswith("--") and option[1] in text[1:]
    return text == option


def _unabbreviated(subcommand: str, rest: Sequence[Word]) -> tuple[str, ...]:
    """With each abbreviated option written out, so that a rule against the whole one holds."""
    known = {option for options in (*GRAVE.values(), *STARTS.values()) for option in options if option[:2] == "--"}
    written: list[str] = []
    changed = False
    for text in (word.text for word in rest):
        name, equals, value = text.partition("=")
        meant = next((option for option in sorted(known) if len(name) > 3 and option.startswith(name)), name)
        changed = changed or meant != name
        written.append(f"{meant}{equals}{value}")
    return (" ".join(["git", subcommand, *written]),) if changed else ()
