"""The committed answers to every trace (tests/answers.json), and how a change changes them.

    python -m tests.answers [--accept] [NAME...]

analyzes the shared real traces, those of tests/data, the simulated controls and the runs of several
ranks, or those whose names contain a NAME, and prints how their answers differ. With `--accept`, it
also commits them to the file, and renews tests/bench/VERDICTS.md.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import tracekit
from tests.conftest import OWN_TRACES, SHARED_TRACES
from tests.controls import CONTROLS as FAULTS
from tests.kit.answered import Answer as Said
from tests.kit.impossible import require_possible
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
from tracekit.text import duration, percent
from tracekit.verdict.model import Analysis, RunVerdict

FILE = Path(__file__).with_name("answers.json")
# Enough digits that only the last bits of a double are lost.
_DIGITS = 9
_ADVICE = 5
# Parts of the JSON that are compared as a whole.
_WHOLE = (
    "advice", "steps", "windows", "devices", "top_kernels", "memory_traffic", "one_offs",
    "links", "next",
)  # fmt: skip
# Other fields of a one-off: where it is recorded, and values that follow from the rest.
_ALSO_OF_ONE_OFFS = ("event_id", "pid", "tid", "usual_ns")
# Gains that are too long, or follow from others, as `undilated` does.
_NOT_OF_GAINS = ("removed", "work_ns", "recorder_ns")
# Columns of top kernels that rest on their work.
_OF_WORK = ("flop_per_s", "bytes_per_s", "limit_share", "roof", "is_exact")
# Lists of sentences.
_SENTENCES = ("why", "unknown")

Answer = dict[str, Any]


# -- the compact form ------------------------------------------------------------------------------


def compact(analysis: Analysis) -> Answer:
    """The answers of an analysis, in the order in which changes are printed. Fails where it says
    something impossible."""
    require_possible(analysis)
    found = _plain(analysis.as_dict())
    # The trace's number in its database is not part of the answer.
    for each in found["top_kernels"] + found["memory_traffic"]:
        each["trace_id"] = 1
    # Other traces of the database may tell the work of a kernel.
    for each in found["top_kernels"]:
        for name in _OF_WORK:
            del each[name]
    # Answers are without plugins.
    for each in found["advice"]:
        del each["plugin"]
    verdict, causal = found["verdict"], found["causal"] or {}
    gains = causal.pop("gains", {})
    once = found["one_offs"]
    shown = [{k: v for k, v in each.items() if k not in _ALSO_OF_ONE_OFFS} for each in once]
    others = {"links": causal.get("links"), "one_offs": shown, "next": verdict["try_next"]}
    advice = [_only(each, "remedy", "where", "saves_ns", "share") for each in found["advice"]]
    answer = {
        "verdict": _only(verdict, "regime", "bottleneck", "confidence", "margin"),
        "advice": advice[:_ADVICE],
        "window": _only(found["window"], "kind", "name", "start_ns", "end_ns"),
        "savings": {each["remove"]: each["saves_at_most_ns"] for each in verdict["savings"]},
        "gains": _not_nil(
            {name: gains[name] for name in gains if name not in _NOT_OF_GAINS}
            | {name: causal[name] for name in causal if name not in ("path", "links", "undilated")}
        ),
        "path": causal.get("path"),
        "shares": _not_nil(verdict["shares"]),
        **{name: _not_nil(found[name]) for name in ("gpu", "idle", "launch", "host")},
        "one_offs": Counter(each["cause"] for each in once)
        | {"excess_ns": sum(each["excess_ns"] for each in once)},
        "steps": Counter(f"{each['regime']} by {each['bottleneck']}" for each in found["steps"]),
        "units": {
            f"{each['kind']} {each['group']} by {each['source']}": each["count"]
            for each in found["units"][:_ADVICE]
        },
        "health": {each["code"]: each["count"] for each in found["trace"]["health"]},
        "trace": Counter(found["trace"]["devices"]) | {"events": found["trace"]["events"]},
        "why": [verdict["headline"], *verdict["why"]],
        "rest": _digests(found | others, _WHOLE),
    }
    return {name: part for name, part in answer.items() if part}


def _not_nil(part: Answer | None) -> Answer:
    """The values that are not 0 and not missing."""
    return {name: value for name, value in (part or {}).items() if value}


def compact_run(verdict: RunVerdict) -> Answer:
    """The answers of the verdict on a run of several ranks. Fails where it says something
    impossible."""
    found = _plain(verdict.as_dict())
    require_possible(Said(run=found))
    answer = {
        "run": _only(found, "step_ns", "span_ns", "steps", "pace_rank"),
        "late_ranks": found["late_ranks"],
        "savings": {
            f"{each['remove']} of {each['rank']}": each["saves_ns"] for each in found["savings"]
        },
        "why": found["why"],
        "unknown": found["unknown"],
        "rest": _digests(found, ("waiting", "collectives", "clocks", "savings")),
    }
    return {name: part for name, part in answer.items() if part}


def _plain(value: Any) -> Any:
    """The value as JSON reads it back, numbers without their last bits."""
    return json.loads(
        json.dumps(value), parse_float=lambda text: float(f"{float(text):.{_DIGITS}g}")
    )


def _only(part: Answer, *names: str) -> Answer:
    return {name: part[name] for name in names}


def _digests(found: dict[str, Any], names: Iterable[str]) -> dict[str, str]:
    """A short digest of each part that is not empty."""
    texts = {name: json.dumps(found[name], sort_keys=True) for name in names if found[name]}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:8] for name, text in texts.items()}


# -- what changed, in words ------------------------------------------------------------------------


def changes(name: str, old: Answer | None, new: Answer | None) -> list[str]:
    """Lines that say how an answer differs: its numbers in one line, then its sentences."""
    if old is None or new is None:
        return [f"{name}: {'new' if old is None else 'gone'}"] * (old is not new)
    before, after = _flat(old), _flat(new)
    # In the order of the sections.
    order = [*dict.fromkeys([*new, *old])]
    places = sorted(before | after, key=lambda at: order.index(at[0]))
    differing = [at for at in places if before.get(at) != after.get(at)]
    sentences = [
        f"  {'was' if at in before else 'now'}: {at[1]}" for at in differing if at[0] in _SENTENCES
    ]
    told = [
        f"{_label(at)} {_shown(at, before, after)} -> {_shown(at, after, before)}"
        for at in differing
        if at[0] not in (*_SENTENCES, "rest")
    ]
    if rest := [at[1] for at in differing if at[0] == "rest"]:
        told.append(f"also other {', '.join(rest)}")
    told += ["other sentences"] if sentences and not told else []
    return [f"{name}: {', '.join(told)}", *sentences] if told else []


def _flat(part: Any, at: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """The numbers and words of a part, by their path; a sentence is its own path."""
    if isinstance(part, list) and part and all(isinstance(each, str) for each in part):
        return {(*at, each): True for each in part}
    if isinstance(part, dict | list):
        items = part.items() if isinstance(part, dict) else enumerate(part)
        return {
            place: leaf for key, each in items for place, leaf in _flat(each, (*at, key)).items()
        }
    return {at: part} if at else {}


def _label(at: tuple[Any, ...]) -> str:
    """Names a path in words: `margin`, `advice 1 saves`, `idle causes dispatch`."""
    words = [str(each + 1) if isinstance(each, int) else each.removesuffix("_ns") for each in at]
    return " ".join(word for word in words if word not in ("verdict", "remedy"))


def _shown(at: tuple[Any, ...], mine: dict[Any, Any], other: dict[Any, Any]) -> str:
    """A value in its unit; with all digits, if the other one would read the same."""
    value, against = mine.get(at), other.get(at)
    said = _unit(at, value)
    return said if said != _unit(at, against) else str(value)


def _unit(at: tuple[Any, ...], value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g} times" if at[-1] == "flip" else percent(value)
    if isinstance(value, int) and not isinstance(value, bool) and str(at[-1]).endswith("_ns"):
        return duration(value)
    return "none" if value is None else str(value)


# -- the file --------------------------------------------------------------------------------------


@cache
def committed() -> dict[str, Answer]:
    """The answers in the file, by name."""
    return json.loads(FILE.read_text(encoding="utf-8"))


def commit(answers: dict[str, Answer]) -> None:
    """Writes the file: a line for each part of an answer."""
    lines = (
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(
            f" {json.dumps(part)}: {json.dumps(answer[part], sort_keys=True, ensure_ascii=False)}"
            for part in sorted(answer)
        )
        + "\n}"
        for name, answer in sorted(answers.items())
    )
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def differing(name: str, answer: Answer) -> list[str]:
    """How an answer differs from the committed one, in words: `make answers ACCEPT=1` renews it."""
    if name not in committed():
        return [f"{name}: new: `make answers NAMES={name.split()[-1]} ACCEPT=1` commits it"]
    return changes(name, committed()[name], json.loads(json.dumps(answer)))


# -- all of them -----------------------------------------------------------------------------------


def traces() -> dict[str, list[Path]]:
    """The files of each trace, and of each run of several ranks, by name."""
    found = {
        path.name.partition(".")[0]: [path]
        for pattern in ("*.json.gz", "other/*.sqlite", "other/*.pb", "other/*.json.gz")
        for folder in (SHARED_TRACES, OWN_TRACES)
        for path in sorted(folder.glob(pattern))
    }
    for name in list(found):
        run, is_rank, _ = name.rpartition("-rank")
        if is_rank and run and name[-1].isdigit():
            found.setdefault(f"run {run}", []).extend(found[name])
    return {name: files for name, files in found.items() if files}


def controls() -> dict[str, tuple[Simulation, dict[str, Any]]]:
    """The simulated programs that have a name, with their traces' metadata."""
    from tests.examine.test_controls import CONTROLS

    found = {f"control {name}": (Simulation(atoms), {}) for name, atoms in CONTROLS.items()}
    for name, each in sorted(FAULTS.items()):
        found[f"fault {name}"] = Simulation(each.faulty, each.machine), each.metadata
    return found


def main(arguments: Iterable[str]) -> None:
    """Prints how the answers differ from those committed; with `--accept`, commits them."""
    from tests.bench.diagnosis.pages import PAGE, page

    wanted = [each for each in arguments if each != "--accept"]
    known = committed() if FILE.exists() else {}
    names = {**known, **traces(), **controls()}
    chosen = {name for name in names if not wanted or any(each in name for each in wanted)}
    found: dict[str, Answer] = {}
    count = 0
    for name, answer in _answers(chosen):
        found[name] = answer
        lines = changes(name, known.get(name), json.loads(json.dumps(answer)))
        count += bool(lines)
        print(*lines, sep="\n", end="\n" if lines else "", flush=True)
    print(f"{count} of {len(found)} answers differ from {FILE.name}")
    if absent := sorted(chosen - found.keys()):
        print(f"{len(absent)} not compared, as there are no such traces: {', '.join(absent)}")
    if "--accept" in arguments:
        commit(known | found)
        PAGE.write_text(page(known | found))


def _answers(chosen: set[str]) -> Iterator[tuple[str, Answer]]:
    """The answers of the chosen traces that are available."""
    with tempfile.TemporaryDirectory() as folder:
        files = {name: each for name, each in traces().items() if name in chosen}
        for name, (simulation, metadata) in controls().items():
            if name in chosen:
                files[name] = [write(Path(folder) / f"{name}.json", simulation, **metadata)]
        for name, paths in files.items():
            with tracekit.load(paths) as run:
                is_run = len(run.trace_ids()) > 1
                yield name, compact_run(run.together()) if is_run else compact(run.verdict())


if __name__ == "__main__":
    main(sys.argv[1:])
