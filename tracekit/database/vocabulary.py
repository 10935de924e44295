"""The views and macros of a database in memory."""

from __future__ import annotations

import re
import threading

import duckdb

from tracekit.database import catalog

_COMMENT = re.compile(r"--[^\n]*")
_WORD = re.compile(r"\w+")
# SQL that may list views, or name one without mentioning it.
_OF_CATALOG = re.compile(
    r"duckdb_\w+\(|information_schema|sqlite_|pg_|show\s+(all\s+)?tables|query_table\(",
    re.IGNORECASE,
)


class Vocabulary:
    """The views and macros of a database in memory. Creating them all takes 0.1 s, so each is
    created once SQL mentions it."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._missing = dict(catalog.vocabulary())
        self._lock = threading.Lock()

    def add(self, sql: str) -> None:
        """Creates what the SQL mentions, directly or through others; everything, if it reads the
        catalog."""
        with self._lock:
            mentioned = set(self._missing if _OF_CATALOG.search(sql) else ())
            texts = [sql]
            while texts:
                words = set(_WORD.findall(_COMMENT.sub("", texts.pop()).lower()))
                new = (words & self._missing.keys()) - mentioned
                mentioned |= new
                texts += [self._missing[name] for name in new]
            if mentioned:
                with self._connection.cursor() as cursor:
                    for name in [each for each in self._missing if each in mentioned]:
                        cursor.execute(self._missing.pop(name))
