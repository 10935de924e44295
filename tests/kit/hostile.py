"""Databases that look like tracekit's, made by an attacker."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb

import tracekit
from tests.kit import traces

EVENTS = [traces.launch(0, 1, 1), traces.gpu_op(5, 5, 1)]
SECRET = "the secret"


@cache
def _loaded() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "good.duckdb"
        tracekit.load(traces.write(Path(folder) / "good.json", EVENTS), path).close()
        return path.read_bytes()


def good(folder: Path) -> Path:
    """A database as `load` writes it, and its trace."""
    traces.write(folder / "good.json", EVENTS)
    path = folder / "good.duckdb"
    path.write_bytes(_loaded())
    return path


def make_hostile(folder: Path, attempt: str) -> Path:
    """A database as `load` writes it, changed by one of ATTEMPTS."""
    path = good(folder)
    secret = secret_in(folder)
    with duckdb.connect(str(path)) as connection:
        for statement in ATTEMPTS[attempt]:
            connection.execute(statement.replace("{secret}", str(secret)))
    return path


def secret_in(folder: Path) -> Path:
    """A file that no query may read."""
    path = folder / "secret.txt"
    path.write_text(SECRET)
    return path


STOLEN = "(SELECT content FROM read_text('{secret}'))"
ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM r) SELECT x FROM r"
RENAMED = "ALTER TABLE trace RENAME TO trace_before"

# The attacker's statements, by their aims; {secret} is a file that no query may read.
ATTEMPTS = {
    "a macro says that the configuration is locked": ["CREATE MACRO current_setting(name) AS TRUE"],
    "a macro takes the place of an operator": ["CREATE MACRO \"||\"(a, b) AS 'else'"],
    "a macro takes the place of an aggregate": ["CREATE MACRO sum(x) AS 1"],
    "a macro of tracekit's reads a file": [
        f"CREATE OR REPLACE MACRO has(traits, trait) AS {STOLEN} IS NOT NULL"
    ],
    "a view in the place of a table reads a file": [
        RENAMED,
        f"CREATE VIEW trace AS SELECT * REPLACE ({STOLEN} AS path) FROM trace_before",
    ],
    "a view of tracekit's reads a file": [
        f"CREATE OR REPLACE VIEW runtime_calls AS SELECT {STOLEN} AS name"
    ],
    "a view in the place of a table never ends": [
        RENAMED,
        f"CREATE VIEW trace AS SELECT t.* FROM trace_before AS t, ({ENDLESS})",
    ],
    "the mark of the format is a view that never ends": [
        "DROP TABLE tracekit",
        f"CREATE VIEW tracekit AS SELECT x::INTEGER AS format FROM ({ENDLESS})",
    ],
    "a table has a column that is computed": [
        "DROP TABLE rejected",
        "CREATE TABLE rejected (trace_id INTEGER NOT NULL, byte_offset BIGINT NOT NULL,"
        " reason VARCHAR NOT NULL, text VARCHAR AS ('x'))",
    ],
    "a table more": ["CREATE TABLE more (x INTEGER)"],
    "a view more": [f"CREATE VIEW more AS SELECT {STOLEN} AS x"],
    "a macro more": ["CREATE MACRO more() AS 1"],
    "a schema more": ["CREATE SCHEMA more"],
    "a type more": ["CREATE TYPE more AS ENUM ('a')"],
    "a sequence more": ["CREATE SEQUENCE more"],
    "an index more": ["CREATE INDEX more ON rejected (byte_offset)"],
}
# These do not touch the tables of the traces.
TRACES_ARE_WHOLE = [
    name for name in ATTEMPTS if " more" in name or "macro" in name or "view of tracekit" in name
]
