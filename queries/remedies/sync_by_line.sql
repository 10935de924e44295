-- question: Which calls make the host wait for a value from a device, and on which line?
-- title: Do not read values of the device in the loop
-- causes: sync
-- when: has(traits, 'reads_device') OR has(traits, 'tensor_text') OR kind = 'memcpy'
-- effort: low
-- needs: The value is not needed in this step: log it later, every n-th step, or decide on the device.
-- blind: no_runtime_calls
-- before:
--     for batch in loader:
--         loss = step(batch)
--         total += loss.item()          # waits for the device at every step
-- after:
--     total = torch.zeros((), device=device)
--     for batch in loader:
--         loss = step(batch)
--         total += loss.detach()        # stays on the device
--     print(total.item())               # one wait, at the end
-- risks: Later checks notice problems later: a NaN in the loss, for example. Printing a tensor reads it, too.
--     Without any wait, the host may run far ahead, and the memory of the batches that it has queued stays in
--     use.
-- check: tracekit diff before.json after.json; tracekit query after.json sync_points
-- sources: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
--     https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks
-- `.item()`, `.cpu()`, `bool(tensor)` and `print(tensor)` copy a value to the host and wait for it.
-- Another remedy handles operators whose result's size depends on values, except in a print.
WITH call AS (FROM waiting_call WHERE is_read AND (is_printed OR NOT is_sized) AND is_asked(trace_id))
SELECT trace_id, place, if(is_printed, 'a tensor is printed', cpu_op) AS detail, 'host' AS target,
       event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM placed('call')
