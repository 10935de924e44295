"""The committed answers to every trace (tests/answers.json), and how a change changes them.

    python -m tests.answers [--accept] [NAME...]

analyzes the shared real traces, those of tests/data, the simulated controls and the runs of several
ranks, or those whose names contain a NAME, and prints how their answers differ. With `--accept`, it
also commits them to the file, and renews tests/bench/VERDICTS.md and tests/bench/ADVICE.md.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tracekit
from tests.conftest import OWN_TRACES, SHARED_TRACES
from tests.controls import CONTROLS as FAULTS
from tests.kit.simulated import write
from tests.kit.simulator import Simulation
from tracekit.text import duration, percent
from tracekit.verdict.model import Analysis, RunVerdict

FILE = Path(__file__).with_name("answers.json")
# Enough digits that only the last bits of a double are lost.
_DIGITS = 9
_ADVICE = 5
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
# Parts of the JSON that are compared as a whole.
_WHOLE = (
    "advice", "steps", "phases", "windows", "devices", "top_kernels", "memory_traffic", "one_offs",
    "links", "next",
)  # fmt: skip
# Other fields of a one-off: where it is recorded, and values that follow from the rest.
_ALSO_OF_ONE_OFFS = ("event_id", "pid", "tid", "usual_ns")
# Gains that are too long, or follow from others.
_NOT_OF_GAINS = ("removed", "work_ns", "recorder_ns")
# Lists of sentences.
_SENTENCES = ("why", "unknown")

Answer = dict[str, Any]


# -- the compact form ------------------------------------------------------------------------------


def compact(analysis: Analysis) -> Answer:
    """The answers of an analysis, in the order in which changes are printed."""
    found = _plain(analysis.as_dict())
    # The trace's number in its database is not part of the answer.
    for each in found["top_kernels"] + found["memory_traffic"]:
        each["trace_id"] = 1
    verdict, causal = found["verdict"], found["causal"] or {}
    gains = causal.pop("gains", {})
    once = found["one_offs"]
    shown = [{k: v for k, v in each.items() if k not in _ALSO_OF_ONE_OFFS} for each in once]
    others = {"links": causal.get("links"), "one_offs": shown, "next": verdict["try_next"]}
    answer = {
        "verdict": {name: verdict[name] for name in ("regime", "bottleneck", "confidence")}
        | {"margin": verdict["margin"]},
        "advice": [_advised(each) for each in found["advice"][:_ADVICE]],
        "window": {name: found["window"][name] for name in ("kind", "name", "start_ns", "end_ns")},
        "savings": {each["remove"]: each["saves_at_most_ns"] for each in verdict["savings"]},
        "gains": _not_nil(
            {name: gains[name] for name in gains if name not in _NOT_OF_GAINS}
            | {name: causal[name] for name in causal if name not in ("path", "links")}
        ),
        "path": causal.get("path"),
        "shares": _not_nil(verdict["shares"]),
        "gpu": _not_nil(found["gpu"]),
        "idle": _not_nil(found["idle"]),
        "launch": _not_nil(found["launch"]),
        "host": _not_nil(found["host"]),
        "one_offs": Counter(each["cause"] for each in once)
        | {"excess_ns": sum(each["excess_ns"] for each in once)},
        "steps": Counter(_bound(each) for each in found["steps"]),
        "health": {each["code"]: each["count"] for each in found["trace"]["health"]},
        "trace": Counter(found["trace"]["devices"]) | {"events": found["trace"]["events"]},
        "why": verdict["why"],
        "rest": _digests(found | others, _WHOLE),
    }
    return {name: part for name, part in answer.items() if part}


def _not_nil(part: Answer | None) -> Answer:
    """The values that are not 0 and not missing."""
    return {name: value for name, value in (part or {}).items() if value}


def compact_run(verdict: RunVerdict) -> Answer:
    """The answers of the verdict on a run of several ranks."""
    found = _plain(verdict.as_dict())
    answer = {
        "run": {name: found[name] for name in ("step_ns", "span_ns", "steps", "pace_rank")},
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


def _advised(advice: dict[str, Any]) -> dict[str, Any]:
    return {name: advice[name] for name in ("remedy", "where", "saves_ns", "share")}


def _bound(period: dict[str, Any]) -> str:
    return f"{period['regime']} by {period['bottleneck']}"


def _digests(found: dict[str, Any], names: Iterable[str]) -> dict[str, str]:
    """A short digest of each part that is not empty."""
    texts = {name: json.dumps(found[name], sort_keys=True) for name in names if found[name]}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:8] for name, text in texts.items()}


# -- what changed, in words ------------------------------------------------------------------------


def changes(name: str, old: Answer | None, new: Answer | None) -> list[str]:
    """Lines that say how an answer differs: its numbers in one line, then its sentences."""
    if old is None or new is None:
        return [f"{name}: {'new' if old is None else 'gone'}"] * (old is not new)
    sections = dict.fromkeys([*(new or {}), *(old or {})])
    told, sentences, rest = [], [], []
    for section in sections:
        before, after = _flat(old.get(section)), _flat(new.get(section))
        differing = [at for at in before | after if before.get(at) != after.get(at)]
        if section in _SENTENCES:
            words = {True: "  was: ", False: "  now: "}
            sentences += [words[at in before] + str(at[0]) for at in differing]
        elif section == "rest":
            rest = [str(at[0]) for at in differing]
        else:
            told += [
                f"{_label(section, at)} {_shown(at, before, after)} -> {_shown(at, after, before)}"
                for at in differing
            ]
    told += [f"also other {', '.join(rest)}"] if rest else []
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


def _label(section: str, at: tuple[Any, ...]) -> str:
    """Names a path in words: `margin`, `first advice`, `idle causes dispatch`."""
    words = [str(each).removesuffix("_ns") for each in at]
    if section == "advice":
        word = "" if at[1] == "remedy" else f" {words[1]}"
        return f"{_ORDINALS[at[0]]} advice{word}"
    return " ".join(words if section == "verdict" else [section, *words])


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
    from tests.verdict.test_controls import CONTROLS

    found = {f"control {name}": (Simulation(atoms), {}) for name, atoms in CONTROLS.items()}
    for name, each in sorted(FAULTS.items()):
        found[f"fault {name}"] = Simulation(each.faulty, each.machine), each.metadata
    return found


def main(arguments: Iterable[str]) -> None:
    """Prints how the answers differ from those committed; with `--accept`, commits them."""
    from tests.bench.diagnosis.pages import renew

    wanted = [each for each in arguments if each != "--accept"]
    known = committed() if FILE.exists() else {}
    chosen = {n for n in {**known, **traces(), **controls()} if _is_wanted(n, wanted)}
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
        renew(known | found)


def _is_wanted(name: str, wanted: list[str]) -> bool:
    return not wanted or any(each in name for each in wanted)


def _answers(chosen: set[str]) -> Iterator[tuple[str, Answer]]:
    """The answers of the chosen traces that are available."""
    for name, files in traces().items():
        if name in chosen:
            with tracekit.load(files) as run:
                is_run = len(run.trace_ids()) > 1
                yield name, compact_run(run.together()) if is_run else compact(run.verdict())
    for name, (simulation, metadata) in controls().items():
        if name in chosen:
            with _loaded(simulation, metadata) as run:
                yield name, compact(run.verdict())


@contextmanager
def _loaded(simulation: Simulation, metadata: dict[str, Any]) -> Iterator[tracekit.Database]:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "trace.json", simulation, **metadata)
        with tracekit.load(path) as run:
            yield run


if __name__ == "__main__":
    main(sys.argv[1:])
