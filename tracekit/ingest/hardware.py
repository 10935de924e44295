"""Peak rates of devices, from hardware.toml and from a user's file, which takes precedence."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb
from msgspec import Struct, to_builtins

from tracekit.database import catalog
from tracekit.errors import TracekitError

FORMATS = (
    "fp64",
    "fp64_tensor",
    "fp32",
    "fp32_matrix",
    "tf32",
    "bf16",
    "fp16",
    "fp8",
    "fp6",
    "fp4",
    "int8",
)
_KEYS = {
    "name", "match", "memory_gb_per_s", "host_link_gb_per_s", "tflops", "source", "memory_source",
    "note",
}  # fmt: skip


class Peaks(Struct, frozen=True):
    """A device's peak rates: bytes per second of memory and of its link to the host, and dense
    operations per second by number format. `pattern` is the regular expression that matches the
    device's name."""

    name: str
    pattern: str
    memory_bytes_per_s: float | None
    host_link_bytes_per_s: float | None
    flop_per_s: dict[str, float]
    source: str
    note: str | None


def peaks(own: str | Path | None = None) -> list[Peaks]:
    """All known devices, starting with those of the file `own`; the first match for a device's name
    counts.

    Raises:
        TracekitError: when `own` cannot be read or is not a valid hardware file.
    """
    return ([] if own is None else _read(Path(own))) + _shipped()


@cache
def _shipped() -> list[Peaks]:
    text = (files("tracekit") / "hardware.toml").read_text(encoding="utf-8")
    return _parsed(text, "hardware.toml")


def record_peaks(connection: duckdb.DuckDBPyConnection, devices: list[Peaks]) -> None:
    """Writes the peak rates of devices, replacing earlier ones."""
    rows = [to_builtins(device) | {"place": place} for place, device in enumerate(devices)]
    connection.execute("DELETE FROM hardware")
    connection.execute(catalog.schema("write_hardware"), {"devices": json.dumps(rows)})


def _read(path: Path) -> list[Peaks]:
    try:
        devices = _parsed(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "is not UTF-8 text"
        raise TracekitError(f"{path}: cannot be read as a hardware file: {reason}") from error
    for each in devices:
        try:
            duckdb.execute("SELECT regexp_matches('', $1)", [each.pattern])
        except duckdb.Error as error:
            raise TracekitError(
                f"{path}: match {each.pattern!r} is not an RE2 regular expression: {error}"
            ) from error
    return devices


def _parsed(text: str, name: str) -> list[Peaks]:
    try:
        devices = tomllib.loads(text).get("device")
    except tomllib.TOMLDecodeError as error:
        raise TracekitError(f"{name}: is not TOML: {error}") from error
    if not isinstance(devices, list) or not devices:
        raise TracekitError(f"{name}: has no [[device]] entries")
    return [_checked(each, f"{name}: [[device]] {place}") for place, each in enumerate(devices, 1)]


def _checked(entry: Any, where: str) -> Peaks:
    if not isinstance(entry, dict) or not {"name", "match", "source"} <= entry.keys():
        raise TracekitError(f"{where}: needs name, match and source")
    if unknown := entry.keys() - _KEYS:
        raise TracekitError(f"{where}: unknown key {min(unknown)!r}; the keys are {_listed(_KEYS)}")
    rates = entry.get("tflops", {})
    if not isinstance(rates, dict) or rates.keys() - set(FORMATS):
        raise TracekitError(f"{where}: tflops must be a table of rates for {_listed(FORMATS)}")
    memory, link = (entry.get(key) for key in ("memory_gb_per_s", "host_link_gb_per_s"))
    for figure in [*rates.values(), *(each for each in (memory, link) if each is not None)]:
        if isinstance(figure, bool) or not isinstance(figure, int | float) or not figure > 0:
            raise TracekitError(f"{where}: {figure!r} is not a rate: give a number above 0")
    if not isinstance(entry["match"], str):
        raise TracekitError(f"{where}: match is not text")
    return Peaks(
        name=str(entry["name"]),
        pattern=entry["match"],
        memory_bytes_per_s=None if memory is None else memory * 1e9,
        host_link_bytes_per_s=None if link is None else link * 1e9,
        flop_per_s={format_: rate * 1e12 for format_, rate in rates.items()},
        source="; ".join(str(entry[key]) for key in ("source", "memory_source") if key in entry),
        note=entry.get("note"),
    )


def _listed(names: Any) -> str:
    return ", ".join(sorted(names))
