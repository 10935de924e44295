"""Each kernel has the class of its name, and a word alone does not make it communication."""

import pytest

from tests.kit import traces

DEEP_EP = "void deep_ep::internode::"

# Kernels that frameworks ship, as profilers write their names.
NAMES = {
    "communication": [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "void dpsk::ep::internode::combine<4, __nv_bfloat16, 2, 8>(int4*, float*, bool const*)",
        "void dpsk::ep::internode::notify_dispatch<false, 4>(int const*, long*, int)",
        "dpsk::ep::internode::cached_notify(int, int, int, int*)",
        "void dpsk::ep::internode::dispatch_ll<true>(void*, float*)",
        f"{DEEP_EP}dispatch<false, 8, true>(int4*, float*)",
        "void deep_ep::intranode::barrier<8>(int**, int)",
        "void deep_ep::internode_ll::combine<false, 7168, 9, 9>(void*, int*, int*)",
        "_ZN7deep_ep9internode7combineILi4E13__nv_bfloat16EEvP4int4PfPKb",
        "void uccl::internode::dispatch<false, 8>(int4*)",
        "void hybrid_ep::dispatch_kernel<hybrid_ep::inter_node_t>(int)",
        "void mori::moe::EpDispatchIntraNodeKernel<hip_bfloat16>(EpDispatchCombineArgs)",
        "_ZN4mori3moe24EpCombineInterNodeKernelI14__hip_bfloat16EEvNS0_21EpDispatchCombineArgs",
        "nvshmemi_transfer_rma_p2p(void*)",
        "nvshmem_team_sync_kernel",
        "c10d::symmetric_memory::(anonymous namespace)::barrier_kernel(unsigned int**, int)",
        "exchangeSplitAndOffset(long*, long*, int)",
        "allToAllV(void*, void*, long*, unsigned long, int)",
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)",
        "void one_shot_all_reduce_kernel<c10::BFloat16, 16, 8>(c10::BFloat16*)",
        "void two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 8>(c10::BFloat16**)",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<"
        "(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8>(int)",
        "void flashinfer::trtllm_mnnvl_allreduce::rmsNormLamport_fusion<8, float>(float*)",
        "void tensorrt_llm::kernels::twoShotAllReduceKernel<__half, 8>(AllReduceParams)",
        "void tensorrt_llm::kernels::mnnvl::twoshotAllreduceKernel<8, float>(float*)",
        "tensorrt_llm::kernels::moe_comm::moeAllToAllKernel(int, int)",
        "void tensorrt_llm::kernels::moe_alltoall::moeA2ADispatchKernel<BlockPolicy, 8>(int)",
        "void mscclpp::collective::allreducePacket<__half>(mscclpp::DeviceHandle)",
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)",
        "_ZN5aiter33reduce_scatter_cross_device_storeIDF16bLi8EEEvPNS_8RankDataENS_11RankSignalsE",
        "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>, __half>(int)",
        "hcom_allReduce__391_0",
        "oneccl_allreduce_pcie",
        "userbuffers_fp16_sum_inplace_gpu_mc",
        "void c10d::one_shot_all_reduce_kernel<bf16>(...)",
        "deep_ep::intranode::dispatch<8>(...)",
        "void mscclpp::allgather(...)",
    ],
    "triton": ["triton_poi_fused_all_reduce_add_wait_tensor_0"],
    "reduction": [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
        "at::native::NormTwoOps<float, float, float>, unsigned int, float, 4> >(float)",
        "void moe::dev::routing::routingIndicesHistogramKernel<moe::dev::routing::"
        "routingRenormalize::KernelParams<__nv_bfloat16> >(int)",
        "void moe::dev::finalize::finalizeKernelVecLoad<moe::dev::finalize::KernelParams<"
        "cutlass::bfloat16_t, cutlass::bfloat16_t> >(int)",
        "void dot_kernel<float, 128, 0, cublasDotParams<cublasGemvTensorStridedBatched<float>>>(1)",
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>(float*)",
        "void at::native::WarpAllReduce_softmax<4>(float*)",
        "void cdpsk::ep::CUB_200700_900_NS::DeviceScanKernel<int>(int*)",
        "void at::native::(anonymous namespace)::max_pool_forward_nchw<float, float>(int)",
    ],
    "normalization": [
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*)",
        "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16EEEvPT0",
        "void tensorrt_llm::kernels::fusedQKNormRopeKernel<128>(void*)",
        "void fused_attention_rms_norm_kernel<float>(float*)",
        "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>(int)",
        "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long)",
    ],
    "attention": [
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false>>(int)",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0>(int)",
        "fmhaSm100aKernel_QkvE4m3OBfloat16H64PagedKvCausalP16VarSeqQ128Kv128PersistentContext",
        "triton_tem_fused_flex_attention_3",
    ],
    "convolution": [
        "cudnn_infer_volta_scudnn_128x64_relu_medium_nn_v1",
        "turing_fp16_s1688cudnn_fp16_128x128_ldg8_relu_exp_interior_nhwc_tn_v1",
        "igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1_bt256x128x32_wt32x32x8_ws2x1_wr2x2",
        "_ZN2ck16tensor_operation6device37kernel_batched_gemm_xdlops_bwd_weightINS_47GridwiseGemm",
        "void fft2d_r2c_32x32<float, false, 0u, false>(float2*, float const*, int)",
    ],
    "gemm": [
        "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<int> >(int)",
        "cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4",
        "fused_moe_kernel",
        "_ZN5aiter22fmoe_bf16_blockscaleFp8E",
        "void marlin::Marlin<__nv_bfloat16, 256>(int)",
        "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN",
        "_gate_up_gemm_kernel",
        "_gate_up_descriptor_gemm_kernel",
        "_gated_mlp_gemm_kernel",
        "Cijk_Ailk_Bljk_HHS_BH_MT128x128x64",
        "nvjet_tst_128x64_64x6_1x2_h_bz_TNT",
        "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>(...)",
    ],
    "copy": [
        "create_flashinfer_kv_indices_triton",
        "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(int)",
        "void split_embedding_codegen_forward_unweighted_kernel<float, fbgemm_gpu::Vec4T>(int)",
        "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true>(int)",
        "triton_kernel_moe_scatter_rows",
    ],
    "elementwise": [
        "void tensorrt_llm::kernels::quantize_with_block_size<2, __nv_bfloat16>("
        "int, flashinfer::QuantizationSFLayout)",
        "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &silu>(int)",
        "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)",
        "_glu_forward_kernel",
        "_glu_backward_kernel",
        "_geglu_tanh_forward_kernel",
        "_geglu_tanh_backward_kernel",
        "_swiglu_forward_kernel",
        "void (anonymous namespace)::act_mul_kernel<c10::BFloat16, 8, (Activation)0>(int)",
        "void at::native::triu_tril_kernel<bool, int, false, 2, true>(int)",
        "void at::native::vectorized_elementwise_kernel<4, fbgemm_gpu::_float_to_hfp8_gpu>(int)",
        "void at::native::distribution_elementwise_grid_stride_kernel<float, 4, normal_and>(int)",
    ],
    # Words that communication uses, too. DeepEP's namespace holds a scan of CUB and the layout.
    "other": [
        "_moe_dispatch_kernel",
        "_combine_expert_outputs",
        "step::dispatch(int)",
        "dpsk::ep::cuda::get_dispatch_layout<256>(long const*)",
    ],
}


def test_kernels_have_the_class_that_their_name_says(tmp_path):
    known = {name: kind for kind, names in NAMES.items() for name in names}
    events = [traces.gpu_op(2 * i, 1, i, name=name) for i, name in enumerate(known)]
    with traces.load(tmp_path, events) as run:
        found = dict(run.fetch("SELECT name, class FROM kernels")[1])
    assert {name: (found[name], kind) for name, kind in known.items() if found[name] != kind} == {}


@pytest.mark.parametrize(
    ("trace", "is_distributed"),
    [
        ("b200-vllm-eager", True),
        ("v100-dlrm-rank0", True),
        ("mi300x-sglang-graph-decode", False),
        ("mi300x-vllm-decode", False),
        ("a100-transformer-batch512", False),
    ],
)
def test_no_other_kernel_of_the_shared_traces_communicates(shared_database, trace, is_distributed):
    run = shared_database(f"{trace}.json.gz")
    query = "SELECT DISTINCT name FROM kernels WHERE class = 'communication'"
    names = [name for (name,) in run.fetch(query)[1]]
    assert bool(names) == is_distributed
    assert all("nccl" in name or "multimem_all_reduce" in name for name in names)


def test_classes_of_the_shared_traces(shared_database):
    kinds = {
        ("b200-vllm-eager", "bmm_%"): "gemm",
        ("b200-vllm-eager", "%quantize_with_block_size%"): "elementwise",
        ("b200-vllm-eager", "%moe::dev::routing%"): "reduction",
        ("mi300x-resnet-checkpoint", "igemm_%"): "convolution",
        ("a100-alexnet", "%scudnn%"): "convolution",
        ("v100-dlrm-rank0", "%embedding%codegen%"): "copy",
        ("mi300x-sglang-graph-decode", "%kv_indices%"): "copy",
    }
    for (trace, name), kind in kinds.items():
        run = shared_database(f"{trace}.json.gz")
        query = f"SELECT DISTINCT class FROM kernels WHERE name LIKE '{name}'"
        assert run.fetch(query)[1] in ([], [(kind,)]), (trace, name)
