-- What a name says: the one place that knows kernels, runtime calls and categories by name.

-- The kind of an event, by its category (and, for MTIA, its name): all spellings since 2021.
-- https://github.com/pytorch/kineto/blob/main/libkineto/src/ActivityType.cpp (activity names)
-- https://github.com/pytorch/kineto/blob/main/tb_plugin/torch_tb_profiler/profiler/trace.py
--     (Operator, Runtime, Kernel, Memcpy, Memset: the spellings of torch 1.8 to 1.11)
CREATE OR REPLACE MACRO event_kind(category, name) AS CASE
    WHEN lower(category) IN ('kernel', 'hpu_op') THEN 'kernel'
    WHEN lower(category) IN ('gpu_memcpy', 'memcpy') THEN 'memcpy'
    WHEN lower(category) IN ('gpu_memset', 'memset') THEN 'memset'
    -- torch 1.8 counts its steps as operators.
    WHEN lower(category) IN ('cpu_op', 'operator') THEN CASE WHEN name LIKE 'ProfilerStep#%' THEN 'annotation' ELSE 'cpu_op' END
    WHEN lower(category) LIKE '%\_runtime' ESCAPE '\' OR lower(category) = 'runtime' THEN 'runtime'
    WHEN lower(category) LIKE '%\_driver' ESCAPE '\' THEN 'driver'
    WHEN lower(category) IN ('python_function', 'python') THEN 'python'
    WHEN lower(category) = 'user_annotation' THEN 'annotation'
    WHEN lower(category) = 'gpu_user_annotation' THEN 'gpu_annotation'
    WHEN lower(category) LIKE '%\_sync' ESCAPE '\' THEN 'device_sync'
    WHEN lower(category) = 'overhead' THEN 'overhead'
    WHEN lower(category) = 'cuda_profiler_range' THEN 'counter_range'
    WHEN lower(category) = 'trace' THEN 'recording'
    -- MTIA's command processor: waits and records are not work.
    WHEN lower(category) = 'mtia_ccp_events' THEN
        CASE WHEN name LIKE 'event\_%' ESCAPE '\' THEN 'device_sync'
             WHEN name = 'dma_request' THEN 'memcpy' ELSE 'kernel' END
    ELSE 'other' END;

-- The class of a kernel, by its name; the first that matches.
CREATE OR REPLACE MACRO kernel_class(name) AS CASE
    -- Inductor names a kernel after the operators it fuses, collectives they wait for included.
    -- https://github.com/pytorch/pytorch/blob/main/torch/_inductor/codegen/triton.py
    WHEN regexp_matches(name, '^triton_(poi|red|per|mix)_') THEN 'triton'
    WHEN regexp_matches(name, '^triton_tem_') THEN 'gemm'
    -- NCCL, RCCL: https://github.com/NVIDIA/nccl/tree/master/src/device
    -- MSCCL++: https://github.com/microsoft/mscclpp   NVSHMEM: https://docs.nvidia.com/nvshmem
    -- DeepEP: https://github.com/deepseek-ai/DeepEP (deep_ep::intranode, deep_ep::internode)
    -- HCCL: https://docs.habana.ai   quick reduce, cross_device_reduce: https://github.com/vllm-project/vllm/tree/main/csrc
    -- multimem, one_shot, two_shot: https://github.com/pytorch/pytorch/blob/main/torch/csrc/distributed/c10d/cuda/CUDASymmetricMemoryOps.cu
    -- lamport, trtllm: https://github.com/flashinfer-ai/flashinfer   userbuffers: https://github.com/NVIDIA/TransformerEngine
    WHEN regexp_matches(name, '(?i)nccl|rccl|msccl|hccl|nvshmem|deep_?ep\b|deep_ep::|cross_device_reduce|multimem|userbuffers|quick_?reduce::')
      OR regexp_matches(name, '(?i)(^|[^a-z])all_?(reduce|gather)|reduce_?scatter|(^|[^a-z])all_?to_?all(_|v|\b)') THEN 'communication'
    -- FlashAttention, cuDNN and memory-efficient attention, paged and MLA decoding.
    WHEN regexp_matches(name, '(?i)flash|fmha|attention|attn|mha_|paged_|mla_') THEN 'attention'
    WHEN regexp_matches(name, '(?i)conv(?:[^e]|e[^r]|$)|wgrad|dgrad|fprop|winograd|implicit_gemm|miopen.*(fwd|bwd|wrw)') THEN 'convolution'
    -- cuBLAS, CUTLASS, cuBLASLt (nvjet), Tensile (Cijk), hipBLASLt, DeepGEMM.
    WHEN regexp_matches(name, '(?i)gemm|gemv|cutlass|^cijk_|nvjet|_mm_|matmul|splitk|xmma|sm[0-9]+_xmma|ampere_|volta_|turing_.*(fp16|sgemm|h884)') THEN 'gemm'
    WHEN regexp_matches(name, '(?i)norm') THEN 'normalization'
    WHEN regexp_matches(name, '(?i)softmax|reduce|reduction|argmax|topk|sort|scan|cumsum') THEN 'reduction'
    WHEN regexp_matches(name, '(?i)copy|memcpy|memset|fill|cat|transpose|gather|scatter|index|embedding') THEN 'copy'
    WHEN regexp_matches(name, '(?i)elementwise|pointwise|multi_tensor_apply|activation|gelu|silu|dropout|distribution') THEN 'elementwise'
    WHEN regexp_matches(name, '(?i)triton') THEN 'triton'
    ELSE 'other' END;

-- What a host slice is busy with, by its kind and name.
-- CUDA runtime and driver API: https://docs.nvidia.com/cuda/cuda-runtime-api
-- HIP: https://rocm.docs.amd.com/projects/HIP   Level Zero and SYCL's Unified Runtime for XPU
CREATE OR REPLACE MACRO host_activity(kind, name) AS CASE
    WHEN kind IN ('runtime', 'driver') THEN CASE
        WHEN regexp_matches(name, '(Device|Stream|Event|Ctx|Context|Queue)Synchronize|^synchronize|HostSynchronize|urEventWait|urQueueFinish') THEN 'sync'
        WHEN regexp_matches(name, '(Launch(Cooperative)?Kernel|LaunchGrid|GraphLaunch|ModuleLaunch|EnqueueKernelLaunch|AppendLaunchKernel|enqueueCommand|runFunction)') THEN 'launch'
        WHEN regexp_matches(name, '(?i)(memcpy|memset).*async|EnqueueUSM|AppendMemory') THEN 'launch'
        WHEN regexp_matches(name, '(?i)memcpy') THEN 'copy'
        WHEN regexp_matches(name, '(?i)memset') THEN 'launch'
        WHEN regexp_matches(name, 'Malloc|HostAlloc|HostRegister|(cuda|hip)Free|cuMem(Alloc|Free|Create|Release|Map|Unmap|SetAccess|Address)|USM(Device|Host|Shared)Alloc') THEN 'allocation'
        WHEN regexp_matches(name, '(Module|Library)Load|nvrtc|LinkCreate|LinkComplete|GraphInstantiate') THEN 'compilation'
        ELSE 'runtime' END
    -- torch.utils.data annotates each fetch.
    WHEN regexp_matches(name, '^enumerate\(DataLoader\)|(^|/)torch/utils/data/(dataloader|_utils/fetch)\.py|DataLoaderIter\.__next__') THEN 'input'
    -- torch.compile: https://github.com/pytorch/pytorch/tree/main/torch/_dynamo and _inductor
    WHEN regexp_matches(name, '(^|/)torch/_dynamo/convert_frame\.py.*(_compile|compile_inner|transform)|(^|/)torch/_inductor/(compile_fx|graph|codecache|async_compile)\.py|(^|/)triton/(compiler|runtime/jit)\b.*(compile|_do_compile)|benchmark_all_configs|\(dynamo_timed\)|^CachingAutotuner') THEN 'compilation'
    WHEN kind = 'cpu_op' THEN 'dispatch'
    WHEN kind = 'python' THEN 'python'
    ELSE 'untraced' END;

-- Operators that only describe memory (views, allocation of an uninitialised tensor, queries): they
-- launch nothing and compute nothing.
-- https://docs.pytorch.org/docs/stable/tensor_view.html
CREATE OR REPLACE MACRO is_metadata_operator(name) AS regexp_matches(
    name,
    '^aten::_?(view|reshape|alias|as_strided|t|transpose|permute|expand|expand_as|squeeze|unsqueeze|'
    || 'slice|select|narrow|split|split_with_sizes|chunk|unbind|detach|unfold|diagonal|movedim|view_as|'
    || 'reshape_alias|unsafe_view|empty|empty_strided|empty_like|new_empty|new_empty_strided|resize_|'
    || 'set_|size|stride|numel|dim|is_nonzero|lift_fresh|result_type|can_cast|resolve_conj|resolve_neg|'
    || 'numpy_T|mT|adjoint|swapaxes|swapdims|flatten|ravel|unflatten|view_as_real|view_as_complex|'
    || 'has_compatible_shallow_copy_type|local_scalar_dense|item|promote_types|real|imag)_?$|^detach_?$'
);

-- Operators that are brackets around others, whatever their own time.
CREATE OR REPLACE MACRO is_calling_operator(name) AS
    regexp_matches(name, '^autograd::engine|^Optimizer\.|^Torch-Compiled Region|^TorchDynamo|^CompiledFunction');

-- Nanoseconds as decimal microseconds: 1500 is 1.5, -500 is -0.5.
CREATE OR REPLACE MACRO microseconds(ns) AS
    CASE WHEN ns IS NULL THEN NULL
         WHEN ns % 1000 = 0 THEN (ns // 1000)::VARCHAR
         ELSE concat(CASE WHEN ns < 0 THEN '-' END, abs(ns) // 1000, '.',
                     rtrim(lpad((abs(ns) % 1000)::VARCHAR, 3, '0'), '0')) END;
