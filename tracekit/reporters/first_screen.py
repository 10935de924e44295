"""The verdict on one screen: at most 24 lines of 80 columns. `analyze --full` prints the rest."""

from __future__ import annotations

from pathlib import PurePath
from textwrap import wrap

from rich.text import Text

from tracekit.advice.model import Advice
from tracekit.reporters import colours
from tracekit.reporters.parts import devices_of, is_of_recording, screen_parts_of
from tracekit.reporters.terminal import clipped, console
from tracekit.text import duration, printable, share
from tracekit.verdict.model import Analysis

LINES, WIDTH = 24, 80
# Rows of the window's parts, and of a bar's full length.
_PARTS, _BAR = 5, 24
_NAME, _PLACE = 22, 74
_MORE = "More: analyze --full, advise, report, whatif; see tracekit --help"


def render(analysis: Analysis) -> None:
    """Prints one analysis."""
    out = console()
    head, parts, end = _head(analysis), _parts(analysis), _doubts(analysis)
    free = LINES - len(head) - len(parts) - len(end) - 1
    for line in [*head, *parts, *_advice(analysis, free), *end, Text(_MORE, "dim")]:
        out.print(line, no_wrap=True, overflow="ellipsis")


def _head(analysis: Analysis) -> list[Text]:
    verdict, trace, window = analysis.verdict, analysis.trace, analysis.judged.window
    # "Compute-bound" would not be true of a run that waits for other ranks.
    moves = verdict.bottleneck in ("communication", "copy")
    regime = Text("bound" if moves else verdict.regime, colours.of(verdict.regime))
    if verdict.bottleneck:
        regime.append(f" by {verdict.bottleneck}; confidence {verdict.confidence}", "default")
    named = [PurePath(printable(trace.path)).name + ":", printable(devices_of(analysis))]
    if trace.rank is not None:
        named.append(f"rank {trace.rank} of {trace.world_size or '?'}")
    steps = len(analysis.steps)
    length = duration(window.span_ns)
    if window.kind == "step":
        told = f"1 step of {length}" if steps == 1 else f"{steps} steps, the median {length}"
    else:
        told = f"{printable(window.name)} {length}"
    line = f"{' '.join(named[:2])}, {', '.join([*named[2:], f'{trace.events:,} events', told])}"
    said = [Text(each, "bold") for each in wrap(printable(verdict.headline), WIDTH)]
    return [*said[:4], regime, Text(clipped(line, WIDTH), "dim")]


def _parts(analysis: Analysis) -> list[Text]:
    """The longest parts of the window; they and the rest add up to it."""
    window = analysis.judged.window
    parts = screen_parts_of(analysis)
    if not parts or not window.span_ns:
        return []
    whole = "step" if window.kind == "step" else "window" if window.kind != "range" else "range"
    most = sorted(parts, key=lambda part: -part.ns)
    rest_ns = sum(part.ns for part in most[_PARTS:])
    rows = [(part.name, part.kind, part.ns) for part in most[:_PARTS]]
    if rest_ns:
        rows.append(("rest", "unknown", rest_ns))
    lines = [Text(), Text(f"Where the {whole}'s {duration(window.span_ns)} went", "bold")]
    for name, kind, ns in rows:
        of = share(ns, window.span_ns)
        line = Text(f"{clipped(name, _NAME):<{_NAME}} {duration(ns):>8} {of:>7}  ")
        line.append("█" * round(_BAR * ns / window.span_ns), colours.of(kind))
        lines.append(line)
    return lines


def _advice(analysis: Analysis, free: int) -> list[Text]:
    """What to change: a line for each, and where there is room a line with its place."""
    shown = [each for each in analysis.advice if not is_of_recording(each)]
    recurring = [each for each in shown if not each.once]
    listed = recurring or shown
    if not listed or free < 3:
        return [] if free < 3 else _next(analysis, free)
    of = "the step" if analysis.judged.window.kind == "step" else "the window"
    heading = "What to change" if recurring else "What happened once"
    lines = [Text(), Text(f"{heading:<52} {'saves':>8} {'of ' + of:>15}", "bold")]
    for number, each in enumerate(listed, 1):
        room = free - len(lines)
        place = _place(each)
        if room < 1 + bool(place) or number > 5:
            break
        part = "once" if each.share is None else share(each.saves_ns, _whole(analysis))
        title = clipped(f"{number} {each.title}", 52)
        lines.append(Text(f"{title:<52} {duration(each.saves_ns):>8} {part:>15}"))
        if place:
            lines.append(Text(f"    {place}", "dim"))
    return lines


def _whole(analysis: Analysis) -> int:
    """What advice's shares are of: the window without one-offs."""
    gains = analysis.judged.gains
    return gains.window_ns if gains is not None else analysis.judged.window.span_ns


def _next(analysis: Analysis, free: int) -> list[Text]:
    lines = [Text(), Text("What to try next", "bold")] if analysis.verdict.try_next else []
    for sentence in analysis.verdict.try_next:
        said = wrap(printable(sentence), WIDTH)
        if len(lines) + len(said) > free:
            break
        lines += [Text(each) for each in said]
    return lines


def _place(advice: Advice) -> str:
    text = ", ".join(printable(each) for each in (advice.where, advice.detail) if each)
    return text if len(text) <= _PLACE else "..." + text[3 - _PLACE :]


def _doubts(analysis: Analysis) -> list[Text]:
    headline = analysis.verdict.headline
    doubts = [each for each in analysis.verdict.doubts if each not in headline]
    if not doubts:
        return [Text()]
    more = f" ({len(doubts) - 1} more)" if len(doubts) > 1 else ""
    said = wrap(f"Doubtful: {printable(doubts[0])}{more}", WIDTH)
    return [Text(), *(Text(each) for each in said[:2])]
