"""The server's tools: the library's questions about files in the given folders."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import Annotated, Any, TypeVar
from weakref import WeakKeyDictionary

from msgspec.structs import replace
from pydantic import Field

from tracekit.agents import answers
from tracekit.agents.answers import Fitted, Page, answer
from tracekit.agents.child import Child
from tracekit.agents.traces import Folders, Opened
from tracekit.database import catalog
from tracekit.database.remedies import remedy
from tracekit.database.session import Session
from tracekit.errors import TracekitError
from tracekit.replay.grammar import HELP
from tracekit.reporters.rows import first_rows
from tracekit.run import Database
from tracekit.text import as_operand
from tracekit.verdict.model import Analysis, RunVerdict
from tracekit.verdicts import verdict_together, verdicts

T = TypeVar("T")
ToolAnswer = dict[str, Any]

# The default and maximum number of rows in an answer.
ROWS, MOST_ROWS = 50, 500
_SERIOUS = ("error", "warning")
_PATH = Field(
    description="A trace (.json, .json.gz, .json.zst), a folder, tar archive or pattern of traces, "
    "a tracekit database or a lake, in the server's folders"
)
_Path = Annotated[str, _PATH]
_TraceId = Annotated[
    int | None, Field(description="The trace_id of the trace, if there are several (see `load`)")
]
_Rank = Annotated[int | None, Field(description="The trace, by its rank")]
_Window = Annotated[
    str | None,
    Field(description="gpu_active (default), trace, a step's name, or an annotated range's name"),
]
_Part = Annotated[
    str | None,
    Field(description="Show only this part of the answer, such as a list named in left_out"),
]
_Rows = Annotated[int, Field(description=f"Rows to show, at most {MOST_ROWS}", ge=1)]
_Offset = Annotated[int, Field(description="Rows to skip: for the next page", ge=0)]
_Timeout = Annotated[
    float | None,
    Field(description="Stop after this many seconds, at most the server's limit", gt=0),
]


class Tools:
    """The tools for agents: each method is a tool whose docstring and signature the agent reads.
    Calls are answered one at a time."""

    def __init__(
        self, folders: Folders, opened: Opened, *, characters: int, timeout_s: float
    ) -> None:
        self._folders = folders
        self._opened = opened
        self._characters = characters
        self._timeout_s = timeout_s
        self._lock = Lock()
        self._last: WeakKeyDictionary[Session, tuple[tuple[Any, ...], Any]] = WeakKeyDictionary()

    def close(self) -> None:
        """Closes what is open, unless a call is still being answered."""
        if self._lock.acquire(blocking=False):
            self._opened.close()
            self._lock.release()

    def load(self, path: _Path) -> ToolAnswer:
        """Load traces and keep them open for later calls; lists their contents by trace_id.

        Other tools load traces themselves; this one lists what a path contains.
        """
        return self.query("overview", path, rows=MOST_ROWS)

    def analyze(
        self,
        path: _Path,
        trace_id: _TraceId = None,
        rank: _Rank = None,
        window: _Window = None,
        part: _Part = None,
        rows: _Rows = ROWS,
        offset: _Offset = 0,
    ) -> ToolAnswer:
        """Diagnose whether a run is overhead-bound (the GPU waits for the host) or compute-bound,
        why, and what removing each cause would save at most. For the ranks of one run: which rank
        delays the others."""

        def judged(database: Session) -> tuple[list[Analysis], RunVerdict | None, str]:
            with database.sharing():
                analyses = verdicts(database, database.chosen(trace_id, rank), window)
                return verdict_together(database, analyses)

        which = (trace_id, rank)
        key = ("verdict", which, window)
        (analyses, run, no_run), findings = self._of_trace(path, which, key, judged)
        document: dict[str, Any]
        if len(analyses) == 1:
            document = analyses[0].as_dict()
        else:
            document = {"run": run and run.as_dict(), "no_run": no_run or None}
            document["traces"] = [answers.brief(analysis) for analysis in analyses]
        main = (
            answers.without_details(document) if part is None and len(analyses) == 1 else document
        )
        rest = ", ".join(name for name in document if name not in main)
        hint = [f"the parts {rest}: part=NAME shows one"] if rest else []
        chosen = {"trace_id": trace_id, "rank": rank, "window": window}
        command = _command("analyze", as_operand(path), **chosen)
        page = self._page(rows, offset, part)
        return answer(f"{command} --json --explain", main, page, findings, hint)

    def advise(
        self,
        path: Annotated[str | None, _PATH] = None,
        how: Annotated[
            str | None, Field(description="Explain how to apply this remedy; needs no path")
        ] = None,
        trace_id: _TraceId = None,
        rank: _Rank = None,
        window: _Window = None,
        part: _Part = None,
        rows: _Rows = ROWS,
        offset: _Offset = 0,
    ) -> ToolAnswer:
        """List what to change in a run, where, and how much each change would save alone (by a
        replay of the run) and all together."""
        page = self._page(rows, offset, part)
        if how is not None:
            return answer(_command("advise", how=how), answers.remedy_words(remedy(how)), page)
        if path is None:
            raise TracekitError("advise needs the path of a trace, or the name of a remedy (how)")

        def advised(database: Session) -> ToolAnswer:
            trace = database.chosen(trace_id, rank)
            return Database(database).advise(trace=trace, window=window).as_dict()

        which = (trace_id, rank)
        key = ("advise", which, window)
        document, findings = self._of_trace(path, which, key, advised)
        chosen = {"trace_id": trace_id, "rank": rank, "window": window}
        command = _command("advise", as_operand(path), **chosen)
        return answer(f"{command} --json --all", document, page, findings)

    def whatif(
        self,
        path: _Path,
        changes: Annotated[list[str], Field(description=HELP, min_length=1)],
        trace_id: _TraceId = None,
        rank: _Rank = None,
        window: _Window = None,
        part: _Part = None,
        rows: _Rows = ROWS,
        offset: _Offset = 0,
    ) -> ToolAnswer:
        """Predict how long a run would take with changes, all applied at once."""
        page = self._page(rows, offset, part)

        def predicted(database: Session) -> ToolAnswer:
            trace = database.chosen(trace_id, rank)
            if trace is None and window is None and len(database.trace_ids()) > 1:
                return Database(database).whatif_together(*changes).as_dict()
            return Database(database).whatif(*changes, trace=trace, window=window).as_dict()

        which = (trace_id, rank)
        key = ("whatif", *changes, which, window)
        document, findings = self._of_trace(path, which, key, predicted)
        chosen = {"trace_id": trace_id, "rank": rank, "window": window}
        command = _command("whatif", as_operand(path), *changes, **chosen)
        return answer(f"{command} --json", document, page, findings)

    def query(
        self,
        name: Annotated[
            str | None, Field(description="The question; without it, the questions are listed")
        ] = None,
        path: Annotated[str | None, _PATH] = None,
        parameters: Annotated[
            dict[str, str | int | float | bool | None] | None,
            Field(description="The question's parameters, such as trace and top"),
        ] = None,
        rank: _Rank = None,
        columns: Annotated[
            list[str] | None, Field(description="Only these columns, in this order")
        ] = None,
        topic: Annotated[
            str | None, Field(description="List only the questions of this topic")
        ] = None,
        timeout_s: _Timeout = None,
        rows: _Rows = ROWS,
        offset: _Offset = 0,
    ) -> ToolAnswer:
        """Ask a trace a named question. Without a path, describe the question's parameters, columns
        and SQL. Begin with overview, idle_waterfall and top_kernels."""
        page = self._page(rows, offset)
        if name is None or path is None:
            return self._about_questions(name, topic)
        question = catalog.query(name)
        chosen = question.check_columns(columns or ())
        checked = question.check_parameters(parameters or {})
        options = [f"--param {shlex.quote(f'{key}={value}')}" for key, value in checked.items()]
        with self._reading(path) as database:
            if rank is not None:
                options.append(f"--rank {rank}")
                if "trace" in checked:
                    raise TracekitError("choose a trace by the parameter trace or by its rank")
                checked |= question.check_parameters({"trace": database.chosen(None, rank)})
            statement = database.shown_sql(question, checked)
            limit_s = self._limit_s(timeout_s)
            with database.checked(question):
                columns_and_rows = first_rows(
                    database, statement, checked, chosen, timeout_s=limit_s, **page.limits
                )
            trace = value if isinstance(value := checked.get("trace"), int) else None
            about = database.findings if name == "overview" else partial(database.doubts, name)
            findings = about(trace)
        doubts = [row for row in findings if row["severity"] in _SERIOUS or not columns_and_rows[1]]
        units = {column.name: column.unit for column in question.columns}

        def fit(page: Page) -> Fitted:
            column_units = {name: units[name] for name in columns_and_rows[0] if name in units}
            room = page.characters - len(answers.text_of(column_units))
            fitted, left_out = answers.rows_that_fit(
                *columns_and_rows, replace(page, characters=room)
            )
            if not columns_and_rows[1] and not doubts and not offset:
                left_out.append("nothing: the trace has no data for this question")
            return {**fitted, "units": column_units}, left_out

        command = " ".join([_command("query", as_operand(path), name), *options])
        return answer(command, fit, page, findings if name == "overview" else doubts)

    def _about_questions(self, name: str | None, topic: str | None) -> ToolAnswer:
        """The named questions, those of a topic, or all about one."""
        page = self._page(ROWS, 0)
        if name is not None:
            describing = partial(answers.describe, catalog.query(name))
            return answer(_command("query", name) + " --explain", describing, page)
        if topic is not None and topic not in catalog.TOPICS:
            raise TracekitError(
                f"there is no topic {topic!r}; the topics are: {', '.join(catalog.TOPICS)}"
            )
        return answer("tracekit query --list", partial(answers.list_questions, topic), page)

    def sql(
        self,
        path: _Path,
        statement: Annotated[str, Field(description="One read-only SELECT in DuckDB's SQL")],
        timeout_s: _Timeout = None,
        rows: _Rows = ROWS,
        offset: _Offset = 0,
        child: Child | None = None,
    ) -> ToolAnswer:
        """Run one read-only SELECT on the tables and views of a trace, such as kernels, launches,
        cpu_ops, gpu_ops, steps and event; `DESCRIBE kernels` lists a view's columns."""
        with self._reading(path) as database:
            file, resources = self._opened.path_of(database), self._opened.resources

            def fit(page: Page) -> Fitted:
                fitted, left_out = (child or Child()).rows(
                    file, resources, statement, page, self._limit_s(timeout_s)
                )
                if left_out:
                    left_out.append("pages agree only if the statement has an ORDER BY")
                return fitted, left_out

            findings = [row for row in database.findings() if row["severity"] in _SERIOUS]
            page = self._page(rows, offset)
            return answer(_command("sql", as_operand(path), statement), fit, page, findings)

    def diff(
        self,
        a: _Path,
        b: Annotated[
            str | None, Field(description="The other run; without it, a contains both")
        ] = None,
        trace_ids: Annotated[
            list[int] | None, Field(description="The two traces to compare, if there are more")
        ] = None,
        rank: Annotated[
            int | None, Field(description="The rank of both runs, a and b, to compare")
        ] = None,
        top: Annotated[
            int,
            Field(description="Number of kernels, operators and modules to compare", ge=1, le=200),
        ] = 10,
        part: _Part = None,
        rows: _Rows = ROWS,
        offset: _Offset = 0,
    ) -> ToolAnswer:
        """Compare run b with run a: the changes per step, and the kernels, operators and modules
        that account for them."""
        page = self._page(rows, offset, part)
        paths = [a] if b is None else [a, b]
        if rank is not None and (b is None or trace_ids is not None):
            raise TracekitError("rank is for two runs, a and b: trace_ids chooses from all traces")
        with self._reading(*paths) as database:
            known = database.trace_ids() if rank is None else database.of_rank(rank)
            if trace_ids is None and len(known) != 2:
                raise TracekitError(
                    f"{database.name}: give two traces (a and b), or choose two of its traces by "
                    f"trace_ids: {', '.join(map(str, known))}"
                )
            if len(chosen := trace_ids or known) != 2:
                raise TracekitError("trace_ids must be two numbers, of the traces to compare")
            first, second = chosen

            def compared(database: Session) -> ToolAnswer:
                return Database(database).diff(first, second, top).as_dict()

            document = self._once(database, ("diff", first, second, top), compared)
        findings = document["doubts"]
        document = {name: value for name, value in document.items() if name != "doubts"}
        command = _command("diff", *map(as_operand, paths))
        if trace_ids is not None:
            command += f" --trace-ids {first} {second}"
        elif rank is not None:
            command += f" --rank {rank}"
        command += f" --top {top} --json"
        return answer(command, document, page, findings)

    @contextmanager
    def _reading(self, *paths: str) -> Iterator[Session]:
        """The traces at these paths, while no other call is answered."""
        with self._lock:
            files = [each for path in paths for each in self._folders.resolve(path)]
            with self._opened.using(files) as database:
                yield database

    def _of_trace(
        self,
        path: str,
        which: tuple[int | None, int | None],
        key: tuple[Any, ...],
        ask: Callable[[Session], T],
    ) -> tuple[T, list[dict[str, Any]]]:
        """The result of `ask` on a path, and the findings about its traces, or the one of a
        trace_id or a rank."""
        with self._reading(path) as database:
            return self._once(database, key, ask), database.findings(database.chosen(*which))

    def _once(self, database: Session, key: tuple[Any, ...], ask: Callable[[Session], T]) -> T:
        """The result of `ask` on a database, kept until the next other question: an agent reads an
        answer page by page."""
        last = self._last.get(database)
        if last is None or last[0] != key:
            last = self._last[database] = (key, ask(database))
        cached: T = last[1]
        return cached

    def _limit_s(self, timeout_s: float | None) -> float:
        return min(timeout_s or self._timeout_s, self._timeout_s)

    def _page(self, rows: int, offset: int, part: str | None = None) -> Page:
        return Page(min(rows, MOST_ROWS), offset, self._characters, part)


def _command(command: str, *arguments: str, **options: str | int | None) -> str:
    """The command line for the same question."""
    parts = ["tracekit", command, *map(shlex.quote, arguments)]
    for name, value in options.items():
        if value is not None:
            parts.append(f"--{name.replace('_', '-')} {shlex.quote(str(value))}")
    return " ".join(parts)
