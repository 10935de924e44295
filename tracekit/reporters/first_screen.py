"""The verdict on one screen: at most 32 lines of 80 columns. `analyze --full` prints the rest.

The words are those of tracekit/verdict/screen.py and of the verdict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import PurePath
from textwrap import shorten, wrap

from rich.text import Text

from tracekit.advice.model import Advice, misses, remedy_of
from tracekit.evidence.memory import MemorySite
from tracekit.evidence.model import forbids_verdicts, is_snapshot
from tracekit.reporters import colors
from tracekit.reporters.parts import (
    ONCE,
    THROUGHPUT,
    best_of,
    bound_text,
    devices_of,
    is_of_recording,
    lists_of,
    next_of,
    shares_of,
)
from tracekit.reporters.terminal import AUTOGRAD, console, fitted
from tracekit.text import counted, duration, lowered, percent, printable, share, size
from tracekit.verdict import screen
from tracekit.verdict.memory import UNRECORDED, UNTOLD, site_name
from tracekit.verdict.model import Analysis, Happened
from tracekit.verdict.regime import UNKNOWN

LINES, WIDTH = 32, 80
# From this width on, kernels stand beside the parts of the window, from a column on; what is wider
# than the widest stays empty.
_WIDE, _COLUMN, _WIDEST = 110, 64, 140
# Rows of the window's parts, and of a bar's full length, alone and beside kernels.
_PARTS, _BAR, _SHORT_BAR = 5, 24, 12
# Columns of a part's name, of a change, of its place, of its share and effort, of a one-off event,
# of a kernel's figures, and of what it achieves.
_NAME, _TITLE, _PLACE, _SHARE, _EFFORT, _EVENT = 30, 45, 76, 16, 7, 61
_KERNEL, _ACHIEVED = 30, 20
# The most kernels.
_KERNELS = 3
# Columns before a line's words, and the most lines of what is said beside the sentence.
_LABEL, _NOTES, _DOUBTS = 7, 4, 2
# The most recurring changes, those that come before details, changes against one-offs, and one-off
# events; the lines that one event takes, and those that are left for events below changes.
_CHANGES, _FIRST, _ONCE, _EVENTS, _FEWEST, _RESERVED = 5, 3, 2, 4, 3, 5
# Columns of what held memory; the most roles, call sites of a role where roles are few, and growing
# sites.
_HELD, _ROLES, _FEW_ROLES, _PLACES, _ROWS_OF_GROWTH = 63, 6, 3, 3, 2
_WITH_UNIT = re.compile(r"(?<=\d) (?=[munkMGT]?(?:s|B|B/s)\b|%)")
_ONE_OFFS = "What happened once, in the whole trace"
_MORE = "More: analyze --full, advise, report, whatif; see tracekit --help"
_MORE_OF_MEMORY = "More: report, query, diff; see tracekit --help"


def render(analysis: Analysis) -> None:
    """Prints one analysis."""
    out = console(is_wide=True)
    head, end = _head(analysis), _doubts(analysis)
    beside = min(out.width, _WIDEST) - _COLUMN if out.width >= _WIDE else 0
    account = _parts(analysis, _SHORT_BAR if beside else _BAR, is_narrow=out.width < WIDTH)
    others = [*_facts(screen.sides(analysis)), *_memory(analysis)]
    taken = len(head) + len(account) + len(others) + len(end) + 1
    # The first change comes before the last kernels.
    most = _KERNELS if beside else LINES - taken - _needed(analysis) - 1
    kernels = _kernels(analysis, beside or WIDTH, max(1, min(_KERNELS, most)))
    parts = [*_beside(account, kernels, bool(beside)), *others]
    free = LINES - len(head) - len(parts) - len(end) - 1
    hint = Text(_MORE_OF_MEMORY if is_snapshot(analysis.trace.health) else _MORE, "dim")
    changes = _advice(analysis, free)
    for line in [*head, *parts, *changes, *end, hint]:
        # On a narrower terminal, columns are closer together, and only bars are cut off.
        if line.cell_len <= out.width or line.plain.endswith("█"):
            out.print(line, no_wrap=True, overflow="crop")
        else:
            for each in _narrow(line, out.width):
                out.print(each)


def _narrow(line: Text, width: int) -> list[Text]:
    """A line with two spaces between columns, wrapped, but not between a number and its unit."""
    indent = " " * (len(line.plain) - len(line.plain.lstrip()))
    columns = [each.strip(" ") for each in line.plain.split("  ")]
    joined = _WITH_UNIT.sub("\N{NO-BREAK SPACE}", "  ".join(filter(None, columns)))
    lines = wrap(joined, width, initial_indent=indent, subsequent_indent=indent + "  ")
    return [Text(each.replace("\N{NO-BREAK SPACE}", " "), line.style) for each in lines]


def _head(analysis: Analysis) -> list[Text]:
    verdict = analysis.verdict
    regime = bound_text(verdict)
    if verdict.bottleneck:
        regime.append(f"; confidence {verdict.confidence}", "default")
    said = [Text(each, "bold") for each in _wrapped(verdict.headline)]
    notes = [line for note in verdict.notes for line in _wrapped(note)][:_NOTES]
    about = [Text(each, "dim") for each in _wrapped(_traced(analysis))]
    return [
        *said,
        # A snapshot tells nothing of time.
        *([] if analysis.memory else [regime]),
        *map(Text, notes),
        *about,
        *_facts(screen.head(analysis)),
    ]


def _wrapped(sentence: str, width: int = WIDTH) -> list[str]:
    return wrap(printable(sentence), width, break_on_hyphens=False)


def _facts(facts: screen.Facts) -> list[Text]:
    """Sentences below each other, beside their label."""
    lines = []
    for label, sentences in facts:
        for each in (line for text in sentences for line in _wrapped(text, WIDTH - _LABEL)):
            lines.append(Text(f"{label:<{_LABEL}}", "dim").append(each, "default"))
            label = ""
    return lines


def _kernels(analysis: Analysis, width: int, most: int) -> list[Text]:
    """The kernels with the most time, with their share of the time of all."""
    rows = screen.kernels(analysis, most)
    if not rows or analysis.gpu is None or forbids_verdicts(analysis.trace.health):
        return []
    counts = width >= WIDTH
    room = width - _KERNEL - 8 * counts
    of_limit = "achieved, of limit" if any(row.achieved for row in rows) else ""
    heading = f"{'Top kernels':<{room}} {'count ' * counts:>{8 * counts}}{'time':>7}"
    lines = [Text(f"{heading} {of_limit:>{_ACHIEVED}}".rstrip(), "bold")]
    for row in rows:
        count = f"{row.count:>7,} " if counts else ""
        figures = f"{count}{percent(row.share):>7} {row.achieved:>{_ACHIEVED}}"
        lines.append(Text(f"{fitted(row.name, room):<{room}} {figures}".rstrip()))
    return lines


def _beside(left: list[Text], right: list[Text], is_wide: bool) -> list[Text]:
    """Two blocks of lines, beside each other or below each other."""
    if not left or not right or not is_wide:
        return [*left, *right]
    lines = []
    for one, other in zip_longest(left, [Text(), *right], fillvalue=Text()):
        line = one.copy()
        line.append(" " * (_COLUMN - line.cell_len))
        lines.append(line.append_text(other))
    return lines


def _traced(analysis: Analysis) -> str:
    """The file, what plugins did to it, its devices, its rank, and its number of events."""
    trace = analysis.trace
    rank = [] if trace.rank is None else [f"rank {trace.rank} of {trace.world_size or '?'}"]
    plugged = [
        printable(finding.message) for finding in trace.health if finding.code.startswith("plugin_")
    ]
    file = ", ".join([PurePath(printable(trace.path)).name, *plugged])
    events = counted(trace.events, "event")
    whole = f"{file}: {', '.join([printable(devices_of(analysis)), *rank, events])}"
    return whole if len(whole) <= WIDTH else whole.removesuffix(f", {events}")


def _parts(analysis: Analysis, bar: int, *, is_narrow: bool) -> list[Text]:
    """The longest parts of the window; they and the rest add up to it."""
    window = analysis.judged.window
    parts = analysis.parts
    if not parts or not window.span_ns:
        return []
    whole = "step" if window.kind == "step" else "window" if window.kind != "range" else "range"
    most = sorted(parts, key=lambda part: -part.dur_ns)
    least_ns = analysis.thresholds.named_gain * window.span_ns
    # One small part has its own line, several are the rest.
    shown = max(1, sum(part.dur_ns >= least_ns for part in most))
    shown = min(_PARTS, shown + (len(most) == shown + 1))
    rest_ns = sum(part.dur_ns for part in most[shown:])
    rows = [(part.name, part.kind, part.dur_ns) for part in most[:shown]]
    if rest_ns:
        rows.append(("rest", "unknown", rest_ns))
    width = max(len(name) for name, *_ in rows) if is_narrow else _NAME
    lines = [Text(), Text(f"Where the {whole}'s {duration(window.span_ns)} went", "bold")]
    for name, kind, ns in rows:
        of = share(ns, window.span_ns)
        line = Text(f"{name:<{width}} {duration(ns):>8} {of:>7}  ")
        line.append("█" * round(bar * ns / window.span_ns), colors.of(kind))
        lines.append(line)
    return lines


def _memory(analysis: Analysis) -> list[Text]:
    """What held the memory of a snapshot, by role and call site; the rows without indent add up to
    the peak. And what grows."""
    memory = analysis.memory
    if memory is None:
        return []
    whole, least = memory.peak_bytes, analysis.thresholds.named_gain * memory.peak_bytes
    held = f"What held the peak's {size(whole)}"
    if not memory.is_recorded:
        held = f"What held {size(whole)} when the snapshot was taken"
    lines = [Text(), Text(f"{held:<{_HELD}} {'bytes':>8} {'share':>7}", "bold")]
    few = len(memory.roles) <= _FEW_ROLES
    for role in memory.roles[:_ROLES]:
        sites = [site for site in memory.sites if site.role == role.role]
        reasons = {site.evidence for site in sites} if role.role == UNTOLD else set()
        why = f": {reasons.pop()}" if len(reasons) == 1 else ""
        lines.append(_held_row(f"{role.role}{why}", role.live_bytes, whole))
        for site in sites[: _PLACES if few else 1]:
            if site.live_bytes >= least and not (why and site.place == UNRECORDED):
                text = _site_text(site, bool(reasons))
                lines.append(_held_row(f"  {text}", site.live_bytes, whole, "dim"))
    rest = sum(role.live_bytes for role in memory.roles[_ROLES:])
    if rest:
        lines.append(_held_row("rest", rest, whole))
    if memory.growth:
        lines += [Text(), Text(f"{'What is never freed':<{_HELD}} {'bytes':>8}", "bold")]
    for each in memory.growth[:_ROWS_OF_GROWTH]:
        name = f"{each.allocations:,} x {site_name(each.place)}, over {each.passes:,} passes"
        lines.append(Text(f"{fitted(printable(name), _HELD):<{_HELD}} {size(each.live_bytes):>8}"))
    return lines


def _held_row(name: str, held: int, whole: int, style: str = "default") -> Text:
    named = fitted(printable(name), _HELD)
    return Text(f"{named:<{_HELD}} {size(held):>8} {share(held, whole):>7}", style)


def _site_text(site: MemorySite, says_why: bool) -> str:
    """A call site with its operator, and with why its role is not known."""
    operator = f", {site.cpu_op}" if site.cpu_op and site.cpu_op != site.place else ""
    named = f"{site_name(site.place)}{operator}"
    if not says_why:
        return named
    return site.evidence if site.place == UNRECORDED else f"{named}: {site.evidence}"


def _advice(analysis: Analysis, free: int) -> list[Text]:
    """What to change: a line for each change and, if there is room, a line with its place. One-off
    events that take much of the trace are listed, before changes that save less; otherwise advice
    on one-offs is shown only if it comes first."""
    if forbids_verdicts(analysis.trace.health):
        # What takes long in such a file means nothing.
        return _next(analysis, free)
    lists = lists_of(analysis.advice, "What to change, each alone")
    once = dict(lists).get(ONCE, [])
    lines: list[Text] = []
    if happened := analysis.happened:
        lists = [(heading, fixes) for heading, fixes in lists if heading != ONCE]
        best = best_of(analysis.advice)
        if analysis.verdict.regime != UNKNOWN and (
            best is None or happened.share >= (best.share or 0.0)
        ):
            # Whatever the first sentence says, the change that saves most has its lines.
            needed = 2 + len(_titled(1, best)) if best else 0
            shown = _happened(analysis, happened, once, free - needed)
            return [*shown, *_changes(analysis, lists, [], free - len(shown))]
        lines = _changes(analysis, lists, [], free - _RESERVED)
        lines = lines or _changes(analysis, lists, [], free)
        return [*lines, *_happened(analysis, happened, once, free - len(lines))]
    return _changes(analysis, lists, once, free)


def _needed(analysis: Analysis) -> int:
    """The lines that the first change needs; 0: there is none."""
    first = best_of([each for each in analysis.advice if not is_of_recording(each)])
    if first is None or forbids_verdicts(analysis.trace.health):
        return 0
    return 2 + len(_titled(1, first)) + int(remedy_of(first).is_by_place)


def _happened(
    analysis: Analysis, happened: Happened, once: Sequence[Advice], free: int
) -> list[Text]:
    """The longest one-offs: what, how much each adds, and when; and what to do against them."""
    slow = {one_off.name for one_off in analysis.one_offs if one_off.kind == "step"}
    often = "once" if len(slow) < 2 else f"once, or in {len(slow)} of {len(analysis.steps)} steps"
    heading = f"What happened {often}: {percent(happened.share)} of the trace"
    lines = [Text(), Text(f"{heading:<{_EVENT}} {'adds':>8} {'begins':>9}", "bold")]
    left_ns, thresholds = happened.adds_ns, analysis.thresholds
    # The few that explain most of it, and the rest.
    enough_ns, small_ns = (
        (1 - thresholds.told_share) * left_ns,
        thresholds.named_gain * happened.trace_ns,
    )
    titles = "; ".join(lowered(printable(each.title)) for each in once[:_ONCE])
    against = wrap(f"    against it: {titles}", WIDTH, subsequent_indent="    ") if titles else []
    # What happened comes before what to do.
    against = against if _FEWEST + len(against) <= free else []
    for event in happened.events[:_EVENTS]:
        name, inside = printable(event.name), printable(event.inside)
        what, more = ": ".join(filter(None, (name, inside))), []
        if len(what) > _EVENT:
            # The parts inside come longest first: the first ones are named, if one fits.
            head = fitted(name, _EVENT)
            what = shorten(what, _EVENT, placeholder=" and more")
            if len(what) <= len(f"{head}: and more"):
                what, more = head, [f"    {fitted(inside, _PLACE)}"] if inside else []
        if left_ns <= enough_ns or len(lines) + 1 + len(against) > free:
            break
        # What the device worked through adds nothing.
        ns = min(event.adds_ns, left_ns)
        begins = duration(event.begins_ns) if event.begins_ns else "at start"
        lines.append(Text(f"{what:<{_EVENT}} {duration(ns):>8} {begins:>9}"))
        # What to do matters more than what was inside.
        if len(lines) + len(more) + len(against) < free:
            lines += [Text(each, "dim") for each in more]
        left_ns -= ns
    if left_ns >= small_ns and len(lines) + len(against) < free:
        lines.append(Text(f"{'rest':<{_EVENT}} {duration(left_ns):>8}"))
    lines += [Text(each, "dim") for each in against]
    return lines if len(lines) >= _FEWEST else []


def _changes(
    analysis: Analysis, lists: list[tuple[str, list[Advice]]], once: Sequence[Advice], free: int
) -> list[Text]:
    lines: list[Text] = []
    is_unsure = analysis.verdict.regime == UNKNOWN or analysis.gpu is None
    if not lists or (len(lists) == 1 and once and is_unsure):
        # If the trace does not show what holds the run up, advice on recording comes first.
        lines = _next(analysis, free) if free > 2 else []
    for place, (heading, advice) in enumerate(lists):
        left = free - len(lines)
        if left < 3 or (heading == ONCE and place):
            continue
        if heading == ONCE:
            most = _ONCE if len(lists) > 1 else _CHANGES
            shown = _listed(_ONE_OFFS, None, once[:most], analysis, left)
        else:
            named = heading.partition(" (")[0]
            of, listed = _denominator(analysis), advice[:_CHANGES]
            total = int(heading != THROUGHPUT and bool(screen.together(analysis)))
            shown = _listed(named, of, listed, analysis, left - total)
            if shown and total:
                shown += _together(analysis, sum(line.plain[:1].isdigit() for line in shown))
            shown = shown or _listed(named, of, listed, analysis, left)
        # The next list is worth less: it does not stand in for one without room.
        if not shown:
            break
        lines += shown
    recurring = [fix for heading, advice in lists if heading != ONCE for fix in advice]
    bottleneck, least = analysis.verdict.bottleneck, analysis.thresholds.small_gain
    if recurring and (
        all(misses(each, bottleneck) for each in recurring)
        or all((each.share or 0.0) < least for each in recurring)
    ):
        # None of them is against what the first sentence names, or all of them save little.
        lines += _next(analysis, free - len(lines))
    return lines


def _listed(
    heading: str, of: str | None, advice: Sequence[Advice], analysis: Analysis, free: int
) -> list[Text]:
    """The changes that fit, with what their shares are of; None: no denominator."""
    columns = f"{'saves':>9} {of or '':>{_SHARE}} {'effort':>{_EFFORT}}"
    lines = [Text(), Text(f"{heading:<{_TITLE}} {columns}", "bold")]
    changes: list[tuple[list[Text], list[Text]]] = []
    for number, each in enumerate(advice, 1):
        title, *more = _titled(number, each)
        part = "" if each.share is None else percent(each.share)
        figures = f"{duration(each.saves_ns):>9} {part:>{_SHARE}} {each.effort:>{_EFFORT}}"
        change = [Text(f"{title:<{_TITLE}} {figures}"), *(Text(line) for line in more)]
        place = [Text(f"    {line}", "dim") for line in _place(each)]
        # One of several places says nothing without its name.
        named = int(remedy_of(each).is_by_place)
        changes.append((change + place[:named], place[named:]))
    if changes and len(lines) + len(changes[0][0]) > free:
        changes[0] = (changes[0][0][: len(_titled(1, advice[0]))], [])
    # The first changes that save much have their lines before any of them has its details.
    small = analysis.thresholds.small_gain
    much = sum((fix.share or 0.0) >= small for fix in advice[:_FIRST])
    while len(lines) + sum(len(change) for change, _ in changes[:much]) > free:
        much -= 1
    for number, (change, place) in enumerate(changes, 1):
        if len(lines) + len(change) > free:
            break
        lines += change
        later = sum(len(each) for each, _ in changes[number:much])
        lines += place[: free - len(lines) - later]
    return lines if len(lines) > 2 else []


def _denominator(analysis: Analysis) -> str:
    """What shares of changes are of, in as few words as fit."""
    of = shares_of(analysis).removesuffix(" unprofiled")
    return of.replace("the step's ", "").replace("of the other", "of other")


def _together(analysis: Analysis, shown: int) -> list[Text]:
    """What the first changes save together, in the columns of the list, which shows so many."""
    ns, of_ns = analysis.together_ns, analysis.priced_ns
    if not ns or not of_ns:
        return []
    named = screen.together(analysis, shown)
    figures = f"{duration(ns):>9} {share(ns, of_ns):>{_SHARE}}"
    return [Text(f"{f'  {named} together':<{_TITLE}} {figures}")]


def _titled(number: int, advice: Advice) -> list[str]:
    return wrap(f"{number} {printable(advice.title)}", _TITLE, subsequent_indent="  ")


def _next(analysis: Analysis, free: int) -> list[Text]:
    lines = [Text(), Text("What to try next", "bold")]
    for sentence in next_of(analysis):
        wrapped = wrap(printable(sentence), WIDTH)
        if len(lines) + len(wrapped) <= free:
            lines += [Text(each) for each in wrapped]
    return lines if len(lines) > 2 else []


def _place(advice: Advice) -> list[str]:
    """Its call site, the number of others, and its detail: on one line, or on two if that is too
    long."""
    where, detail = (printable(each or "").removeprefix(AUTOGRAD) for each in (
        advice.where, advice.detail,
    ))  # fmt: skip
    others = len(advice.places) - 1
    more = f" and {counted(others, 'more place')}" if where and others > 0 else ""
    text = ", ".join(each for each in dict.fromkeys((where + more, detail)) if each)
    if len(text) <= _PLACE:
        return [text] if text else []
    first = fitted(where, _PLACE - len(more)) + more if where else ""
    return [each for each in (first, fitted(detail, _PLACE) if detail else "") if each]


def _doubts(analysis: Analysis) -> list[Text]:
    doubts, more = screen.doubts(analysis)
    if not doubts:
        return [Text()]
    others = f" ({more} more)" if more else ""
    lines = [line for each in doubts for line in _wrapped(f"Doubtful: {each}")]
    if len(lines) > _DOUBTS:
        others = f" ({more + len(doubts) - 1} more)" if len(doubts) + more > 1 else ""
        lines = _wrapped(f"Doubtful: {doubts[0]}{others}")
        return [Text(), *map(Text, lines)]
    return [Text(), *map(Text, lines[:-1]), *map(Text, _wrapped(f"{lines[-1]}{others}"))]
