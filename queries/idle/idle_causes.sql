-- question: While the GPU waited for the host, what was the launching thread doing?
-- since: 0.1
-- params kind
-- columns device_id, kind, name, start_ns, end_ns, cause
-- column idle_ns (ns): GPU idle time; a window's causes add up exactly to its host_late_ns
-- columns share_of_window, gaps
-- doubts: no_gpu_ops, unlinked_gpu_ops, starts_before_launch, no_stacks, absurd_duration
-- facts/gpu_timeline.sql defines gaps and whether the host was late for them, facts/thread_segment.sql what
-- the launching thread did at each instant, and queries/names the activity of a slice by its name.
-- `launch` is the call that launched the op which ended the gap, `launch_latency` the time from its return
-- to the op's start, at most 15 us of it, and `held` the rest: the trace does not show what held the op up.
-- `untraced`: the thread's innermost open slice was a range that the user annotated, or no slice was open:
-- Python or native code that the profiler did not record (with_stack=True records Python). `runtime` is any
-- other runtime call.
SELECT
    trace_id, device_id, kind, name, window_start_ns AS start_ns, window_end_ns AS end_ns, cause,
    ns AS idle_ns, ns / (window_end_ns - window_start_ns) AS share_of_window, gaps
FROM window_timeline_parts WHERE idle_class = 'host_late' AND is_asked(trace_id)
  AND kind = coalesce(getvariable('kind'), kind)
ORDER BY trace_id, device_id, kind, start_ns, end_ns, name, idle_ns DESC, cause
