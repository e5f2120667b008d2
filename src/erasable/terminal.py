"""Text from outside on a terminal: shown, never obeyed."""

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Kinds of characters that a terminal obeys, or does not show: controls, directions, no-breaks."""


def printable(text: str) -> str:
    r"""Return text with everything that is no visible character written as an escape.

    Escape sequences, line breaks, and characters that change the direction of writing could
    otherwise hide what is there, or show what is not.

    Examples:
        >>> printable("a\x1b[2Jb\n"), printable("abc\u202e"), printable("Zo\u00e9 ✓")
        ('a\\x1b[2Jb\\n', 'abc\\u202e', 'Zoé ✓')
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()


def in_page(value: object) -> object:
    """Return a value as a page of HTML shows it; for jinja2's ``finalize``.

    Escaping keeps text from being markup; this keeps it from hiding or turning round what it says.
    """
    return printable_lines(value) if type(value) is str else value  # not of what is markup already


def printable_lines(text: str) -> str:
    """Return text of several lines with everything but its line breaks written as `printable`."""
    return "\n".join(map(printable, text.split("\n")))
