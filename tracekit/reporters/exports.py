"""Files for other programs: a trace or a part of it, its flame graph, or a workbook of all
traces."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from tracekit.database.session import Session
from tracekit.errors import TracekitError, needing
from tracekit.perfetto.part import PartChoice
from tracekit.stages import stage

FORMS = ("trace", "speedscope", "collapsed")
WEIGHTS = ("host", "gpu")
_WORKBOOK = ".xlsx"


class Exported(Struct, frozen=True):
    """The size of a written file."""

    count: int
    unit: str
    """The unit of `count`: events, stacks or sheets."""
    names: list[str] = []
    """The names of a workbook's sheets."""


class Export(Struct, frozen=True):
    """A file to write: a trace or a part of it; a flame graph in another tool's form, of the host's
    or the device's time (`weight`); or, if its name ends in .xlsx, a workbook.

    Raises:
        TracekitError: when these options contradict each other.
    """

    output: str | Path
    part: PartChoice = PartChoice()
    form: str = "trace"
    weight: str | None = None

    def __post_init__(self) -> None:
        is_trace = self.form == "trace"
        if self.form not in FORMS or self.weight not in (None, *WEIGHTS):
            raise TracekitError(
                f"export writes {', '.join(FORMS)}, weighted by {' or '.join(WEIGHTS)}"
            )
        if is_trace and self.weight is not None:
            raise TracekitError("--weight is for a flame graph: --format speedscope or collapsed")
        if not is_trace and not self.part.is_whole:
            raise TracekitError("a part is written as a trace: omit --format")
        if self.is_workbook and not (is_trace and self.part.is_whole):
            raise TracekitError("a workbook covers whole traces: omit --format and the part")

    @property
    def is_workbook(self) -> bool:
        return str(self.output).endswith(_WORKBOOK)

    def write(self, database: Session) -> Exported:
        """Writes the file.

        Raises:
            TracekitError: when there is no such trace or part, the extra `excel` is not installed,
                or `output` cannot be written, or its name is that of a table or a page.
        """
        output = str(self.output)
        if output.endswith((".csv", ".parquet", ".html")):
            raise TracekitError(
                f"{output}: export writes traces and workbooks; `report` writes .html, "
                "`query` and `sql` .csv and .parquet (--format)"
            )
        if self.is_workbook:
            with needing("a workbook needs", "excel"):
                from tracekit.reporters import workbook
            sheets = workbook.write(database, output)
            return Exported(len(sheets), "sheets", sheets)
        if self.form == "trace":
            return Exported(self.part.write(database, self.output), "events")
        from tracekit.reporters import stacks

        with stage("writing"):
            trace, weight = self.part.trace_of(database), self.weight or "host"
            return Exported(stacks.write(database, self.form, output, weight, trace), "stacks")
