-- question: Which copies of gradients and buffers does DistributedDataParallel make in each step?
-- since: 0.1
-- title: Let DistributedDataParallel copy less
-- titled: broadcast_buffers=False: Set broadcast_buffers=False in DDP;
--     gradient_as_bucket_view=True: Set gradient_as_bucket_view=True in DDP
-- causes: dispatch, launch, communication, copy
-- when: name IN ('aten::unflatten_dense_tensors', 'torch.distributed.ddp.reducer::copy_bucket_to_grad')
-- is_by_place: true
-- needs: Buffers that ranks may keep apart, such as the running statistics of batch norms; gradients that no
--     code detaches in place.
-- before:
--     model = DistributedDataParallel(model)        # packs, broadcasts and unpacks all buffers in each pass
-- after:
--     model = DistributedDataParallel(model, broadcast_buffers=False, gradient_as_bucket_view=True)
-- risks: Without the broadcast, each rank keeps its own running statistics, and a checkpoint has those of the
--     rank that writes it; SyncBatchNorm keeps them equal. Gradients become views of the buckets, on which
--     detach_() fails.
-- check: tracekit query after.json collective_stats; tracekit diff before.json after.json
-- sources: https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
--     https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/comm.cpp
-- doubts: no_operators
SELECT trace_id, 'DistributedDataParallel, ' || copied AS place,
       if(copied = 'buffers', 'broadcast_buffers=False', 'gradient_as_bucket_view=True') AS detail,
       'call' AS target, event_id, pid, tid, start_ns, end_ns - start_ns AS dur_ns, 0 AS factor
FROM ddp_copies WHERE is_asked(trace_id)
-- Parameters are broadcast once, at a start.
QUALIFY count(*) OVER (PARTITION BY trace_id, copied) >= thresholds().fewest_alike
