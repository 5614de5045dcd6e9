"""Replies that end by saying what will be done, and do not do it: "Let me run the tests."

Only the last sentence counts, and only where it begins as an announcement and goes on with what a tool could do. A plan
in plan mode, a question and an offer are none. A call of which the provider says that it could not read it is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnwright.kernel.guards import wording
from turnwright.kernel.ports import ForceAnswer, Judgement, Nudge
from turnwright.schema.facts import Fact, ModelReplied, StepStarted
from turnwright.schema.guards import AnnouncedGuard
from turnwright.schema.tools import Detail

NAME = "announced"
SENTENCE_MAX = 300

OPENERS = (
    ("let", "me"),
    ("let's",),
    ("i'll",),
    ("i", "will"),
    ("i'm", "going", "to"),
    ("i", "am", "going", "to"),
    ("i", "need", "to"),
)
"""How an announcement begins."""
FILLERS = frozenset(
    ("now", "first", "next", "then", "also", "just", "quickly", "so", "ok", "okay", "great", "by", "and")
)
"""May stand before it, and between it and its verb, together with the following."""
BEGINNING = frozenset(("start", "begin", "try", "to", "go", "ahead"))
VERBS = frozenset(
    (
        "run", "read", "check", "look", "open", "search", "list", "inspect", "examine", "view", "call", "use",
        "execute", "edit", "fix", "write", "create", "update", "add", "modify", "test", "verify", "explore", "find",
        "grep", "see", "investigate", "review", "apply", "make", "implement", "build", "compile", "change", "remove",
        "delete", "rename", "move", "refactor", "install", "analyze", "analyse",
    )
)  # fmt: skip
ACTING = frozenset(("calling", "using", "running", "reading", "checking", "opening", "searching", "executing"))
"""An announcement by itself, where what follows is missing: "Running the tests:"."""
OFFERS = ("if you", "would you", "let me know", "you can", "you could", "do you", "feel free")


class Announced:
    def __init__(self, settings: AnnouncedGuard) -> None:
        self._settings = settings
        self._row = 0
        self._could_act = True

    def judge(self, fact: Fact) -> Sequence[Judgement]:
        match fact:
            case StepStarted():
                self._could_act = fact.tools_offered and fact.mode != "plan" and not fact.next_mode
                return ()
            case ModelReplied():
                return self._replied(fact)
            case _:
                return ()

    def _replied(self, fact: ModelReplied) -> Sequence[Judgement]:
        announced = "" if fact.message.calls else _announced(fact)
        if not announced or not self._could_act:
            self._row = 0
            return ()
        self._row += 1
        why = f"announced and not done: {announced}"
        evidence: Detail = {"in_a_row": self._row, "announced": announced}
        if self._row > self._settings.nudges:
            said = wording.said(NAME, wording.announced_for_nothing(self._row))
            return [ForceAnswer(guard=NAME, why=why, said=said, evidence=evidence)]
        words = wording.CALL_AGAIN if fact.verdict == "malformed_call" else wording.DO_IT
        return [Nudge(guard=NAME, why=why, said=wording.said(NAME, words), evidence=evidence)]


def _announced(fact: ModelReplied) -> str:
    match fact.verdict:
        case "complete":
            return announcement(fact.message.text)
        case "malformed_call":
            return "a tool call that the provider could not make out"
        case _:
            return ""


def announcement(text: str) -> str:
    """The last sentence, if it announces an act; else nothing."""
    sentence = _last_sentence(text)
    plain = sentence.lower().replace("’", "'")
    if "?" in plain or any(offer in plain for offer in OFFERS):
        return ""
    words = _after(FILLERS, [word.strip(".,:;!…*_`#-") for word in plain.split()])
    if words and words[0] in ACTING:
        return sentence if sentence.endswith((":", "...", "…")) else ""
    opener = next((each for each in OPENERS if tuple(words[: len(each)]) == each), None)
    if opener is None:
        return ""
    verb = next(iter(_after(FILLERS | BEGINNING, words[len(opener) :])), "")
    return sentence if verb in VERBS or (verb.endswith("ing") and _stems(verb) & VERBS) else ""


def _after(skipped: frozenset[str], words: list[str]) -> list[str]:
    at = next((at for at, word in enumerate(words) if word and word not in skipped), len(words))
    return words[at:]


def _stems(verb: str) -> frozenset[str]:
    """Of "reading", "running" and "writing"."""
    stem = verb.removesuffix("ing")
    return frozenset((stem, stem[:-1], f"{stem}e"))


def _last_sentence(text: str) -> str:
    tail = text[-SENTENCE_MAX:].strip()
    line = tail.rsplit("\n", 1)[-1].strip()
    if line[:1].isdigit() or line.startswith(("- ", "* ")):
        return ""  # an item of a list is a plan
    body = line.rstrip(".!:… ")
    starts = [body.rfind(mark) + len(mark) for mark in (". ", "! ", "? ", "; ") if mark in body]
    return line[max(starts, default=0) :].strip()
