"""Prints the fix list, how to apply a remedy, and the predicted gain of a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Column
from rich.text import Text

from tracekit.advice.model import Advice, AdvisedPlace, BestCombination, FixList
from tracekit.database.remedies import Remedy, marked
from tracekit.reporters.parts import WITHOUT, is_of_recording, lists_of
from tracekit.reporters.terminal import Cell, Name, clipped, console, fitted, section, table
from tracekit.text import duration, percent, printable, share

if TYPE_CHECKING:
    from tracekit.replay.whatif import RunWhatIf, StepLength, WhatIf

_SHOWN = 10
_PLACE = 60
# The column at which a piece of advice's title starts.
_INDENT = 21


def render(fixes: FixList, *, every: bool = False) -> None:
    """Prints the list: the first ten pieces of advice, or every one."""
    out = console()
    shown: list[Advice] = []
    for heading, listed in lists_of(fixes.advice, recurring(fixes)):
        section(out, heading)
        most = listed if every else listed[:_SHOWN]
        print_list(out, most)
        if len(most) < len(listed):
            out.print(f"... and {len(listed) - len(most)} more (--all)")
        shown += most
    if not shown:
        section(out, recurring(fixes))
    for note in fixes.notes:
        out.print(Text(printable(note)))
    if fixes.together:
        _together(out, fixes.together, {each.remedy for each in shown})
    _conditions(out, shown)
    recording = [fix for fix in fixes.advice if is_of_recording(fix)]
    if recording:
        section(out, "Caveats")
    for each in recording:
        taken = f"{duration(each.saves_ns)} of the window, {percent(each.share or 0)}"
        out.print(f"Recording takes {taken}: {each.detail} ({each.remedy}).")
    if fixes.unlooked:
        section(out, "Not checked")
        for group in fixes.unlooked:
            out.print(Text(f"{', '.join(group.remedies)}: {printable(group.missing)}"))


def recurring(fixes: FixList) -> str:
    """The heading of the advice on recurring work, with the denominator of its shares."""
    whole = f"{fixes.window} without {WITHOUT}: {duration(fixes.window_ns)}"
    return f"What to change ({whole} = 100 %)"


def print_list(out: Console, advice: Sequence[Advice]) -> None:
    """Prints each piece of advice: its saving and title, then its call site and requirements.
    Several call sites are shown with their own shares."""
    for number, each in enumerate(advice, 1):
        saved = "" if each.share is None else percent(each.share)
        line = Text(f"{number:>2}  {saved:>6}  {duration(each.saves_ns):>7}  ")
        line.append(each.title, "bold")
        out.print(line, no_wrap=True, overflow="ellipsis")
        room = out.width - _INDENT
        lines = [fitted(each.where, room)] if each.where and len(each.places) < 2 else []
        for place in each.places if len(each.places) > 1 else []:
            lines.append(fitted(place.where, room))
            lines.append(f"  {'; '.join([percent(place.share), *_details(place)])}")
        details = [f"{each.count:,} times"] if len(each.places) > 1 else _details(each)
        lines.append("; ".join([f"{each.remedy}, {each.effort} effort", *details]))
        for text in lines:
            out.print(Padding(Text(text, "dim"), (0, 0, 0, _INDENT), expand=False))


def _details(advice: Advice | AdvisedPlace) -> list[str]:
    details = [clipped(advice.detail, _PLACE)] if advice.detail else []
    return [*details, f"{advice.count:,} times"] if advice.count > 1 else details


def _together(out: Console, together: BestCombination, listed: Collection[str]) -> None:
    """Prints the best combination of changes. Changes that save little alone are not `listed`."""
    is_alone = len(together.additions) == 1
    section(out, "With the best of them" if is_alone else "The best of them together")
    rows: list[Sequence[Cell]] = []
    for addition in together.additions:
        after = "" if addition.remedy in listed else " (only with the others)"
        named = marked(addition.remedy) + after
        rows.append((f"+ {duration(addition.adds_ns)}", named, Name(addition.where or "")))
    share = f"{percent(together.share)} of the window"
    if is_alone:
        sentence = f"{share}; no other change adds enough to it"
    else:
        sentence = f"{duration(together.saves_ns)} in all, {share}"
    out.print(table([">", Column(no_wrap=True), ""], rows))
    out.print(sentence)
    if together.then:
        out.print(together.then)


def _conditions(out: Console, advice: Sequence[Advice]) -> None:
    """Prints each remedy's requirements, and doubts about its price."""
    first: dict[str, Advice] = {}
    for fix in advice:
        first.setdefault(fix.remedy, fix)
    if not (named := list(first.values())):
        return
    section(out, "Requirements and doubts (tracekit advise --how NAME for details)")
    doubts = Counter(doubt for each in named for doubt in each.doubts)
    shared = [doubt for doubt, count in doubts.items() if count > 1]
    for remedy in named:
        out.print(Text(f"{remedy.remedy}: {remedy.needs}"))
        for doubt in remedy.doubts:
            if doubt not in shared:
                out.print(Padding(Text(printable(doubt), "dim"), (0, 0, 0, 2)))
    for doubt in shared:
        names = ", ".join(each.remedy for each in named if doubt in each.doubts)
        who = "all of them" if doubts[doubt] == len(named) else names
        out.print(Text(f"{who}: "), Text(printable(doubt), "dim"), sep="")


def render_how(remedy: Remedy) -> None:
    """Prints how to apply a remedy: code before and after, risks, how to check it, sources."""
    out = console()
    out.print(Text(f"{remedy.title}   ({remedy.effort} effort)", "bold"))
    out.print(Text(remedy.needs))
    for title, text, is_code in remedy.sections:
        section(out, title)
        out.print(Padding(Text(text), (0, 0, 0, 2)) if is_code else Text(text))
    section(out, "Sources")
    for source in remedy.sources:
        out.print(Text(source), soft_wrap=True)


_BAR = 34


def render_whatif(prediction: WhatIf) -> None:
    """Prints one prediction."""
    out = console()
    saves_ns, of_ns = prediction.saves_ns, prediction.saves_of_ns
    is_priced = 0 < saves_ns != prediction.window_ns - prediction.predicted_ns
    is_longer = prediction.predicted_ns > prediction.window_ns
    priced = (of_ns, of_ns - saves_ns) if is_priced and not is_longer else None
    _headline(out, prediction, prediction.trace, priced)
    if is_priced and is_longer:
        saved = f"{duration(saves_ns)} of {duration(of_ns)}"
        out.print(f"For as many samples, in a run that is not recorded, it would save {saved}.")
    section(out, "What would bound it then (shares of the critical path)")
    shares = prediction.bound_by.items()
    rows = [(cause, share(part, 1), "█" * round(_BAR * part) or "▏") for cause, part in shares]
    out.print(table(["", ">", ""], rows))
    if prediction.unknown_ns:
        waiting = f"{duration(prediction.unknown_ns)} of it are waits"
        out.print(f"{waiting} that the trace does not explain: the replay keeps them as recorded.")
    if prediction.doubts:
        section(out, "Caveats")
    for doubt in prediction.doubts:
        out.print(Text(printable(doubt)))
    _steps(out, prediction.steps, "each from the previous step's completion to its own")


def render_run(prediction: RunWhatIf) -> None:
    """Prints a prediction for a run of several ranks."""
    out = console()
    _headline(out, prediction, f"{prediction.traces}, {len(prediction.ranks)} ranks together")
    waits = f"The ranks wait for each other for {duration(prediction.predicted_waited_ns)}"
    out.print(f"{waits} in collectives (recorded: {duration(prediction.waited_ns)}).")
    for doubt in prediction.doubts:
        out.print(Text(printable(doubt)))
    _steps(out, prediction.steps, "until all ranks have completed each")


def _headline(
    out: Console, prediction: WhatIf | RunWhatIf, traces: str, priced: tuple[int, int] | None = None
) -> None:
    """The first two lines; `priced` is the length that `analyze` and `advise` have shares of, and
    what the changes leave of it."""
    recorded = prediction.window_ns, prediction.predicted_ns
    before, after = priced or recorded
    lengths = f"{printable(prediction.window)}: {duration(before)} -> {duration(after)}"
    speedup = f", {before / after:.2f} times as fast" if after else ""
    out.print(Text(_change(before, after), "bold").append(f"   {lengths}{speedup}", "default"))
    out.print(Text(printable(f"{traces}, with {', '.join(prediction.changes)}"), "dim"))
    if priced:
        lengths = " -> ".join(map(duration, recorded))
        out.print(Text(f"As recorded, with the profiler and one-offs: {lengths}", "dim"))


def _steps(out: Console, steps: list[StepLength], counted: str) -> None:
    if len(steps) < 2:
        return
    section(out, f"Step by step, as recorded ({counted})")
    rows = [
        (printable(step.name), duration(step.window_ns), duration(step.predicted_ns),
         _change(step.window_ns, step.predicted_ns))
        for step in steps[:8]
    ]  # fmt: skip
    out.print(table(["step", ">recorded", ">predicted", ">change"], rows))
    if len(steps) > 8:
        out.print(f"... and {len(steps) - 8} more")


def _change(before_ns: int, after_ns: int) -> str:
    if before_ns == after_ns:
        return "no change"
    word = "shorter" if after_ns < before_ns else "longer"
    return f"{share(abs(before_ns - after_ns), before_ns)} {word}"
