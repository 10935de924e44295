-- Inserts the launching thread's activities during gaps with late launches, from the walk of its stack, into
-- `gpu_timeline`.
INSERT INTO gpu_timeline
SELECT gap.trace_id, gap.device_id, gap.place, w.start_ns, w.end_ns, 'idle', 'host_late',
       host_activity_of(activity_code), gap.op_id, gap.launch_id, w.event_id
FROM walked AS w JOIN _scratch.gap AS gap USING (place)
