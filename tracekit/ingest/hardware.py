"""Peak rates of devices, from hardware.toml and from a user's file, which takes precedence."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import duckdb
import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from tracekit import plugins
from tracekit.database import catalog
from tracekit.errors import TracekitError, explained

_Rate = Annotated[float, Meta(gt=0)]
_Format = Literal[
    "fp64", "fp64_tensor", "fp32", "fp32_matrix", "tf32", "bf16", "fp16", "fp8", "fp6", "fp4",
    "int8",
]  # fmt: skip


class Peaks(Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of a hardware file: a device's peak rates. `match` is the regular expression that
    matches the device's name; `tflops` are dense operations by number format; `cache_mb` is the
    last cache before the memory, in MiB; `clock_mhz` is the clock at which the peaks are stated."""

    name: str
    match: str
    source: str
    memory_gb_per_s: _Rate | None = None
    host_link_gb_per_s: _Rate | None = None
    link_gb_per_s: _Rate | None = None
    memory_source: str | None = None
    cache_mb: _Rate | None = None
    cache_source: str | None = None
    clock_mhz: _Rate | None = None
    clock_source: str | None = None
    tflops: dict[_Format, _Rate] = {}
    note: str | None = None


class _Devices(Struct):
    device: Annotated[list[Peaks], Meta(min_length=1)]


def peaks(own: str | Path | None = None) -> list[Peaks]:
    """All known devices: from the file `own`, from tracekit, and from plugins. The first match for
    a device's name counts.

    Raises:
        TracekitError: when `own` cannot be read or is not a valid hardware file.
    """
    return ([] if own is None else _read(Path(own))) + _shipped() + _of_plugins()


@cache
def _shipped() -> list[Peaks]:
    text = (files("tracekit") / "hardware.toml").read_bytes()
    return msgspec.toml.decode(text, type=_Devices).device


@cache
def _of_plugins() -> list[Peaks]:
    """The plugins' devices; their names and sources name the plugin."""
    found = []
    names = {each.name for each in _shipped()}
    for plugin, file in plugins.files("hardware", "hardware.toml"):
        with plugin.leaving_out(plugins.named(file)):
            devices = _read(file)
            if taken := next((device.name for device in devices if device.name in names), None):
                raise TracekitError(f"tracekit already has a device named {taken}")
            for each in devices:
                name = f"{each.name} (plugin {plugin.name})"
                found.append(replace(each, name=name, source=plugin.mark(each.source)))
    return found


def _read(path: Path) -> list[Peaks]:
    with explained(f"{path}: cannot be read as a hardware file", OSError, ValueError):
        devices = msgspec.toml.decode(path.read_bytes(), type=_Devices).device
    for device in devices:
        what = f"{path}: match {device.match!r} is not an RE2 regular expression"
        with explained(what, duckdb.Error):
            duckdb.execute("SELECT regexp_matches('', $1)", [device.match])
    return devices


def record_peaks(connection: duckdb.DuckDBPyConnection, devices: list[Peaks]) -> None:
    """Writes the peak rates of devices, replacing earlier ones."""
    rows = [
        {
            "place": place,
            "name": each.name,
            "pattern": each.match,
            "memory_bytes_per_s": each.memory_gb_per_s and each.memory_gb_per_s * 1e9,
            "host_link_bytes_per_s": each.host_link_gb_per_s and each.host_link_gb_per_s * 1e9,
            "link_bytes_per_s": each.link_gb_per_s and each.link_gb_per_s * 1e9,
            "cache_bytes": each.cache_mb and round(each.cache_mb * (1 << 20)),
            "clock_mhz": each.clock_mhz,
            "flop_per_s": {name: rate * 1e12 for name, rate in each.tflops.items()},
            "source": "; ".join(
                filter(
                    None, (each.source, each.memory_source, each.cache_source, each.clock_source)
                )
            ),
            "note": each.note,
        }
        for place, each in enumerate(devices)
    ]
    connection.execute("DELETE FROM hardware")
    connection.execute(catalog.schema("write_hardware"), {"devices": json.dumps(rows)})
