"""The SQL files have one form, and all thresholds are in queries/thresholds.csv."""

import ast
import re
from pathlib import Path

from tests.kit import traces
from tracekit.database.names import _FUNCTIONS, names_of, spellings
from tracekit.thresholds import TABLE

QUERIES = Path(__file__).parents[2] / "queries"
FILES = {str(file.relative_to(QUERIES)): file for file in sorted(QUERIES.rglob("*.sql"))}

# Expressions whose numbers are not thresholds.
MEANINGS = [
    r"'.*?'",
    r"\[-?\d+:?\]",  # an index into a list
    r"1e9|1e3|1000\b|\b100(\.0)? \*",  # units
    r"\bpercentile\([^()]*(\([^()]*\))?[^()]*, \d+\)",
    r"getvariable\(''\), (20|1000)\)",  # the number of rows shown
    r"len\(\w\) BETWEEN 3 AND 5",  # tensors of convolutions: batch, channels and space
    r"10 \* up_to >= 9 \*",  # the 90th percentile of a time
]


WIDTH = 110
WORDS = (
    "select|from|where|group|order|having|join|left|on|and|or|not|as|with|union|all|case|when|then|"
    "else|end|create|replace|view|macro|limit|qualify|over|partition|filter|null|between|exists|using"
)


def test_files_are_written_in_one_form():
    """At most 110 columns, keywords in capitals, no tabs or trailing blanks, and a first line that
    says what the file answers."""
    assert {name: found for name, file in FILES.items() if (found := against_the_form(file))} == {}


def against_the_form(file: Path) -> list[str]:
    """The violations of that form in a file."""
    lines = file.read_text().splitlines()
    text = re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"", "''", code(file))
    return [
        *(lines[:1] if not lines[0].startswith("-- ") else []),
        *(each for each in lines if len(each) > WIDTH or each != each.rstrip() or "\t" in each),
        *re.findall(rf"\b(?:{WORDS})\b(?!\()", text),
        *([] if file.read_text().endswith("\n") else ["no newline at the end"]),
    ]


def test_windows_count_in_linear_time():
    """DuckDB takes quadratic time for a running `count(*) FILTER`; `count_if` says the same."""
    slow = r"count\((?!DISTINCT)[^()]*\) FILTER \([^()]*\) OVER"
    assert [name for name, file in FILES.items() if re.search(slow, code(file))] == []


def test_the_most_frequent_value_is_the_same_for_any_number_of_threads():
    """Of equally frequent values, DuckDB takes the one that it meets first."""
    unordered = r"\bmode\((?![^()]* ORDER BY )"
    assert [name for name, file in FILES.items() if re.search(unordered, code(file))] == []


def test_a_question_fits_on_two_screens():
    folders = {file.parent.name for file in FILES.values()} - {"facts", "schema", "views"}
    long = {
        name: len(lines)
        for name, file in FILES.items()
        if file.parent.name in folders and len(lines := file.read_text().splitlines()) > 150
    }
    assert long.keys() <= {"replay/one_off_candidates.sql", "trace/health.sql"}


def code(file: Path) -> str:
    """A file's text without its comments."""
    return re.sub(r"--[^\n]*", "", file.read_text())


def test_no_number_that_judges_stands_in_a_query():
    known = {
        "facts/attention_work.sql": ["2.5"],
        "replay/device_limits.sql": ["''), 4"],  # bytes of a number
        "facts/window_timeline_parts.sql": ["10000"],
    }
    judging = {
        name: [number for number in judges(file) if number not in known.get(name, [])]
        for name, file in FILES.items()
    }
    assert {name: found for name, found in judging.items() if found} == {}


def judges(file: Path) -> list[str]:
    """Numbers in a file's SQL, and comparisons with one, that may be thresholds."""
    text = code(file)
    for meaning in MEANINGS:
        text = re.sub(meaning, "''", text)
    number = r"(?:\d{5,}|\d+\.\d+|\d*[3-9]|\d{2,})"
    compared = re.findall(
        rf"(?:(?<![<>])[<>]=?(?![<>])|BETWEEN|AND|greatest\(|least\(|''\),) -?{number}\b", text
    )
    large = re.findall(r"\b\d{5,}\b", text)
    parts = re.findall(r"\b\d+\.\d+\b", text)
    return compared + large + parts


def test_spellings_have_known_facets_and_kinds_a_source_and_no_twin():
    rows = spellings()
    # The question `settings` reads these in the view.
    viewed = {"device", "backend", "format"}
    assert {row.facet for row in rows} == viewed | {facet for facet, _ in _FUNCTIONS.values()}
    # A frame in a stack of a memory snapshot is no event.
    kinds = {row.meaning for row in rows if row.facet == "kind"} | {"stack"}
    assert {kind for row in rows for kind in row.kinds.split()} <= kinds
    assert all(row.source and re.compile(row.pattern) for row in rows)
    assert len({(row.facet, row.kinds, row.meaning, row.pattern) for row in rows}) == len(rows)


def test_an_operator_listed_by_name_has_one_kind_of_work():
    rows = [row for row in spellings() if row.facet == "work"]
    listed = [(name, row) for row in rows for name in names_of(row.pattern)]
    assert len({name for name, _ in listed}) == len(listed) > len(rows)
    twice = [
        name
        for name, row in listed
        for other in rows
        if other != row and re.search(other.pattern, name)
    ]
    assert twice == []


def test_a_rank_of_kernel_classes_has_one_class():
    classes = [row for row in spellings() if row.facet == "class"]
    ranks = sorted({row.rank for row in classes})
    assert ranks == list(range(1, ranks[-1] + 1))
    assert len({(row.rank, row.meaning) for row in classes}) == ranks[-1]


def test_the_spelling_of_the_lowest_rank_tells_a_kernel_s_class(tmp_path):
    names = ["ncclDevKernel", "TRITON_POI_fused", "sgemm_norm", "convert_f16", "cuConv2d", "what"]
    with traces.load(
        tmp_path, [traces.gpu_op(i, 1, i, name=n) for i, n in enumerate(names)]
    ) as run:
        known = run.fetch("""
            SELECT k.name, k.class, arg_min(p.meaning, rank)
            FROM kernels AS k LEFT JOIN spelling AS p
              ON facet = 'class' AND regexp_matches(k.name, pattern)
            GROUP BY ALL ORDER BY ALL
        """)[1]
    assert [name for name, *_ in known] == sorted(names)
    assert all(kind == (listed or "other") for _, kind, listed in known)
    assert len({kind for _, kind, _ in known}) == 5


def sql_in_python() -> dict[str, str]:
    """SQL strings in the package's modules, by file, line and column.

    constants.py and names.py are left out: they generate SQL from tables. So do the readers of
    other profilers' databases, for SQLite, from the columns that are there.
    """
    found = {}
    for path in (QUERIES.parent / "tracekit").rglob("*.py"):
        if path.name in ("constants.py", "names.py") or path.parent.name in ("other", "readers"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                text = ast.unparse(node)[2:-1]
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if re.match(r"\s*(SELECT|INSERT|CREATE|WITH|DELETE|UPDATE|FROM)\s[^.]", text):
                found[f"{path.name}:{node.lineno}:{node.col_offset}"] = text
    return found


def test_sql_in_python_is_one_short_line_or_about_duckdb_itself():
    known = sql_in_python()
    assert known
    for place, text in known.items():
        is_short = len(text) <= 90 and not re.search(r"\b(JOIN|GROUP BY|UNION|WITH)\b", text)
        assert is_short or re.search(r"duckdb_\w+\(|system\.main", text), (place, text)


def test_python_uses_the_table_of_thresholds_and_all_of_it():
    files = (QUERIES.parent / "tracekit").rglob("*.py")
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    read = [node for node in nodes if isinstance(node, ast.Attribute)]
    holders = ("thresholds", "Thresholds()")
    judging = {each.attr for each in read if ast.unparse(each.value).endswith(holders)}
    assert judging - {"updated"} - TABLE.keys() == set(), "not in queries/thresholds.csv"
    of_python = {name for name, each in TABLE.items() if not each.in_sql}
    assert of_python - {each.attr for each in read} == set(), "no module reads it"
