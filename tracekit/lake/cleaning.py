"""Files of a lake that no reader sees any more."""

from __future__ import annotations

import json
from dataclasses import dataclass

from tracekit.errors import TracekitError
from tracekit.lake.layout import ARCHIVES, MANIFESTS, MARK, TABLES, Rank
from tracekit.lake.reading import visible
from tracekit.lake.storage import storage

DEFAULT_HOURS = 24.0


@dataclass(frozen=True)
class Cleaned:
    """What was removed: files of replaced or unfinished ranks."""

    files: int
    kept_young: int
    """Files of no rank that may belong to an addition that still runs."""


def clean(root: str, older_than_hours: float = DEFAULT_HOURS) -> Cleaned:
    """Removes files that belong to no visible rank and were written long ago.

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
    unused = [
        each
        for each in listed
        if (each.path.startswith(f"{TABLES}/") or not each.path.endswith(".json"))
        and each.path not in used
    ]
    old = [each.path for each in unused if each.age_s >= older_than_hours * 3600]
    lake.remove(old)
    _forget_archives(root, ranks)
    return Cleaned(len(old), len(unused) - len(old))


def _forget_archives(root: str, ranks: list[Rank]) -> None:
    """Removes the notes about archives whose ranks are gone."""
    lake = storage(root)
    urls = {rank.source.url for rank in ranks}
    gone = []
    for path, text in lake.read_all(ARCHIVES).items():
        try:
            is_known = json.loads(text)["source"]["url"] in urls
        except (ValueError, KeyError, TypeError):
            is_known = False
        if not is_known:
            gone.append(path)
    lake.remove(gone)
