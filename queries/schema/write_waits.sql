-- Inserts what the launching thread did in gaps with late launches, by the walk of its stack.
INSERT INTO gpu_timeline
SELECT gap.trace_id, gap.device_id, gap.place, w.start_ns + clock_ns, w.end_ns + clock_ns, 'idle',
       'host_late', host_activity_of(activity_code), gap.op_id, gap.launch_id, w.event_id
FROM walked AS w JOIN _scratch.gap AS gap USING (place)
