-- The host's work, thread by thread.

CREATE OR REPLACE VIEW host_segment AS
SELECT trace_id, pid, tid, segment, s.start_ns, s.end_ns, event_id,
       host_activity_of(activity_code) AS activity
FROM thread_segment AS s JOIN host_thread USING (thread);

CREATE OR REPLACE VIEW host_slice AS
SELECT t.trace_id, event_id, pid, tid, depth, parent_id, self_ns
FROM thread_slice JOIN host_thread AS t USING (thread);

-- The call site of each slice.
CREATE OR REPLACE VIEW host_site AS
SELECT trace_id, event_id, cpu_op_id, outer_op_id, python_id, line_id, module_id, op_label, place_label
FROM thread_slice;

-- A frame's name; of a built-in function without the address of its object: `len`, `Tensor.item`.
CREATE OR REPLACE MACRO frame_name(frame) AS
    CASE WHEN frame[1] <> '<' THEN frame
         ELSE regexp_replace(regexp_replace(regexp_replace(frame,
             '^<built-in (?:function|method) (.*?)(?: object)?(?: at 0x\w+)?>$', '\1'),
             '^(\w+) of (?:type |module )?(.*)$', '\2.\1'), ' object at 0x\w+', '') END;
