-- question: While the GPU waited for the host, what was the launching thread doing?
-- param trace (integer, default all): the trace_id to look at
-- param kind (text, default all): gpu_active, step or trace: only windows of this kind
-- column trace_id (id): the trace
-- column device_id (id): the device
-- column kind (text): the window's kind: gpu_active, step or trace
-- column name (text): the window's name
-- column start_ns (ns): where the window begins
-- column end_ns (ns): where it ends
-- column cause (text): sync, copy, input, allocation, compilation, launch, launch_latency, runtime, dispatch,
--     python or untraced
-- column idle_ns (ns): GPU idle time; the causes of a window add up to its host_late_ns exactly
-- column share_of_window (fraction of the window): idle_ns over the window's length
-- column gaps (count): gaps that the cause has a part in
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, no_stacks, absurd_duration
-- A gap, and whether the host was late for it: views/timeline.sql. What the launching thread did in it,
-- instant by instant: views/host.sql (host_segment). What a slice is about, by its name: host_activity() in
-- views/names.sql. How much of that is in each window: views/parts.sql.
-- `launch` is the call that launched the op which ended the gap, `launch_latency` the time from its return
-- to the op's start. `untraced` is host time in no recorded slice but ranges that the user opened: Python, or
-- native code, that the profiler was not asked to record (with_stack=True tells more). `runtime` is any other
-- runtime call.
SELECT
    trace_id, device_id, kind, name, window_start_ns AS start_ns, window_end_ns AS end_ns, cause,
    ns AS idle_ns,
    ns / (window_end_ns - window_start_ns) AS share_of_window, gaps
FROM window_timeline_parts
WHERE idle_class = 'host_late' AND trace_id = coalesce(getvariable('trace'), trace_id)
  AND kind = coalesce(getvariable('kind'), kind)
ORDER BY trace_id, device_id, kind, start_ns, idle_ns DESC
