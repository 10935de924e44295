"""Device peaks: which entry a name matches, and what a user's file may contain."""

import re

import duckdb
import pytest

from tracekit import TracekitError
from tracekit.database import catalog
from tracekit.ingest.hardware import peaks, record_peaks


def entry_of(name: str) -> str | None:
    return next((each.name for each in peaks() if re.search(each.match, name)), None)


@pytest.mark.parametrize(
    ("name", "tera", "giga"),
    [
        ("Tesla V100-SXM2-32GB", 125, 900), ("Tesla T4", 65, 320), ("NVIDIA A10", 125, 600),
        ("NVIDIA A100-SXM4-40GB", 312, 1555), ("A100-SXM4-80GB", 312, 2039),
        ("NVIDIA A100 80GB PCIe", 312, 1935), ("NVIDIA H100 80GB HBM3", 989, 3350),
        ("NVIDIA H100 PCIe", 756, 2000), ("NVIDIA H200", 989, 4800),
        ("NVIDIA A100-PG509-200", 312, 1555), ("NVIDIA PG509-210", 312, 2039),
        ("NVIDIA A100-PG509-210", 312, 2039), ("NVIDIA H800", 989, 3350),
        ("NVIDIA H800 PCIe", 756, 2000), ("Tesla V100-DGXS-32GB", 125, 900),
        ("NVIDIA GeForce RTX 2080 Ti", 56.9, 616), ("Quadro GP100", 20.7, 732),
        ("Tesla P100-SXM2-16GB", 21.2, 732), ("AMD Instinct MI300X", 1307, 5300),
        ("AMD Instinct MI355X", 2516, 8000),
    ],
)  # fmt: skip
def test_a_devices_name_finds_its_peaks(name, tera, giga):
    found = next(each for each in peaks() if re.search(each.match, name))
    assert found.tflops["fp16"] == pytest.approx(tera, rel=0.005)
    assert found.memory_gb_per_s == pytest.approx(giga, rel=0.005)


ASKED_FOR = """
    NVIDIA L4, NVIDIA L40S, NVIDIA H100 NVL, NVIDIA B200, NVIDIA GB200, NVIDIA B300 SXM6 AC,
    NVIDIA GeForce RTX 3090, NVIDIA GeForce RTX 4090, NVIDIA GeForce RTX 5090, AMD Instinct MI210,
    AMD Instinct MI250X / MI250, AMD Instinct MI325X, NVIDIA L40, NVIDIA L20, NVIDIA A30,
    NVIDIA GB300, NVIDIA GB10, NVIDIA RTX PRO 6000 Blackwell Workstation Edition, NVIDIA RTX A4000,
    NVIDIA GeForce RTX 3060, NVIDIA GeForce RTX 4060, NVIDIA GeForce RTX 4080 SUPER,
    NVIDIA GeForce RTX 5080, NVIDIA GeForce RTX 3060 Laptop GPU,
    NVIDIA GeForce RTX 4090 Laptop GPU, NVIDIA GeForce RTX 5090 Laptop GPU,
    Intel(R) Data Center GPU Max 1550, Intel(R) Arc(TM) A770 Graphics,
    Intel(R) Arc(TM) B580 Graphics, TPU v5 lite, TPU v5, TPU v5p, TPU v6 lite, TPU v6e
"""
LEAVES_OPEN = """
    NVIDIA A100, NVIDIA A100-SXM4-40GB MIG 1g.5gb, NVIDIA GeForce RTX 4090 D, NVIDIA L40G,
    NVIDIA GeForce RTX 3090 Ti, NVIDIA GeForce RTX 4080, NVIDIA GeForce RTX 4080 Laptop GPU,
    NVIDIA GeForce RTX 4060 Ti, NVIDIA GeForce RTX 4060 Laptop GPU, NVIDIA GeForce RTX 3060 Ti,
    NVIDIA GeForce RTX 5080 Laptop GPU, NVIDIA GeForce RTX 5090 D, NVIDIA RTX A4000 Laptop GPU,
    NVIDIA RTX PRO 6000 Blackwell Server Edition, NVIDIA A30 MIG 1g.6gb, NVIDIA A30X,
    NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition, Intel(R) Arc(TM) A770M Graphics,
    Intel(R) Data Center GPU Max 1550 VG, Intel(R) Data Center GPU Max 1100, TPU v4, TPU7x,
    AMD Instinct MI308X
"""
SIBLINGS = {
    "NVIDIA GeForce RTX 4090": "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA GeForce RTX 5090": "NVIDIA GeForce RTX 5090 Laptop GPU",
    "NVIDIA GeForce RTX 3060": "NVIDIA GeForce RTX 3060 Laptop GPU",
    "NVIDIA L40": "NVIDIA L40S", "NVIDIA L4": "NVIDIA L40", "NVIDIA B300": "NVIDIA GB300",
    "TPU v5 lite": "TPU v5", "NVIDIA A30": "NVIDIA A10",
}  # fmt: skip


@pytest.mark.parametrize(("names", "is_there"), [(ASKED_FOR, True), (LEAVES_OPEN, False)])
def test_every_device_asked_for_is_there_and_none_that_a_name_leaves_open(names, is_there):
    listed = [" ".join(name.split()) for name in names.split(",")]
    assert [name for name in listed if (entry_of(name) is not None) != is_there] == []


def test_cards_with_similar_names_have_entries_of_their_own():
    assert [each for each in SIBLINGS.items() if entry_of(each[0]) == entry_of(each[1])] == []


@pytest.mark.parametrize(
    ("name", "giga"),
    [("NVIDIA H100 80GB HBM3", 63), ("NVIDIA A100-SXM4-40GB", 31.5), ("Tesla V100-DGXS-32GB", 0)],
)
def test_a_cards_link_to_the_host_is_known_by_its_generation(name, giga):
    found = next(each for each in peaks() if re.search(each.match, name))
    assert (found.host_link_gb_per_s or 0) == giga


def test_a_cache_is_in_units_of_two_to_the_20_and_unknown_where_no_source_tells():
    connection = duckdb.connect()
    connection.execute(catalog.schema("tables"))
    record_peaks(connection, peaks())
    found = dict(connection.execute("SELECT name, cache_bytes FROM hardware").fetchall())
    # CUDA's deviceQuery gives 41943040 for an A100.
    assert found["NVIDIA A100-SXM4-40GB"] == 41943040
    assert found["AMD Instinct MI250X (one GCD)"] == 8 << 20
    assert found["NVIDIA A10"] is None


def test_every_pattern_is_one_of_re2():
    for each in peaks():
        duckdb.execute("SELECT regexp_matches('', $1)", [each.match])


def test_every_figure_is_a_dense_rate_with_a_source():
    for each in peaks():
        assert each.source.startswith("http"), each.name
        # Wider formats are never faster on the same units.
        rates = [each.tflops.get(f) for f in ("fp8", "fp16", "tf32", "fp32")]
        known = [rate for rate in rates if rate is not None]
        assert known == sorted(known, reverse=True), each.name


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (None, "No such file or directory"),
        ("[[device", "at the end of an array declaration"),
        ("x = 1", "missing required field `device`"),
        ("[[device]]\nname = 'x'", "missing required field `match` - at `$.device[0]`"),
        ("[[device]]\nname = 'x'\nmatch = '('\nsource = 's'", "not an RE2 regular expression"),
        # Python supports lookahead; RE2 does not.
        ("[[device]]\nname = 'x'\nmatch = 'A(?! B)'\nsource = 's'", "not an RE2 regular"),
        ("[[device]]\nname = 'x'\nmatch = 'x'\nsource = 's'\nspeed = 1", "unknown field `speed`"),
        (
            "[[device]]\nname = 'x'\nmatch = 'x'\nsource = 's'\ntflops = {fp17 = 1}",
            "Invalid enum value 'fp17'",
        ),
        ("[[device]]\nname = 'x'\nmatch = 'x'\nsource = 's'\ntflops = {fp16 = -1}", "float` > 0.0"),
        ("[[device]]\nname = 'x'\nmatch = 'x'\nsource = 's'\nmemory_gb_per_s = true", "got `bool`"),
    ],
)
def test_a_wrong_hardware_file_is_refused_with_its_place(text, complaint, tmp_path):
    if text is not None:
        (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(TracekitError, match=re.escape(complaint)) as error:
        peaks(tmp_path / "mine.toml")
    assert "mine.toml" in str(error.value)
