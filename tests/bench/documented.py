"""Asks a lake the documented questions in one engine, and prints how long each takes and its rows.

python -m tests.bench.documented LAKE tracekit|duckdb|polars|chdb|spark
"""

import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "examples" / "lake.md"
QUESTIONS = re.findall(r"```sql\n(.*?)```", PAGE.read_text(), re.DOTALL)
TABLES = (
    "run_figures", "verdict", "answer_idle_causes", "collective", "advice", "trace", "trace_span",
)  # fmt: skip


def asker(lake: str, engine: str) -> Callable[[str], Sequence[Any]]:
    """A function that asks one question."""
    if engine == "tracekit":
        from tracekit.run import open_lake

        connection = open_lake(lake).session._connection
        connection.execute("USE lake")
        return lambda sql: connection.execute(sql).fetchall()
    if engine == "duckdb":
        import duckdb

        opened = duckdb.connect()
        for each in TABLES:
            opened.execute(f"CREATE VIEW {each} AS FROM read_parquet({_files(lake, each)})")
        return lambda sql: opened.execute(sql).fetchall()
    if engine == "polars":
        import polars

        frames = {each: polars.scan_delta(f"{lake}/tables/{each}") for each in TABLES}
        context = polars.SQLContext(frames)
        return lambda sql: context.execute(sql).collect().rows()
    if engine == "spark":
        from pyspark.sql import SparkSession

        here = dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
        builder = SparkSession.builder.master("local[*]")
        spark = builder.config(map={"spark.ui.enabled": "false"} | here).getOrCreate()
        for each in TABLES:
            spark.read.parquet(*_files(lake, each)).createOrReplaceTempView(each)
        return lambda sql: spark.sql(sql).collect()
    import chdb

    # It reads only files below its folder.
    os.chdir(lake)
    server = chdb.connect(f":memory:?user_files_path={lake}")
    named = re.compile(rf"(FROM|JOIN) ({'|'.join(TABLES)})\b")
    table = rf"\1 deltaLakeLocal('{lake}/tables/\2')"

    def ask(sql: str) -> Sequence[Any]:
        answer = server.query(named.sub(table, sql), "JSONCompact")
        return json.loads(str(answer))["data"]

    return ask


def _files(lake: str, table: str) -> list[str]:
    import deltalake

    return deltalake.DeltaTable(f"{lake}/tables/{table}").file_uris()


def main() -> None:
    lake, engine = sys.argv[1:]
    begun = time.monotonic()
    ask = asker(str(Path(lake).absolute()), engine)
    times, answers = [time.monotonic() - begun], []
    for each in QUESTIONS:
        begun = time.monotonic()
        answers.append(ask(each))
        times.append(time.monotonic() - begun)
    said = {"seconds": [round(each, 2) for each in times], "rows": [len(each) for each in answers]}
    print(json.dumps(said | {"answers": answers}), flush=True)
    # The threads of some engines do not end.
    os._exit(0)


if __name__ == "__main__":
    main()
