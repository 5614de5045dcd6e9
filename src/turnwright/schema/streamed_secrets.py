"""Masking what comes piece by piece: a key that is cut in two is still a key. What may be the beginning of one is held
back until the next piece tells; everything else is passed on at once."""

from __future__ import annotations

from turnwright.schema.masking import KEY_PREFIXES, Masker

HELD_CHARS_MAX = 1024
"""Of a word without an end. Longer ones are let go piece by piece, their last characters held."""
CONTEXT_CHARS = 64
"""What was passed on last, where it may say what the next word is: `Authorization: Bearer`."""
ENCODED_CHARS_MIN = 16
"""A word as long as this may be an encoded key, whatever it begins with."""
_PREFIX_CHARS = 8


class Beginnings:
    """How anything that is masked may begin. Made once for all the streams of a masker."""

    def __init__(self, masker: Masker) -> None:
        self.masker = masker
        wholes = (*masker.spellings, *KEY_PREFIXES)
        self.prefixes = {whole[:end] for whole in wholes for end in range(1, min(len(whole), _PREFIX_CHARS) + 1)}
        self.spaced = any(" " in whole or "\n" in whole for whole in wholes)
        self.longest = max(map(len, wholes), default=0)


class StreamMasker:
    """One stream: `feed` what comes, show what it gives; `end` gives what was still held."""

    __slots__ = ("_beginnings", "_held", "_prefixes", "_recent", "_run")

    def __init__(self, beginnings: Beginnings) -> None:
        self._beginnings = beginnings
        self._prefixes = beginnings.prefixes
        self._held = ""
        self._recent: list[str] = []
        """The last that was shown."""
        self._run = 0
        """How many characters of the last word were."""

    def feed(self, text: str) -> str:
        """Every word that is ever said passes here."""
        if not self._held and (cut := text.rfind(" ") + 1) < 2:
            last = text[cut:]
            run = len(last) if cut else self._run + len(last)
            # A word of letters that begins like no key.
            if run < ENCODED_CHARS_MIN and last.isalpha() and last[:_PREFIX_CHARS] not in self._prefixes:
                self._run = run
                self._recent.append(text)
                if len(self._recent) > 4 * CONTEXT_CHARS:
                    del self._recent[:-CONTEXT_CHARS]
                return text
        text = self._held + text
        word = max(text.rfind(" "), text.rfind("\n"), text.rfind("\t")) + 1
        begins = self._beginning(text, word)
        self._held = text[begins:]
        self._run = max(0, begins - word) if word else self._run + begins
        return self._shown(text[:begins])

    def end(self) -> str:
        held, self._held, self._run = self._held, "", 0
        return self._shown(held)

    def _beginning(self, text: str, word: int) -> int:
        """Where what has to be held begins."""
        beginnings = self._beginnings
        oldest = max(0, len(text) - max(beginnings.longest, HELD_CHARS_MAX))
        if len(text) - word + (0 if word else self._run) >= ENCODED_CHARS_MIN:
            return max(word, oldest)
        begins = max(oldest, len(text) - beginnings.longest) if beginnings.spaced else max(word, oldest)
        for at in range(begins, len(text)):
            if text[at : at + _PREFIX_CHARS] in self._prefixes:
                return at
        return len(text)

    def _shown(self, text: str) -> str:
        """Masked where it stands: what was shown before may say what it is, or be the beginning of it."""
        if not text:
            return ""
        before = "".join(self._recent[-CONTEXT_CHARS:])[-CONTEXT_CHARS:]
        shown = self._beginnings.masker(before + text)
        same = len(before) if shown.startswith(before) else _alike(before, shown)
        self._recent = [shown[-CONTEXT_CHARS:]]
        return shown[same:]


def _alike(before: str, shown: str) -> int:
    """How many characters both begin with."""
    for at, (one, other) in enumerate(zip(before, shown, strict=False)):
        if one != other:
            return at
    return min(len(before), len(shown))
