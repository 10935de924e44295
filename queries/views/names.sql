-- What a name says: the one place that knows kernels, runtime calls and categories by name.

-- Older frameworks and converters leave the category out.
CREATE OR REPLACE MACRO has_no_category(category) AS coalesce(category, '') = '';
-- The kind of an event without a category, where its name leaves no doubt.
-- https://github.com/pytorch/kineto/blob/main/libkineto/src (names of copies, fills and steps)
CREATE OR REPLACE MACRO kind_by_name(name) AS CASE
    WHEN regexp_matches(name, '^ProfilerStep#|^(nccl|gloo|rccl|mpi|ucc|xccl|hccl):\w|'
        || '^## Call CompiledFxGraph|^enumerate\(DataLoader\)') THEN 'annotation'
    WHEN regexp_matches(name, '^(aten|c10d|_c10d_functional|prims?|quantized|torchvision|autograd|'
        || 'torch::autograd)::|^record_param_comms$|^Optimizer\.(step|zero_grad)#|'
        || '^[A-Z]\w*Backward[0-9]*$') THEN 'cpu_op'
    WHEN regexp_matches(name, '\.py\(\d+\): |^<built-in |^nn\.Module: ') THEN 'python'
    WHEN regexp_matches(name, '^(cuda|hip)[A-Z][A-Za-z]+(_v\d+|_ptsz)*$') THEN 'runtime'
    WHEN regexp_matches(name, '^cu[A-Z][A-Za-z]+(_v\d+|_ptsz)*$') THEN 'driver'
    WHEN regexp_matches(name, '^Memcpy [HDAP]to[HDAP]\b') THEN 'memcpy'
    WHEN regexp_matches(name, '^Memset \(') THEN 'memset'
    WHEN regexp_matches(name, '^void (at::native|cutlass|cub)::|^nccl(Dev)?Kernel') THEN 'kernel'
    ELSE 'other' END;

-- The kind of an event, by its category (and, for MTIA, its name): all spellings since 2021.
-- https://github.com/pytorch/kineto/blob/main/libkineto/src/ActivityType.cpp (activity names)
-- https://github.com/pytorch/kineto/blob/main/tb_plugin/torch_tb_profiler/profiler/trace.py
--     (Operator, Runtime, Kernel, Memcpy, Memset: the spellings of torch 1.8 to 1.11)
CREATE OR REPLACE MACRO event_kind(category, name) AS CASE
    WHEN has_no_category(category) THEN kind_by_name(name)
    WHEN lower(category) IN ('kernel', 'hpu_op') THEN 'kernel'
    WHEN lower(category) IN ('gpu_memcpy', 'memcpy') THEN 'memcpy'
    WHEN lower(category) IN ('gpu_memset', 'memset') THEN 'memset'
    -- torch 1.8 records its steps as operators.
    WHEN lower(category) IN ('cpu_op', 'operator') THEN CASE WHEN name LIKE 'ProfilerStep#%' THEN 'annotation'
        ELSE 'cpu_op' END
    WHEN lower(category) LIKE '%\_runtime' ESCAPE '\' OR lower(category) = 'runtime' THEN 'runtime'
    WHEN lower(category) LIKE '%\_driver' ESCAPE '\' THEN 'driver'
    WHEN lower(category) IN ('python_function', 'python') THEN 'python'
    WHEN lower(category) = 'user_annotation' THEN 'annotation'
    WHEN lower(category) = 'gpu_user_annotation' THEN 'gpu_annotation'
    WHEN lower(category) LIKE '%\_sync' ESCAPE '\' THEN 'device_sync'
    WHEN lower(category) = 'overhead' THEN 'overhead'
    WHEN lower(category) = 'cuda_profiler_range' THEN 'counter_range'
    WHEN lower(category) = 'trace' THEN 'recording'
    -- MTIA's command processor: waits and records are not GPU work.
    WHEN lower(category) = 'mtia_ccp_events' THEN
        CASE WHEN name LIKE 'event\_%' ESCAPE '\' THEN 'device_sync'
             WHEN name = 'dma_request' THEN 'memcpy' ELSE 'kernel' END
    ELSE 'other' END;

-- The class of a kernel, kernel_class(name), is the class of the first pattern that its name matches,
-- ignoring case. queries/views/kernel_patterns.csv lists the patterns by rank; so does the view
-- kernel_patterns.

-- Kernels that move many bytes and compute little, by their class: where shapes are known, math limits next
-- to none of their time. So do Inductor's own kernels (not its templates), PyTorch's own kernels (products,
-- convolutions and attention come from libraries), and cuDNN's batch norms, poolings and changes of layout.
CREATE OR REPLACE MACRO is_bound_by_bytes(class, name) AS
    class IN ('normalization', 'reduction', 'elementwise', 'copy')
    OR class = 'other' AND regexp_matches(name, 'at::native::|cudnn::bn_|(?i:pool|nchwtonhwc|nhwctonchw)')
    OR regexp_matches(name, '^triton_(poi|red|per|mix|for)_');

-- Kernels that torch.compile's Inductor wrote. Without its option `unique_kernel_names`, all have the name
-- triton_, to which older versions of Triton append the signature.
-- https://github.com/pytorch/pytorch/blob/main/torch/_inductor/config.py
CREATE OR REPLACE MACRO is_inductor_kernel(name) AS
    regexp_matches(name, '^triton_(poi|red|per|mix|for|tem)_|^triton_(_\d.*)?$');

-- Attention whose heads all share one compressed cache, so that it computes much with each byte.
-- https://arxiv.org/abs/2405.04434 (multi-head latent attention)
CREATE OR REPLACE MACRO is_latent_attention(name) AS regexp_matches(name, '(?i)mla');

-- What a kernel does in a mixture of experts, by its name: experts (their products, or the whole fused layer)
-- or routing (choosing experts, sorting tokens by expert, preparing the products, summing up). NULL: the name
-- does not tell; plain products (cuBLAS, CUTLASS, TensorRT-LLM's bmm_*) may be experts all the same.
-- vLLM and SGLang (fused_moe_kernel, moe_align_block_size_kernel, topkGating, moe_wna16, marlin_moe_wna16):
--     https://github.com/vllm-project/vllm/tree/main/csrc/moe
--     https://github.com/sgl-project/sglang/tree/main/sgl-kernel/csrc/moe
-- TensorRT-LLM and FlashInfer (MoeFCGemm, moe::dev, expandInputRows, finalizeMoeRouting):
--     https://github.com/NVIDIA/TensorRT-LLM/tree/main/cpp/tensorrt_llm/kernels/cutlass_kernels/moe_gemm
-- CUTLASS: GemmGrouped (2.x), GroupProblemShape (3.x). PyTorch: aten/src/ATen/native/cuda/GroupMM.cu
-- DeepGEMM's GemmType, all but Normal (0) and Batched (4):
--     https://github.com/deepseek-ai/DeepGEMM/blob/main/deep_gemm/include/deep_gemm/common/types.cuh
-- AITER and Composable Kernel (fmoe_*, kernel_moe_gemm, MoeFlatmm, MoeSortingKernel):
--     https://github.com/ROCm/aiter
-- Triton's own (_matmul_ogs, _combined_routing):
--     https://github.com/triton-lang/triton/tree/main/python/triton_kernels
CREATE OR REPLACE MACRO expert_part(name) AS CASE
    -- Inductor's kernels bear the names of the operators beside them.
    WHEN is_inductor_kernel(name) THEN CASE WHEN regexp_matches(name, '^triton_tem_.*grouped_mm')
        THEN 'experts' END
    -- The arguments' types of these contain the names of products.
    WHEN regexp_matches(name,
        '(?i)moe_?(align|sort|sum|permute|unpermute|routing)|topk_?gating|grouped_topk|'
        || 'expandInputRows|finalizeMoe|moe::dev::|cutlass_kernels::doActivation|'
        || 'computeStridesTmaWarp|(get|compute)_group_gemm|prepare_grouped_gemm|expert_?offsets|'
        || 'count_and_sort_expert|_fwd_kernel_ep_(scatter|gather)|_combined_routing|'
        || 'routingIndices|_finalize_matmul_(scatter|reduce)|marlin_moe_wna16::permute') THEN 'routing'
    WHEN regexp_matches(name,
        '(?i)(fused|mega)_?moe|moe_?(fc)?_?(gemm|gemv|mxgemm|flatmm|wna16|bmm)|(^|[^a-z])fmoe|moe_?stage[12]|'
        || '_moe[12]_|moe_(ck_?)?2stages?|(^|[^p])group(ed)?_?(gemm|mat_?mul)|grouped_mm|gemm_?grouped|'
        || 'GroupProblemShape|^_(p_)?matmul_ogs|_scatter2scatter|deep_gemm::.*gemm.*GemmType\)[12356]\b')
        THEN 'experts'
    WHEN regexp_matches(name, '(?i)(^|[^a-z])moe(_|:|[0-9]|$)|(?-i:Mo[eE][A-Z])|(^|[^a-z])experts?(_|$)')
        THEN 'routing' END;
-- Operators of which the kernels without another operator of their own belong to a mixture of experts.
CREATE OR REPLACE MACRO is_expert_operator(name) AS regexp_matches(name,
    '(?i)(^|[^a-z])f?moe(_|:|$)|_moe$|(?-i:Mo[eE][A-Z])|fused_(moe|experts)|(^|[^a-z])grouped_(mm|gemm)');
-- Communication kernels that send tokens to their experts and back, by the name alone.
-- https://github.com/deepseek-ai/DeepEP and those that kernel_patterns.csv names beside it
CREATE OR REPLACE MACRO is_expert_exchange(name) AS regexp_matches(name,
    '(?i)dispatch|combine|cached_notify|clean_low_latency|moe_?(A2A|comm|all)|(deep_?ep|hybrid_?ep|pplx)::');

-- What a host slice is busy with, by its kind and name.
-- CUDA runtime and driver API: https://docs.nvidia.com/cuda/cuda-runtime-api
-- HIP: https://rocm.docs.amd.com/projects/HIP   Level Zero and SYCL's Unified Runtime for XPU
CREATE OR REPLACE MACRO host_activity(kind, name) AS CASE
    WHEN kind IN ('runtime', 'driver') THEN CASE
        WHEN regexp_matches(name,
            '(Device|Stream|Event|Ctx|Context|Queue)Synchronize|^synchronize|HostSynchronize|urEventWait|'
            || 'urQueueFinish') THEN 'sync'
        WHEN regexp_matches(name,
            '(Launch(Cooperative)?Kernel|LaunchGrid|GraphLaunch|ModuleLaunch|EnqueueKernelLaunch|'
            || 'AppendLaunchKernel|enqueueCommand|runFunction)') THEN 'launch'
        WHEN regexp_matches(name, '(?i)(memcpy|memset).*async|EnqueueUSM|AppendMemory') THEN 'launch'
        WHEN regexp_matches(name, '(?i)memcpy') THEN 'copy'
        WHEN regexp_matches(name, '(?i)memset') THEN 'launch'
        WHEN regexp_matches(name,
            'Malloc|HostAlloc|HostRegister|(cuda|hip)Free|cuMem(Alloc|Free|Create|Release|Map|Unmap|'
            || 'SetAccess|Address)|USM(Device|Host|Shared)Alloc') THEN 'allocation'
        WHEN regexp_matches(name, '(Module|Library)Load|nvrtc|LinkCreate|LinkComplete|GraphInstantiate')
            THEN 'compilation'
        ELSE 'runtime' END
    -- torch.utils.data annotates each fetch.
    WHEN regexp_matches(name,
        '^enumerate\(DataLoader\)|(^|/)torch/utils/data/(dataloader|_utils/fetch)\.py|'
        || 'DataLoaderIter\.__next__') THEN 'input'
    -- Names that users commonly give to a range around data loading.
    WHEN kind = 'annotation' AND regexp_matches(name, '(?i)data[ _-]?load') THEN 'input'
    -- torch.compile: https://github.com/pytorch/pytorch/tree/main/torch/_dynamo and _inductor. Files of the
    -- compiler also hold what compiled code runs at each call, so functions count, not files alone.
    WHEN regexp_matches(name,
        '(^|/)torch/_dynamo/convert_frame\.py\(\d+\): (_compile|compile_inner|transform)')
      OR regexp_matches(name,
          '(^|/)torch/_inductor/((compile_fx|codecache|async_compile)\.py\(\d+\): \w*(compile|codegen|'
          || 'load)\w*$|graph\.py)')
      OR regexp_matches(name,
          '(^|/)triton/(compiler|runtime)/\w+\.py\(\d+\): _?(do_)?compile$|benchmark_all_configs|'
          || '\(dynamo_timed\)|^CachingAutotuner') THEN 'compilation'
    WHEN kind = 'cpu_op' THEN 'dispatch'
    WHEN kind = 'python' THEN 'python'
    -- Ranges that the framework itself opens around its own code.
    WHEN kind = 'annotation' AND regexp_matches(name, '^## Call CompiledFxGraph|^(nccl|gloo):')
        THEN 'dispatch'
    ELSE 'untraced' END;

-- Activities of calls that enqueue work.
CREATE OR REPLACE MACRO is_launch(activity) AS activity IN ('launch', 'copy');

-- Calls between which launches are recorded into a graph instead of running.
CREATE OR REPLACE MACRO is_capture_border(name) AS regexp_matches(name, 'Stream(Begin|End)Capture');

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

-- Metadata operators that allocate memory.
CREATE OR REPLACE MACRO is_allocating_operator(name) AS
    regexp_matches(name, '^aten::_?(new_)?(empty|resize_)');

-- Calls of collectives: ranges that the framework opens around them (of a group's backend, while the
-- collective runs), their operators, and torch.distributed's functions.
-- https://github.com/pytorch/pytorch/tree/main/torch/csrc/distributed/c10d
CREATE OR REPLACE MACRO is_collective_range(name) AS
    regexp_matches(name, '^(nccl|gloo|rccl|mpi|ucc|xccl|hccl|c10d|_c10d_functional|symm_mem)::?');
CREATE OR REPLACE MACRO is_collective_call(kind, name) AS CASE
    WHEN kind IN ('cpu_op', 'annotation') THEN is_collective_range(name) OR name = 'record_param_comms'
    WHEN kind = 'python' THEN regexp_matches(name,
        '(^|/)torch/distributed/distributed_c10d\.py\(|torch\._C\._distributed_c10d\.Work') END;

-- What only a job with a GPU does, by a slice's name; NULL for any other. Operators:
-- https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml (dispatch: CUDA)
CREATE OR REPLACE MACRO device_sign(kind, name) AS CASE
    WHEN kind IN ('cpu_op', 'annotation') THEN nullif(regexp_extract(name,
        '^((nccl|rccl|xccl|hccl):[a-z_]*|'
        || 'aten::(cudnn_(conv|batch|affine|grid)[a-z_]*|miopen_[a-z_]*|record_stream|_cudnn_rnn|'
        || '_thnn_fused_[a-z_]*|_(flash|efficient)_attention_(forward|backward)|'
        || '_scaled_dot_product_(efficient|cudnn)_attention)|triton_(poi|red|per)_|'
        || 'flash_attn::[a-z_]*)'), '') END;
-- The only backend of a job's process groups, where it moves nothing but GPUs' memory.
CREATE OR REPLACE MACRO device_backend(metadata) AS nullif(regexp_extract(
    metadata->'distributedInfo'->>'backend', '^(cuda:)?(nccl|rccl|xccl|hccl)$', 2), '');
-- c10::DeviceType of memory that is neither the host's (0) nor none's (14, meta).
CREATE OR REPLACE MACRO is_device_type(type) AS type NOT IN (0, 14);

-- What limits an operator on a CPU that does this work in this time: math or memory-bandwidth. NULL: not
-- known, or so little work that its dispatch takes the time. CPUs' peaks are not known, so intensity decides.
CREATE OR REPLACE MACRO host_limit(flops, bytes, ns) AS CASE
    WHEN flops >= thresholds().host_flop_per_byte * bytes
        THEN CASE WHEN flops >= thresholds().host_work_per_ns * ns THEN 'math' END
    WHEN bytes >= thresholds().host_work_per_ns * ns THEN 'memory-bandwidth' END;

-- Operators that only wrap other operators, however long their own time is.
CREATE OR REPLACE MACRO is_calling_operator(name) AS
    regexp_matches(name,
        '^autograd::engine|^Optimizer\.|^Torch-Compiled Region|^TorchDynamo|^CompiledFunction');

-- Operators of the backward pass: autograd's nodes and what wraps them.
CREATE OR REPLACE MACRO is_backward_operator(name) AS
    regexp_matches(name, '^autograd::engine|Backward[0-9]*$|^torch::autograd::|^CompiledFunctionBackward');

-- Operators whose result is as large as the values of an input say, so that the host has to wait for those
-- values; repeat_interleave and one_hot only where they are not told the size.
-- https://docs.pytorch.org/docs/stable/export.html (data-dependent shapes), and their implementations:
-- https://github.com/pytorch/pytorch/tree/main/aten/src/ATen/native/cuda (Nonzero.cu, Unique.cu, ...)
CREATE OR REPLACE MACRO has_data_dependent_size(name) AS
    regexp_matches(name,
        '^(aten::(nonzero|nonzero_numpy|argwhere|masked_select|_?unique|_unique2|unique_(dim|consecutive)|'
        || 'bincount|repeat_interleave|one_hot|_coalesce|to_sparse|_to_sparse)|torchvision::nms)$');

-- Frames of the Python stack that make the text of a tensor, for print() and format():
-- https://github.com/pytorch/pytorch/blob/main/torch/_tensor_str.py
CREATE OR REPLACE MACRO is_tensor_text(name) AS
    regexp_matches(name, '(^|/)torch/_tensor_str\.py\(\d+\): _str$');

-- Frames of the Python stack that are calls of modules ("nn.Module: Linear_0"), and the module's name.
CREATE OR REPLACE MACRO is_module_frame(name) AS starts_with(name, 'nn.Module: ');
CREATE OR REPLACE MACRO module_name(name) AS substr(name, len('nn.Module: ') + 1);

-- Calls that only query: occupancy, attributes, properties.
CREATE OR REPLACE MACRO is_runtime_query(name) AS
    regexp_matches(name,
        'Occupancy|GetAttribute|GetProperties|FuncGetAttributes|GetDeviceProperties|FuncSetAttribute|'
        || 'GetFunctionAttributes');

-- What a slice of torch.compile's run time is for; NULL for any other.
-- https://github.com/pytorch/pytorch/blob/main/torch/_dynamo/eval_frame.py and csrc/dynamo (cache lookup),
-- torch/_functorch/_aot_autograd (prologue), torch/_inductor/output_code.py (Call CompiledFxGraph)
CREATE OR REPLACE MACRO compiled_part(kind, name) AS CASE
    WHEN regexp_matches(name, '^TorchDynamo Cache Lookup') THEN 'guards'
    WHEN regexp_matches(name, '^Pregraph bytecode|Prologue$') THEN 'prologue'
    WHEN regexp_matches(name,
        '^Torch-Compiled Region|^CompiledFunction|^CompiledFunctionBackward|^AOTDispatcher|'
        || '^_CompiledAutograd|^Compiled Autograd') THEN 'wrapper'
    WHEN regexp_matches(name, '^## Call CompiledFxGraph|^Call CompiledFxGraph|^inductor::') THEN 'generated'
    WHEN host_activity(kind, name) = 'compilation' THEN 'compilation' END;

-- The kind of work that an operator does, where its FLOPs and bytes follow from the shapes of its inputs;
-- NULL where they do not. Where one such operator calls another, the inner one does the work.
-- Operators: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/native_functions.yaml
CREATE OR REPLACE MACRO work_kind(name) AS CASE
    WHEN starts_with(name, 'triton_') THEN CASE
        WHEN regexp_matches(name, '^triton_(poi|red|per|for)_') THEN 'triton'
        WHEN regexp_matches(name, '^triton_tem_.*addmm') THEN 'addmm'
        WHEN regexp_matches(name, '^triton_tem_.*bmm') THEN 'bmm'
        WHEN regexp_matches(name, '^triton_tem_.*mm') THEN 'mm' END
    WHEN NOT starts_with(name, 'aten::') THEN CASE
        WHEN regexp_matches(name, '^flash_attn::_flash_attn_forward$') THEN 'attention_bshd'
        -- tracekit.workloads.kernels; Liger's as autograd functions:
        -- https://github.com/linkedin/Liger-Kernel (liger_kernel/ops/geglu.py and swiglu.py)
        WHEN name IN ('tracekit::glu', 'tracekit::glu_', 'LigerGELUMulFunction', 'LigerSiLUMulFunction')
            THEN 'elementwise'
        WHEN name = 'tracekit::act_mul' THEN 'gated_packed'
        WHEN name = 'tracekit::gate_up' THEN 'gated_products'
        WHEN name = 'tracekit::block' THEN 'gated_mlp' END
    WHEN name IN ('aten::mm', 'aten::_scaled_mm', 'aten::_int_mm') THEN 'mm'
    WHEN name IN ('aten::addmm', 'aten::addmm_', 'aten::_addmm_activation') THEN 'addmm'
    WHEN name = 'aten::bmm' THEN 'bmm'
    WHEN name IN ('aten::baddbmm', 'aten::baddbmm_') THEN 'baddbmm'
    WHEN name IN ('aten::linear', 'aten::mkldnn_linear', 'aten::_mkldnn_linear') THEN 'linear'
    WHEN name IN ('aten::convolution_backward') THEN 'convolution_backward'
    WHEN regexp_matches(name,
        '^aten::(conv[123]d|convolution|_convolution|cudnn_convolution|cudnn_convolution_relu|'
        || 'cudnn_convolution_add_relu|miopen_convolution|miopen_depthwise_convolution|'
        || 'mkldnn_convolution|_conv_depthwise2d|_slow_conv2d_forward|thnn_conv2d|'
        || 'cudnn_convolution_transpose|miopen_convolution_transpose)$') THEN 'convolution'
    WHEN regexp_matches(name,
        '^aten::(_scaled_dot_product_(flash|efficient|cudnn|fused|flash_attention_for_cpu|attention_math|'
        || 'fused_attention_overrideable)?_?(attention)?(_for_cpu)?|scaled_dot_product_attention|'
        || '_scaled_dot_product_attention_math)$') THEN 'attention'
    WHEN name IN ('aten::_flash_attention_forward', 'aten::_efficient_attention_forward')
        THEN 'attention_bshd'
    WHEN regexp_matches(name, '^aten::_scaled_dot_product_.*_backward$') THEN 'attention_backward'
    WHEN name IN ('aten::_flash_attention_backward', 'aten::_efficient_attention_backward')
        THEN 'attention_backward_bshd'
    WHEN regexp_matches(name,
        '^aten::(layer_norm|native_layer_norm|batch_norm|_batch_norm_impl_index|native_batch_norm|'
        || 'cudnn_batch_norm|miopen_batch_norm|_batch_norm_with_update|group_norm|native_group_norm|'
        || 'instance_norm|rms_norm|_fused_rms_norm)$') THEN 'normalization'
    WHEN regexp_matches(name,
        '^aten::(native_layer_norm|native_batch_norm|cudnn_batch_norm|miopen_batch_norm|native_group_norm|'
        || 'batch_norm|_fused_rms_norm)_backward$') THEN 'normalization_backward'
    WHEN name IN ('aten::softmax', 'aten::_softmax', 'aten::log_softmax', 'aten::_log_softmax',
        'aten::_safe_softmax') THEN 'softmax'
    WHEN name IN ('aten::_softmax_backward_data', 'aten::_log_softmax_backward_data') THEN 'softmax_backward'
    WHEN name IN ('aten::embedding', 'aten::index_select') THEN 'embedding'
    WHEN name = 'aten::embedding_dense_backward' THEN 'embedding_backward'
    WHEN name IN ('aten::copy_', 'aten::_copy_from') THEN 'copy'
    WHEN name IN ('aten::fill_', 'aten::zero_') THEN 'fill'
    WHEN regexp_matches(name,
        '^aten::(sum|mean|amax|amin|max|min|prod|var|std|var_mean|norm|linalg_vector_norm|argmax|argmin|'
        || 'any|all|logsumexp|count_nonzero|nansum)$') THEN 'reduction'
    WHEN regexp_matches(name,
        '^aten::(gt|lt|ge|le|eq|ne|logical_and|logical_or|logical_not|logical_xor|isnan|isinf|isfinite)$')
            THEN 'comparison'
    WHEN regexp_matches(name,
        '^aten::(add|sub|rsub|mul|div|pow|sqrt|rsqrt|exp|exp2|expm1|log|log2|log1p|neg|abs|sign|sin|cos|'
        || 'tan|tanh|sigmoid|erf|relu|relu6|leaky_relu|gelu|silu|mish|elu|selu|hardswish|hardsigmoid|'
        || 'hardtanh|softplus|threshold|'
        || 'clamp|clamp_min|clamp_max|clip|maximum|minimum|fmod|remainder|floor|ceil|round|trunc|frac|'
        || 'reciprocal|square|addcmul|addcdiv|lerp|where|masked_fill|masked_fill_|'
        || 'bitwise_and|bitwise_or|bitwise_not|bitwise_xor|logit|atan2|nan_to_num|native_dropout|dropout|'
        || 'native_dropout_backward|bernoulli_|uniform_|normal_|'
        || '(threshold|gelu|silu|sigmoid|tanh|leaky_relu|hardswish|hardsigmoid|hardtanh|elu|softplus|'
        || 'mish)_backward)_?$') THEN 'elementwise' END;

-- Operators that compute over the elements of tensors, and so take long on a host.
CREATE OR REPLACE MACRO is_computing_operator(name) AS
    coalesce(starts_with(name, 'aten::') AND work_kind(name) IS NOT NULL, FALSE)
    OR regexp_matches(name,
        '^aten::(random|randperm|randint|exponential|geometric|log_normal|cauchy|multinomial|erfinv|'
        || 'sort|argsort|topk|unique\w*|_unique\w*|nonzero|index|index_put|_index_put_impl|index_add|'
        || 'gather|scatter|scatter_add|masked_select|cat|_cat|stack|cumsum|bincount|searchsorted|'
        || 'arange|linspace|roll|flip|upsample_\w+|grid_sampler\w*|_fft_\w+)_?$');

-- How many tensors an elementwise operator reads; any further tensor is the output argument.
CREATE OR REPLACE MACRO operand_count(name, kind) AS CASE
    WHEN kind NOT IN ('elementwise', 'comparison') THEN 99
    WHEN regexp_matches(name,
        '^aten::(sqrt|rsqrt|exp|exp2|expm1|log|log2|log1p|neg|abs|sign|sin|cos|tan|tanh|sigmoid|erf|relu|'
        || 'relu6|leaky_relu|gelu|silu|mish|'
        || 'elu|selu|hardswish|hardsigmoid|hardtanh|softplus|threshold|clamp|clamp_min|clamp_max|clip|'
        || 'floor|ceil|round|trunc|frac|reciprocal|square|'
        || 'logit|nan_to_num|native_dropout|dropout|bernoulli|uniform|normal|bitwise_not|logical_not|isnan|'
        || 'isinf|isfinite)_?$') THEN 1
    WHEN regexp_matches(name, '^aten::(addcmul|addcdiv|lerp|where|masked_fill)_?$') THEN 3
    ELSE 2 END;

-- Bytes of an element by its type's name in a trace (c10::ScalarType, or C++'s own); NULL if it is
-- not a tensor.
CREATE OR REPLACE MACRO element_bytes(type) AS CASE
    WHEN type IN ('float', 'int', 'unsigned int', 'c10::UInt32', 'c10::complex<c10::Half>') THEN 4
    WHEN type IN ('c10::BFloat16', 'c10::Half', 'short int', 'short', 'unsigned short', 'c10::UInt16') THEN 2
    WHEN type IN ('double', 'long int', 'long', 'long long', 'unsigned long', 'c10::complex<float>') THEN 8
    WHEN type IN ('bool', 'unsigned char', 'signed char', 'char', 'c10::qint8', 'c10::quint8')
        OR type LIKE 'c10::Float8%' OR type LIKE 'c10::Float4%' THEN 1
    WHEN type = 'c10::complex<double>' THEN 16 END;

-- The name of the peak (hardware.toml) with which a matrix product of such elements is compared. Only the
-- kernel tells in which format fp32 is multiplied: see is_tf32_kernel.
CREATE OR REPLACE MACRO peak_name(type) AS CASE
    WHEN type = 'c10::BFloat16' THEN 'bf16' WHEN type = 'c10::Half' THEN 'fp16'
        WHEN type = 'float' THEN 'fp32'
        WHEN type = 'double' THEN 'fp64'
    WHEN type LIKE 'c10::Float8%' THEN 'fp8' WHEN type LIKE 'c10::Float4%' THEN 'fp4'
    WHEN type IN ('signed char', 'char', 'unsigned char') THEN 'int8' END;

-- Kernels that multiply fp32 in TF32: cuBLAS, CUTLASS and cuDNN put TF32 or the tensor core's
-- instruction for it (m16n8k8, s1688) in the name.
-- https://github.com/NVIDIA/cutlass/blob/main/media/docs/cpp/functionality.md
CREATE OR REPLACE MACRO is_tf32_kernel(name) AS regexp_matches(name, '(?i)tf32|_s1688');

-- Calls that make a stream wait for an event of another one.
CREATE OR REPLACE MACRO is_stream_wait(name) AS regexp_matches(name,
    'StreamWaitEvent|waitOnEvent|QueueWaitEvent|AppendWaitOnEvents');

-- Allocator calls that wait until the device has finished all its work.
-- https://docs.nvidia.com/cuda/cuda-c-programming-guide (implicit synchronization), and the documentation of
-- cudaFree
CREATE OR REPLACE MACRO is_synchronizing_free(name) AS regexp_matches(name, '^(cuda|hip)Free(Host)?$');

-- Fetches of data that other processes load in the background.
-- https://github.com/pytorch/pytorch/blob/main/torch/utils/data/dataloader.py (_BaseDataLoaderIter.__next__)
CREATE OR REPLACE MACRO is_prefetched_input(name) AS contains(name,
    '_MultiProcessingDataLoaderIter.__next__');

-- Python frames in which a thread only waits: for a lock, a condition, a queue, a socket, another thread or
-- process, or a time to pass. https://docs.python.org/3/library/threading.html, time, select, selectors,
-- queue, socket, multiprocessing.connection and concurrent.futures; torch records functions written in C as
-- `<built-in method acquire of _thread.lock object at 0x...>`.
CREATE OR REPLACE MACRO is_thread_wait(name) AS regexp_matches(name,
    '(^|/)threading\.py\(\d+\): (wait|wait_for|join|acquire|_wait_for_tstate_lock)$'
    || '|^<built-in method (acquire|wait) of .*(lock|Lock|Condition|Event|Semaphore)'
    || '|^<built-in (function|method) (sleep|select|poll|epoll_wait)\b'
    || '|^<built-in method (poll|accept|recv|recv_into) of .*(poll|kqueue|socket)'
    || '|(^|/)selectors\.py\(\d+\): select$|(^|/)queue\.py\(\d+\): get$'
    || '|(^|/)socket\.py\(\d+\): (accept|readinto)$'
    || '|(^|/)multiprocessing/(connection|popen_fork)\.py\(\d+\): (wait|poll|_poll)$'
    || '|(^|/)multiprocessing/(queues\.py\(\d+\): get|process\.py\(\d+\): join)$'
    || '|(^|/)concurrent/futures/_base\.py\(\d+\): (result|wait)$');

-- A name without its numbers and addresses: `ProfilerStep#3` and `ProfilerStep#4` are alike.
CREATE OR REPLACE MACRO folded_name(name) AS regexp_replace(name, '0x[0-9a-fA-F]+|[0-9]+', '#', 'g');

-- Steps of inference servers, and the tokens that such a step feeds through the model: those of prompts
-- (context, EXTEND) and those generated. NULL: the name does not tell.
-- "execute_context_1(888_788544)_generation_0(0)": https://github.com/vllm-project/vllm (vllm/v1/worker)
-- "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)": the same, on ROCm
-- "step[DECODE bs=32]", "step[EXTEND bs=1 toks=107]": https://github.com/sgl-project/sglang
CREATE OR REPLACE MACRO is_server_step(name) AS
    regexp_matches(name, '^execute_(\d+_)?context_\d+\(|^step\[(DECODE|EXTEND) ');
CREATE OR REPLACE MACRO prompt_tokens(name) AS CASE
    WHEN starts_with(name, 'step[DECODE ') THEN 0
    WHEN starts_with(name, 'step[EXTEND ')
        THEN TRY_CAST(regexp_extract(name, ' toks=(\d+)', 1) AS BIGINT)
    ELSE TRY_CAST(regexp_extract(name, '^execute_(?:\d+_)?context_\d+\((?:sq)?(\d+)', 1) AS BIGINT) END;
CREATE OR REPLACE MACRO generated_tokens(name) AS CASE
    WHEN starts_with(name, 'step[DECODE ') THEN TRY_CAST(regexp_extract(name, ' bs=(\d+)', 1) AS BIGINT)
    WHEN starts_with(name, 'step[EXTEND ') THEN 0
    ELSE TRY_CAST(regexp_extract(name, '\)_generation_\d+\((?:sq)?(\d+)', 1) AS BIGINT) END;
