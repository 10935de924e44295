-- question: Which calls make the host wait for a value from a device, and on which line?
-- title: Do not wait for values of the device in the loop
-- causes: sync
-- when: has(traits, 'reads_device') OR has(traits, 'tensor_text') OR kind = 'memcpy'
-- effort: low
-- needs: The value is not needed in this step: log it later, every n-th step, or decide on the device. Sizes
--     of an exchange have to be known ahead, such as those of the next batch, or be fixed, with padding.
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
--
--     with torch.cuda.stream(side):     # sizes of an exchange: while the batch before is computed
--         pinned.copy_(sizes, non_blocking=True)
--         copied.record(side)
--     copied.synchronize()              # later: waits for that copy alone
-- risks: Later checks notice problems later: a NaN in the loss, for example. Printing a tensor reads it, too.
--     Without any wait, the host may run far ahead, and the memory of the batches that it has queued stays in
--     use.
-- check: tracekit diff before.json after.json; tracekit query after.json sync_points
-- sources: https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
--     https://docs.pytorch.org/docs/stable/generated/torch.cuda.set_sync_debug_mode.html
-- column place (text): the line or module; without either, the innermost range that the program opened
-- column detail (text): the operator that waits, or that a tensor or an exchange's sizes are read
-- column event_id (id): the operator or the frame that reads
-- doubts: no_gpu_ops, no_runtime_calls, no_stacks
-- `.item()`, `.cpu()`, `bool(tensor)` and `print(tensor)` copy a value to the host and wait for it. The whole
-- call goes, and so does a view that only it reads; the sizes of an exchange lose only their wait. Results of
-- a pass have to be read. Another remedy handles operators whose result's size depends on values, except in a
-- print.
WITH read AS (FROM device_reads() WHERE purpose <> 'result')
SELECT trace_id, if(python_id IS NULL AND module_id IS NULL, coalesce(user_range, place), place) AS place,
       if(purpose = 'sizes', 'sizes of an exchange: copy them ahead on a side stream', detail) AS detail,
       if(purpose = 'sizes', 'wait', 'call') AS target, event_id, pid, tid, start_ns, dur_ns, 0 AS factor
FROM placed('read')
