"""Short names of kernels say what tells kernels apart, and never fail."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracekit.reporters.kernel_names import short_name

ADD = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, "
    "std::array<char*, 3ul> >(int, std::array<char*, 3ul>)"
)
NEG = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::neg_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#2}::operator()() const::{lambda(float)#1}, "
    "at::detail::Array<char*, 2> >(int, at::detail::Array<char*, 2>)"
)
SCALED = (
    "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<"
    "at::native::AUnaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> "
    "> >(at::TensorIteratorBase&)::{lambda(int)#1}>(int)"
)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        (ADD, "vectorized_elementwise_kernel<CUDAFunctor_add<BFloat16>>"),
        (NEG, "vectorized_elementwise_kernel<neg_kernel_cuda>"),
        (SCALED, "elementwise_kernel<AUnaryFunctor<float, MulFunctor>>"),
        ("void cutlass::Kernel2<cutlass_80_gemm>(cutlass_80_gemm::Params)", "cutlass_80_gemm"),
        ("void (anonymous namespace)::softmax<c10::Half, 8>(float*, int)", "softmax<Half>"),
        (
            "std::enable_if<(((8)>(0)))&&vllm::_typeConvert<c10::BFloat16>::exists, void>::type "
            "vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
            "fused_add_rms_norm_kernel<BFloat16>",
        ),
        ("void internal::gemvx::kernel<int, __half>(int)", "gemvx::kernel<__half>"),
        ("ncclDevKernel_SendRecv(ncclDevComm*, unsigned long)", "ncclDevKernel_SendRecv"),
        ("_ZN2ck6device12_GLOBAL__N_116kernel_batched_INS_4GemmE", "kernel_batched_I"),
        ("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalEE", "GemmUniversal"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_MT64x32x256" + "_X1" * 40, "Cijk_Alik_Bljk_BBS MT64x32x256"),
        (
            "void ck_tile::kentry<ck_tile::gfx950_t, 2, ck_tile::FmhaFwdKernel<Problem>, Args>(A) "
            "[clone .kd]",
            "FmhaFwdKernel<Problem>",
        ),
        ("input_fusion.kd", "input_fusion"),
        ("triton_poi_fused_add_0", "triton_poi_fused_add_0"),
        ("Memcpy HtoD (Pageable -> Device)", "Memcpy HtoD (Pageable -> Device)"),
        ("heads.py(11): <listcomp>", "heads.py(11): <listcomp>"),
        ("aten::mm", "aten::mm"),
        ("gemm_" + "x" * 70 + "_align8", "gemm_" + "x" * 42 + "…xxxxx_align8"),
    ],
)  # fmt: skip
def test_the_function_that_computes_is_kept(name, short):
    assert short_name(name) == short


def test_what_computes_is_kept_where_the_whole_name_does_not_fit():
    assert short_name(SCALED, 44) == "elementwise_kernel<MulFunctor>"


@given(st.text("aZN_Kernel2<>(){}:, *0123456789", max_size=80), st.integers(10, 80))
def test_any_text_has_a_short_name(text, most):
    assert len(short_name(text, most)) <= most


def test_deep_nesting_ends():
    assert short_name("void " + "cutlass::Kernel<" * 2_000)
    assert short_name("_Z" + "9" * 5_000)
