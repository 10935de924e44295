"""Files of a lake that no reader sees any more."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tracekit.errors import TracekitError
from tracekit.lake.layout import ARCHIVES, MANIFESTS, MARK, NO_VALUE, TABLES, read_archive
from tracekit.lake.reading import visible
from tracekit.lake.storage import HIDDEN, Storage, storage

DEFAULT_HOURS = 24.0
_TOKEN = "[0-9a-f]{32}"
_RANK = rf"{TABLES}/[a-z_]+/run=[^/]+/rank=(\d+|{NO_VALUE})/trace_id=\d+"
# Files that a writer of lakes names. All others are the user's.
_NOTE = re.compile(rf"{ARCHIVES}/{_TOKEN}\.json")
_OWN = re.compile(
    rf"{_NOTE.pattern}|{_RANK}/{_TOKEN}\.parquet"
    rf"|({ARCHIVES}|{MANIFESTS}/run=[^/]+|{_RANK})/{re.escape(HIDDEN)}{_TOKEN}"
)


@dataclass(frozen=True)
class Cleaned:
    """What was removed: files of replaced or unfinished ranks, and notes about archives whose ranks
    are gone."""

    removed: tuple[str, ...]
    """Their paths in the lake."""
    kept_young: int
    """Files of no rank that may belong to an addition that still runs."""


def clean(root: str, older_than_hours: float = DEFAULT_HOURS) -> Cleaned:
    """Removes files that belong to no visible rank and were written long ago.

    It follows no link below the lake's folder, and leaves files that are not named as a lake names
    its own.

    Raises:
        TracekitError: when there is no lake.
    """
    lake = storage(root)
    if lake.read(MARK) is None:
        raise TracekitError(f"{root}: is not a lake: `tracekit lake add` makes one")
    # List first: what appears after that is young.
    listed = [each for folder in (TABLES, MANIFESTS, ARCHIVES) for each in lake.listed(folder)]
    ranks = visible(lake)
    used = {rank.path(table) for rank in ranks for table in rank.files}
    urls = {rank.source.url for rank in ranks}
    unused = [
        each
        for each in listed
        if _OWN.fullmatch(each.path)
        and each.path not in used
        and not (_NOTE.fullmatch(each.path) and _url_of(lake, each.path) in urls)
    ]
    old = [each.path for each in unused if each.age_s >= older_than_hours * 3600]
    lake.remove(old)
    return Cleaned(tuple(old), len(unused) - len(old))


def _url_of(lake: Storage, note: str) -> str | None:
    """The archive that a note is about; None if it cannot be read."""
    archive = read_archive(lake.read(note) or b"")
    return None if archive is None else archive.source.url
