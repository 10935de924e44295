"""From a trace to a fix, as a marimo notebook: marimo edit examples/notebook.py

It needs pip install 'torch-tracekit[capture,report,notebook]'.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="From a trace to a fix")


@app.cell
def _():
    import tempfile
    from importlib.util import find_spec
    from pathlib import Path

    import marimo as mo

    import tracekit

    return Path, find_spec, mo, tempfile, tracekit


@app.cell
def _(mo):
    mo.md("""
    # From a trace to a fix

    Attention scores in two versions: `heads.loop` makes one product per head, as a first version
    often does; `heads.batched` makes one for all. This notebook records the first, asks what bounds
    it, finds the line to change, predicts the gain, and then compares with the second.

    To ask about your own run, give its trace: any file that `torch.profiler` wrote.
    """)
    return


@app.cell
def _(find_spec, mo):
    own_trace = mo.ui.text(label="Trace (empty: record heads.loop)", full_width=True)
    changed_trace = mo.ui.text(
        label="Trace after the change (empty: record heads.batched)", full_width=True
    )
    can_record = find_spec("torch") is not None
    mo.vstack([own_trace, changed_trace])
    return can_record, changed_trace, own_trace


@app.cell
def _(Path, can_record, changed_trace, mo, own_trace, tempfile, tracekit):
    mo.stop(
        not (can_record or own_trace.value),
        mo.md("PyTorch is not installed, so there is nothing to record: give a trace above."),
    )
    temporary = tempfile.TemporaryDirectory(prefix="tracekit-notebook-")
    folder = Path(temporary.name)

    def record(step, path):
        """Records ten steps with their Python lines, after three that are only timed."""
        with tracekit.profile(path, steps=10, stacks=True) as profiled:
            for _ in range(14):
                step()
                profiled.step()
        return path

    if own_trace.value:
        traces = [path for path in (own_trace.value, changed_trace.value) if path]
    else:
        import heads

        traces = [
            record(heads.loop, folder / "loop.json.gz"),
            changed_trace.value or record(heads.batched, folder / "batched.json.gz"),
        ]
    run = tracekit.load(traces, folder / "runs.duckdb")
    return run, temporary, traces


@app.cell
def _(mo):
    mo.md("## The verdict: what bounds the run, and why")
    return


@app.cell
def _(run):
    verdict = run.verdict(trace=1)
    verdict
    return (verdict,)


@app.cell
def _(mo):
    mo.md("""
    ## A question of your own

    The trace is a DuckDB database, and an SQL cell can ask it anything. It can only read. The
    tables and views: queries/README.md.
    """)
    return


@app.cell
def _(run):
    connection = run.connection()
    return (connection,)


@app.cell
def _(connection, mo):
    calls = mo.sql(
        """
        SELECT name AS operator, count(*) AS calls, sum(dur_ns) / 1e3 AS total_us
        FROM cpu_ops
        WHERE trace_id = 1
        GROUP BY name
        ORDER BY calls DESC
        LIMIT 10
        """,
        engine=connection,
    )
    return (calls,)


@app.cell
def _(mo):
    mo.md("""
    ## A chart

    Every chart of `tracekit report` is a method of `run.plot`.
    """)
    return


@app.cell
def _(run):
    chart = run.plot.timeline(trace=1)
    chart
    return (chart,)


@app.cell
def _(mo):
    mo.md("""
    ## What to change, and where

    The fix list names lines, with what each change would save alone. Changes that are not worth
    doing are listed, too: recording the Python lines itself slows a small run down. """)
    return


@app.cell
def _(mo, run):
    fixes = run.advise(trace=1).advice
    mo.ui.table(
        [
            {
                "what": fix.title,
                "where": fix.where or "the whole run",
                "saves": "once" if fix.share is None else f"{fix.share:.1%}",
            }
            for fix in fixes
        ],
        selection=None,
    )
    return (fixes,)


@app.cell
def _(mo):
    mo.md("## What would it gain?")
    return


@app.cell
def _(mo):
    host_left = mo.ui.slider(0, 100, 5, value=50, label="Host work that is left, %", debounce=True)
    host_left
    return (host_left,)


@app.cell
def _(host_left, mo, run):
    predicted = run.whatif(f"host*{host_left.value / 100:g}", trace=1)
    mo.md(
        f"{predicted.window}: {predicted.window_ns / 1e3:,.0f} us would take "
        f"{predicted.predicted_ns / 1e3:,.0f} us, **{predicted.speedup:.2f} times as fast**."
    )
    return (predicted,)


@app.cell
def _(mo):
    mo.md("""
    ## Did it help?

    The fix here is `heads.batched`: one product instead of 32 in Python's loop. Both runs are in
    the database, so their difference is one call.
    """)
    return


@app.cell
def _(mo, run, traces):
    mo.stop(len(traces) < 2, mo.md("Give the trace after the change above to compare."))
    changed = run.diff(1, 2)
    before, after = (run.verdict(trace=trace).window.span_ns / 1e3 for trace in (1, 2))
    mo.vstack(
        [
            mo.md(f"All recorded steps: {before:,.0f} us before, {after:,.0f} us after."),
            changed,
            mo.ui.table(changed.operators, selection=None),
        ]
    )
    return after, before, changed


if __name__ == "__main__":
    app.run()
