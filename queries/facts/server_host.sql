-- fact: A trace of a server's processes without GPU ops.
-- needs: gpu_ops
-- of: server_label
CREATE TABLE _scratch.server_host (
    trace_id INTEGER
);
SELECT trace_id FROM trace ANTI JOIN gpu_ops USING (trace_id)
