"""Makes text from traces safe to print, and formats numbers."""

import re
import shlex
import unicodedata
from collections.abc import Iterable
from itertools import groupby

# Control characters, line ends, marks of annotations, and invisible characters, which include those
# that change the direction of text: Unicode's property Default_Ignorable_Code_Point.
# https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb"
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Parts of a URL that may be secret: user and password (where a / may be unescaped), and the query
# of a signed URL. A path may have one / instead of two, and part of a URL may lack the scheme.
_SCHEME = r"\w\w:/{1,2}|//"
_USER = re.compile(rf"({_SCHEME})([^/\s]*|[^/\s:]+:(?!\d+/)[^\s@]*)@")
_QUERY = re.compile(rf"((?:{_SCHEME})[^\s'\"?#]*)[?#][^\s'\"]*")
# Units of times and sizes, with the power of ten between each unit and the one before.
TIMES = (("s", 9), ("ms", 6), ("us", 3), ("ns", 0))
SIZES = (("TB", 12), ("GB", 9), ("MB", 6), ("kB", 3), ("B", 0))
# Letters in some scripts carry three marks. Many more would cover the lines above.
_MOST_MARKS = 4


def shown(text: object) -> str:
    """The text with possible secrets (users, passwords and queries) removed from its URLs.

    All errors and all printed lines pass through it.
    """
    return _QUERY.sub(r"\1", _USER.sub(r"\1", str(text)))


def printable(text: object) -> str:
    """`text` without characters that could control a terminal or cover other lines."""
    clean = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", str(text))
    return clean if clean.isascii() else _unstacked(clean)


def as_operand(path: object) -> str:
    """A path as an argument that no command mistakes for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def quoted(path: object) -> str:
    """A path quoted for a shell and made printable."""
    return shlex.quote(printable(as_operand(path)))


def printable_lines(text: str) -> str:
    """Several lines made printable, with their line ends and tabs."""
    parts = re.split("([\n\t])", text)
    parts[::2] = map(printable, parts[::2])
    return "".join(parts)


def _unstacked(text: str) -> str:
    runs = groupby(text, lambda letter: unicodedata.category(letter) in ("Mn", "Me"))
    return "".join("".join(run)[: _MOST_MARKS if are_marks else None] for are_marks, run in runs)


def duration(ns: int | float | None) -> str:
    """Nanoseconds in a readable unit: 1,760 -> '1.76 us'; '-' for None."""
    if ns is None:
        return "-"
    for unit, power in TIMES[:-1]:
        if _rounded(ns) >= (one := 10.0**power):
            return f"{ns / one:.3g} {unit}" if abs(ns) < 1e3 * one else f"{ns / one:,.0f} {unit}"
    return f"{ns:.0f} ns"


def _rounded(number: float) -> float:
    """A number rounded to three digits: 999,600 is shown as 1,000,000."""
    return abs(float(f"{number:.3g}"))


def of_whole(part_ns: int, whole_ns: int) -> str:
    """A part of a time: '2.06 of 4.43 ms', or '715 us of 35.2 ms' where the units differ."""
    part, whole = duration(part_ns), duration(whole_ns)
    number, _, unit = part.partition(" ")
    return f"{number if whole.endswith(f' {unit}') else part} of {whole}"


def most_of_whole(part_ns: int, whole_ns: int) -> str:
    """A part of a time that takes up to all of it: "31.8 of 35.2 ms", or "all of 1.52 s" if three
    digits show no difference."""
    whole = duration(whole_ns)
    return f"all of {whole}" if duration(part_ns) == whole else of_whole(part_ns, whole_ns)


def between(least_ns: int, most_ns: int) -> str:
    """A range of times: '115 to 157 ms', or '715 us to 1.2 ms' where the units differ."""
    least, _, unit = duration(least_ns).partition(" ")
    most = duration(most_ns)
    return f"{least if most.endswith(f' {unit}') else f'{least} {unit}'} to {most}"


def signed(ns: int) -> str:
    """A change of nanoseconds with its sign: 1,760 -> '+1.76 us'."""
    return ("+" if ns > 0 else "") + duration(ns)


def size(n_bytes: int | float | None) -> str:
    """Bytes in a readable decimal unit: 2,048 -> '2.05 kB'; '-' for None."""
    if n_bytes is None:
        return "-"
    for unit, power in SIZES[:-1]:
        if _rounded(n_bytes) >= (one := 10.0**power):
            return f"{n_bytes / one:.3g} {unit}"
    return f"{n_bytes:.0f} B"


def figure_of(value: int | None, column: str) -> str:
    """A number in the unit that its column's name gives: a time, a size, or a count."""
    if column.endswith("_ns"):
        return duration(value)
    if column.endswith("_bytes"):
        return size(value)
    return "-" if value is None else f"{value:,}"


def signed_figure(value: int | None, column: str) -> str:
    """A change in the unit that its column's name gives, with its sign."""
    return ("+" if value and value > 0 else "") + figure_of(value, column)


def suggestion(word: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown word: "; did you mean 'x'?". Empty if no known word is
    similar."""
    from difflib import get_close_matches

    similar = get_close_matches(word, known, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""


def ended(sentence: str) -> str:
    """A sentence with a period, unless it already ends with punctuation."""
    return sentence if sentence.endswith((".", "?")) else f"{sentence}."


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number with its noun: 1, 'call' -> '1 call'; 2,000 -> '2,000 calls'."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def share(part: int | float, whole: int | float) -> str:
    """`part` as a percentage of `whole`, such as '12.5 %'; '-' when `whole` is 0."""
    if not whole:
        return "-"
    percentage = 100 * part / whole
    if 0 < percentage < 0.05:
        return "<0.1 %"
    return f"{0.0 if abs(percentage) < 0.05 else percentage:.1f} %"


def percent(fraction: float | None) -> str:
    """A fraction as a percentage; '-' for None (a fraction of nothing)."""
    return "-" if fraction is None else share(fraction, 1)


def shortened(name: str, most: int) -> str:
    """A name of at most this many letters; what is left out shows as dots in its middle."""
    if len(name) <= most:
        return name
    end = most // 3
    return f"{name[: most - end - 3]}...{name[-end:]}"


def lowered(sentence: str) -> str:
    """A sentence as it appears inside another one."""
    plain = sentence.rstrip(".")
    return plain if plain[:2].isupper() else plain[:1].lower() + plain[1:]
