"""The layout of a lake: the names of its files, and the groups of ranks that they hold.

LAKE/tracekit-lake.json            marks the folder as a lake
LAKE/manifests/RUN/00000012.json   the run after its 12th change: its groups and their ranks;
                                   numbers above 99999999 have more digits
LAKE/manifests/RUN/TOKEN.json      a group: some ranks of the run, and the tables of its files
LAKE/tables/TABLE/TOKEN.parquet    the rows of a group's ranks of one table
LAKE/numbers/ID.json               whose number this is

A change writes its files and its group first; then it creates the run's next version, which only
one writer can create. So readers see a change completely or not at all. Since a manifest may come
from an untrusted source, it does not contain paths: they follow from its fields, whose types and
values are checked.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Set
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Annotated, TypeVar
from urllib.parse import quote, unquote

from msgspec import Meta, Struct, field, to_builtins
from msgspec.structs import replace

from tracekit.database import catalog
from tracekit.errors import TracekitError, explained
from tracekit.lake.tables import NEEDED
from tracekit.records import parsed, record
from tracekit.trace.remote import holds, is_url

M = TypeVar("M")

MARK = "tracekit-lake.json"
MANIFESTS = "manifests"
TABLES = "tables"
NUMBERS = "numbers"
# The version of this layout, and of the manifests.
LAYOUT = 2
# The largest INTEGER; trace numbers start at 1.
_MOST_TRACE_ID = 2**31 - 1
_Token = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
_Sha256 = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
_TraceId = Annotated[int, Meta(gt=0, le=_MOST_TRACE_ID)]
_Count = Annotated[int, Meta(ge=0)]
_Files = dict[Annotated[str, Meta(pattern=r"\A[a-z_]+\Z")], Annotated[int, Meta(gt=0)]]
# Most file systems limit names to 255 bytes; this leaves room for prefixes and endings.
_LONGEST = 180
# The name of a version of a run.
VERSION_NAME = r"(?:\d{8}|[1-9]\d{8,})\.json"


class Source(Struct, frozen=True):
    """A trace's source: the path or URL of its file, and the file's size and state at that time."""

    url: str
    """The path or URL of the file."""
    size: int
    """Its size (bytes)"""
    stamp: str
    """Its modification time or ETag, which changes when the file does."""
    member: str | None = None
    """The trace's path in the archive; null: the file is not an archive."""
    members: int | None = None
    """The number of traces in the archive, once all of them are in the lake (count)"""

    def is_same(self, other: Source) -> bool:
        """Whether both are the same trace, even if its file has changed since."""
        return (self.url, self.member) == (other.url, other.member)


class Rank(Struct, frozen=True):
    """One rank of one run."""

    run: str
    name: str
    """`rank=N`, or `file=NAME` for a trace without a rank."""
    rank: _Count | None
    trace_id: _TraceId
    tables: int
    """The format of its tables."""
    sha256: _Sha256
    """The hash of the stored file, or of the archive's member."""
    events: _Count
    source: Source
    labels: dict[str, str] = field(default_factory=dict)

    @property
    def order(self) -> tuple[bool, int, str]:
        """The sort key of a run's ranks: numbered ranks first."""
        return self.rank is None, self.rank or 0, self.name


class Group(Struct, frozen=True, dict=True):
    """A manifest: ranks of one run, and the files that hold their tables."""

    run: str
    token: _Token
    """Names the manifest."""
    data: _Token
    """Names the files."""
    ranks: list[Rank]
    files: _Files
    """The tables that have rows here, and the size of each file in bytes."""
    context: str | None = None
    """For verdicts, the digest of the ranks that were judged together. None: the files hold all
    other tables."""
    without: list[str] = field(default_factory=list)
    """Removed ranks that the files still hold, as recorded in each version of the run."""

    @cached_property
    def here(self) -> list[Rank]:
        """The ranks that were not removed."""
        gone = set(self.without)
        return [rank for rank in self.ranks if rank.name not in gone]

    def only(self, names: Set[str]) -> Group:
        gone = [each.name for each in self.here if each.name not in names]
        return replace(self, without=[*self.without, *gone]) if gone else self

    @property
    def key(self) -> str:
        return f"{run_folder(self.run)}/{self.token}.json"

    def path(self, table: str) -> str:
        """The file with the rows of a table, relative to the lake."""
        return f"{TABLES}/{table}/{self.data}.parquet"

    def as_json(self) -> bytes:
        return json.dumps({"layout": LAYOUT} | to_builtins(replace(self, without=[]))).encode()


class GroupEntry(Struct, frozen=True):
    """A group in a version of a run, and its removed ranks."""

    token: _Token
    without: list[str]


class Version(Struct, frozen=True):
    """A manifest: the groups of a run after one change."""

    groups: Annotated[list[GroupEntry], Meta(min_length=1)]

    def as_json(self) -> bytes:
        return json.dumps({"layout": LAYOUT} | to_builtins(self)).encode()


def read_group(text: bytes, path: str) -> Group:
    """The group that a manifest describes.

    Raises:
        TracekitError: when this version did not write it, or its fields do not match its path.
    """
    group = _read(Group, text, path)
    if not _is_sound(group) or group.key != path:
        raise TracekitError(f"{path}: is not a valid manifest: its fields do not match its name")
    return group


def read_version(text: bytes, path: str) -> Version:
    """The version of a run that a manifest describes; the same errors."""
    return _read(Version, text, path)


def _read(kind: type[M], text: bytes, path: str) -> M:
    with explained(f"{path}: is not a lake's manifest", ValueError):
        stored = parsed(text)
        if isinstance(stored, dict) and stored.get("layout", LAYOUT) != LAYOUT:
            raise TracekitError(f"{path}: another version of tracekit wrote this part of the lake")
        return record(kind, stored)


def _is_sound(group: Group) -> bool:
    formats = {rank.tables for rank in group.ranks}
    is_whole = formats == {catalog.FORMAT} and group.context is None
    return (
        group.run == valid_name(group.run)
        and all(rank.run == group.run and _fits_name(rank) for rank in group.ranks)
        and len(formats) == 1
        and (not is_whole or group.files.keys() >= NEEDED)
    )


def _fits_name(rank: Rank) -> bool:
    file_name = valid_name(rank.name.removeprefix("file="))
    return rank.name == (f"file={file_name}" if rank.rank is None else f"rank={rank.rank}")


def run_folder(run: str) -> str:
    """The folder of a run's manifests."""
    return f"{MANIFESTS}/{escape(run)}"


def version_path(run: str, number: int) -> str:
    return f"{run_folder(run)}/{number:08d}.json"


def number_path(trace_id: int) -> str:
    return f"{NUMBERS}/{trace_id}.json"


def owner_of(run: str, name: str, sha256: str, tables: int) -> bytes:
    """The content of a number's file."""
    return json.dumps([run, name, sha256, tables]).encode()


def trace_id_of(run: str, name: str, sha256: str, salt: int = 0) -> int:
    """A trace's number in a lake: always the same for the same trace and rank.

    Two ranks in a lake may get the same number: then the later one uses the next `salt`.
    """
    text = f"{run}\0{name}\0{sha256}\0{catalog.FORMAT}\0{salt}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") % _MOST_TRACE_ID + 1


def escape(text: str) -> str:
    """Text as a file or folder name that engines do not mistake for a partition."""
    return quote(text, safe=" ,+@-_.", errors="surrogateescape")


def valid_name(text: str) -> str:
    """Text as the name of a run or file in a lake: not empty, not a path, and short enough for a
    folder name."""
    name = text if text.strip(".") else f"{text}_"
    name = name.encode("utf-8", "replace").decode()
    if len(escape(name)) > _LONGEST:
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        while len(escape(name)) > _LONGEST - 17:
            name = name[:-1]
        name = f"{name}-{digest}"
    return name


def run_of(source: Source) -> str:
    """A trace's default run: the name of its folder or archive."""
    from tracekit.trace.paths import stem
    from tracekit.trace.unpacking import ARCHIVES as PACKED

    path = PurePosixPath(source.url)
    if source.member is not None or path.name.endswith(PACKED):
        return valid_name(stem(path.name))
    return valid_name(path.parent.name)


def may_be_lake(path: str) -> bool:
    """Whether a path is a lake or a part of one.

    Raises:
        TracekitError: when it is a URL that cannot be reached.
    """
    root = selection(path).root
    if is_url(root):
        from tracekit.trace.paths import DATABASES, endings

        is_file = root.endswith((*endings(), *DATABASES)) or "?" in root or "*" in root
        return not is_file and holds(root, MARK)
    try:
        return (Path(root) / MARK).is_file()
    except (OSError, ValueError):
        return False


class Selection(Struct, frozen=True):
    """A lake, and the part of it that a path such as `LAKE/run=NAME/rank=3` selects."""

    root: str
    run: str | None = None
    name: str | None = None

    def takes(self, rank: Rank) -> bool:
        return self.run in (None, rank.run) and self.name in (None, rank.name)

    def __str__(self) -> str:
        parts = [self.root, *([f"run={self.run}"] if self.run is not None else []), self.name]
        return "/".join(part for part in parts if part)


_PART = re.compile(
    r"(?P<root>.+?)/+run=(?P<run>[^/]+)(?:/+(?P<name>(?:rank|file)=[^/]+))?/*", re.DOTALL
)


def selection(path: str) -> Selection:
    """What a path selects: `LAKE`, `LAKE/run=NAME`, `LAKE/run=NAME/rank=3` or `.../file=NAME`."""
    if match := _PART.fullmatch(path):
        name = match["name"]
        return Selection(match["root"], unquote(match["run"]), name and unquote(name))
    return Selection(path.rstrip("/") or path)
