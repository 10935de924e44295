"""A lake's runs: their ranks, and how to change them.

A run is a chain of versions. A writer reads the last one and creates the next. If two writers do so
at the same time, one succeeds, and the other retries from the new version. A version that is still
being written does not exist yet; one that stays unfinished is an error, not an older state.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Set
from functools import cached_property
from hashlib import sha256
from posixpath import basename, dirname

from msgspec import Struct
from msgspec.structs import replace

from tracekit.errors import TracekitError
from tracekit.lake import layout
from tracekit.lake.layout import Group, GroupEntry, Rank, Source, Version
from tracekit.lake.storage import Storage
from tracekit.records import parsed

# The number of versions to keep, for readers that started a moment ago.
_VERSIONS = 4
_VERSION = re.compile(layout.VERSION_NAME)
# After this long, the writer of an unfinished version is considered dead.
_UNFINISHED_S = 60.0
_POLL_S = 0.1


class LakeRun(Struct, frozen=True, dict=True):
    """One version of a run, or some of its ranks; changes create new versions."""

    root: str
    name: str
    number: int
    groups: tuple[Group, ...]
    whole: LakeRun | None = None
    """The run with all ranks; None: this run has all ranks."""

    @cached_property
    def ranks(self) -> dict[str, Rank]:
        """The ranks by name, numbered ranks first."""
        every = [rank for each in self.data for rank in each.here]
        return {each.name: each for each in sorted(every, key=lambda each: each.order)}

    @property
    def data(self) -> list[Group]:
        return [group for group in self.groups if group.context is None]

    @cached_property
    def context(self) -> str:
        """A digest of the ranks that are judged together."""
        if self.whole:
            return self.whole.context
        members = sorted(rank.sha256 for rank in self.ranks.values() if rank.rank is not None)
        return sha256("".join(members).encode()).hexdigest()[:16]

    def only(self, names: Set[str]) -> LakeRun:
        if self.ranks.keys() <= names:
            return self
        groups = [group.only(names) for group in self.groups]
        here = tuple(group for group in groups if group.here)
        return replace(self, groups=here, whole=self.whole or self)

    def alone(self, rank: Rank) -> LakeRun:
        """The run with only one rank."""
        groups = (group.only({rank.name}) for group in self.groups)
        here = tuple(replace(group, ranks=group.here) for group in groups if group.here)
        return LakeRun(self.root, self.name, self.number, here)

    def with_group(
        self, group: Group, names: Iterable[str], removed: Iterable[str] = ()
    ) -> LakeRun:
        """The run in which a group's ranks replace the existing ones, without `others`.

        Verdicts replace only verdicts.
        """
        chosen = set(names)
        replaced = {*chosen, *removed}
        rest = [
            each
            if group.context is not None and each.context is None
            else each.only({rank.name for rank in each.here} - replaced)
            for each in self.groups
        ]
        left = (each for each in rest if each.here)
        return replace(self, groups=(*left, group.only(chosen)))

    def with_sources(self, sources: Mapping[str, Source]) -> LakeRun:
        """The run in which some ranks' files have a new state, but the same content."""
        moved = {
            name: source
            for name, source in sources.items()
            if (rank := self.ranks.get(name))
            and rank.source.is_same(source)
            and rank.source != source
        }
        if not moved:
            return self
        return replace(self, groups=tuple(_with_sources(group, moved) for group in self.groups))


def _with_sources(group: Group, sources: Mapping[str, Source]) -> Group:
    if group.context is not None or not any(each.name in sources for each in group.here):
        return group
    ranks = [replace(rank, source=sources.get(rank.name, rank.source)) for rank in group.ranks]
    return replace(group, token=new_token(), ranks=ranks)


def new_token() -> str:
    return uuid.uuid4().hex


def read_runs(lake: Storage, name: str | None = None) -> list[LakeRun]:
    """The runs of a lake, or one of them, by name.

    Raises:
        TracekitError: when a manifest is not valid.
    """
    folder = layout.MANIFESTS if name is None else layout.run_folder(name)
    versions = _last_versions(lake, folder)
    wanted = [
        f"{dirname(path)}/{each.token}.json" for path, version in versions.items()
        for each in version.groups
    ]  # fmt: skip
    groups = {path: layout.read_group(text, path) for path, text in lake.read_all(wanted)}
    missing = next((path for path in wanted if path not in groups), None)
    if missing is not None:
        raise TracekitError(f"{lake.root}: a file is missing: {missing}")
    runs = [_run(lake, path, version, groups) for path, version in versions.items()]
    return sorted(runs, key=lambda each: each.name)


def _last_versions(lake: Storage, folder: str) -> dict[str, Version]:
    """The last version of each run below a folder, by its path."""
    before: dict[str, str] = {}
    unfinished: set[str] = set()
    while True:
        paths = [path for path in lake.paths(folder) if _VERSION.fullmatch(basename(path))]
        whole = sorted(set(paths) - unfinished, key=_number)
        last = {dirname(path): path for path in whole}
        texts = dict(lake.read_all(last.values()))
        if cut := {path for path, text in texts.items() if _is_cut(text)}:
            _require_young(lake, cut)
            unfinished |= cut
            continue
        missing = next((path for path in last.values() if path not in texts), None)
        if missing is None:
            return {path: layout.read_version(text, path) for path, text in texts.items()}
        # If newer versions replaced it, the next listing has them.
        if last == before:
            raise TracekitError(f"{lake.root}: {missing} exists, but cannot be read")
        before = last


def _number(path: str) -> int:
    return int(basename(path).removesuffix(".json"))


def _is_cut(text: bytes) -> bool:
    """Whether a manifest is truncated or empty."""
    try:
        parsed(text)
    except ValueError:
        return True
    return False


def _require_young(lake: Storage, versions: Iterable[str]) -> None:
    """Raises TracekitError if one of these versions is unfinished and its writer is dead."""
    for path in versions:
        if dict(lake.ages(dirname(path))).get(path, 0.0) >= _UNFINISHED_S:
            raise TracekitError(
                f"{lake.root}: {path} is damaged or truncated: remove it, and add the traces again "
                "that the "
                "run then lacks"
            )


def _run(lake: Storage, path: str, version: Version, groups: Mapping[str, Group]) -> LakeRun:
    named = [
        replace(groups[f"{dirname(path)}/{each.token}.json"], without=each.without)
        for each in version.groups
    ]
    here = tuple(each for each in named if each.here)
    return LakeRun(lake.root, named[0].run, _number(path), here)


def read_run(lake: Storage, name: str) -> LakeRun:
    """A run; without ranks if there is no run of that name."""
    return next(iter(read_runs(lake, name)), LakeRun(lake.root, name, 0, ()))


def change_run(lake: Storage, name: str, change: Callable[[LakeRun], LakeRun]) -> LakeRun:
    """Replaces a run by `change(run)`. If another writer was faster, calls `change` again."""
    number, since_s = -1, 0.0
    while True:
        before = read_run(lake, name)
        after = change(before)
        if after is before:
            return before
        tokens = {group.token for group in before.groups}
        for each in after.groups:
            if each.token not in tokens:
                lake.write(each.key, each.as_json())
        version = Version([GroupEntry(group.token, group.without) for group in after.groups])
        path = layout.version_path(name, before.number + 1)
        if lake.create(path, version.as_json()):
            if before.number >= _VERSIONS:
                lake.remove([layout.version_path(name, before.number + 1 - _VERSIONS)])
            return replace(after, number=before.number + 1)
        if number != before.number:
            number, since_s = before.number, time.monotonic()
        elif time.monotonic() - since_s < _UNFINISHED_S:
            # The other writer has not finished yet.
            time.sleep(_POLL_S)
        else:
            raise TracekitError(f"{lake.root}: {path} exists, but is not a version of a run")
