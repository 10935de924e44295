"""How sure the fact `host_wait` is: for each way in which a wait is known, how many waits the real
traces have, and how many of the calls return at most 30 us after the op that they wait for.

    python -m tests.bench.waits
"""

import polars

import tracekit
from tests.conftest import SHARED_TRACES
from tracekit.errors import TracekitError

SQL = """
    SELECT known_from, coalesce(e.name, '') AS call, end_ns - start_ns AS wait_ns,
           coalesce(e.ts_ns + e.dur_ns, end_ns) - released_ns AS lag_ns,
           awaited_id IS NOT NULL AS has_op
    FROM host_wait LEFT JOIN event AS e USING (trace_id, event_id)
"""


def main() -> None:
    found = []
    for path in sorted(SHARED_TRACES.glob("*.json.gz")):
        try:
            with tracekit.load(path) as run:
                found.append(run.sql(SQL).with_columns(trace=polars.lit(path.name)))
        except TracekitError as error:
            print(error)
    is_prompt = polars.col("has_op") & polars.col("lag_ns").is_between(-1_000, 30_000)
    waits = polars.concat(found).group_by("known_from").agg(
        traces=polars.col("trace").n_unique(),
        waits=polars.len(),
        ms=polars.col("wait_ns").sum() // 1_000_000,
        for_ops=polars.col("has_op").sum(),
        within_30_us=is_prompt.sum(),
    )  # fmt: skip
    with polars.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True):
        print(waits.sort("ms", descending=True))


if __name__ == "__main__":
    main()
