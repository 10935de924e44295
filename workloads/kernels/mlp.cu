// act(gate) * up of a packed projection in one pass over memory: two reads and one write per
// element. mlp.cpp defines the operators.

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>

namespace {

using at::Tensor;

enum class Activation { GeluTanh, Gelu, Silu, Relu };

// The elements that one load or store moves: 16 bytes if rows allow it, otherwise one element.
template <typename T, int WIDTH>
struct alignas(sizeof(T) * WIDTH) Pack {
  T lane[WIDTH];
};

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + __expf(-x)); }

template <Activation ACTIVATION>
__device__ __forceinline__ float activated(float x) {
  if constexpr (ACTIVATION == Activation::GeluTanh) {
    // (1 + tanh(u)) / 2 = sigmoid(2 u): https://arxiv.org/abs/1606.08415
    return x * sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
  } else if constexpr (ACTIVATION == Activation::Gelu) {
    return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
  } else if constexpr (ACTIVATION == Activation::Silu) {
    return x * sigmoid(x);
  } else {
    return fmaxf(x, 0.0f);
  }
}

// One flat range over the packs of the result; `packs` is the count in half a row. Index is 32-bit if that counts all packs, since a 64-bit division takes some 70 instructions.
template <typename T, int WIDTH, Activation ACTIVATION, typename Index>
__global__ void act_mul_kernel(const Pack<T, WIDTH>* __restrict__ projected,
                               Pack<T, WIDTH>* __restrict__ out, Index total, Index packs) {
  const Index stride = Index(gridDim.x) * blockDim.x;
  for (Index at = Index(blockIdx.x) * blockDim.x + threadIdx.x; at < total; at += stride) {
    const Index row = at / packs;
    const Pack<T, WIDTH>* gate_at = projected + int64_t(row) * packs + at;
    const Pack<T, WIDTH> gate = gate_at[0];
    const Pack<T, WIDTH> up = gate_at[packs];
    Pack<T, WIDTH> result;
#pragma unroll
    for (int lane = 0; lane < WIDTH; ++lane) {
      const float value = activated<ACTIVATION>(static_cast<float>(gate.lane[lane]));
      result.lane[lane] = static_cast<T>(value * static_cast<float>(up.lane[lane]));
    }
    out[at] = result;
  }
}

template <typename T, int WIDTH, Activation ACTIVATION, typename Index>
void launch_indexed(const Tensor& projected, const Tensor& out) {
  constexpr int THREADS = 256;
  // As many blocks as a multiprocessor holds at once:
  // https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities
  constexpr int64_t RESIDENT = 2048 / THREADS;
  int processors = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount,
                                        projected.get_device()));
  const int64_t total = out.numel() / WIDTH;
  const dim3 grid(std::min((total + THREADS - 1) / THREADS, RESIDENT * processors));
  act_mul_kernel<T, WIDTH, ACTIVATION, Index>
      <<<grid, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
          reinterpret_cast<const Pack<T, WIDTH>*>(projected.const_data_ptr<T>()),
          reinterpret_cast<Pack<T, WIDTH>*>(out.mutable_data_ptr<T>()), Index(total),
          Index(out.size(1) / WIDTH));
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename T, int WIDTH, Activation ACTIVATION>
void launch(const Tensor& projected, const Tensor& out) {
  // Half of what 32 bits count, since the last step passes the end.
  if (out.numel() / WIDTH < int64_t{1} << 31) {
    launch_indexed<T, WIDTH, ACTIVATION, uint32_t>(projected, out);
  } else {
    launch_indexed<T, WIDTH, ACTIVATION, int64_t>(projected, out);
  }
}

template <typename T, Activation ACTIVATION>
void launch_widest(const Tensor& projected, const Tensor& out) {
  constexpr int WIDTH = 16 / sizeof(T);
  const auto address = reinterpret_cast<std::uintptr_t>(projected.const_data_ptr<T>());
  // Every row must begin at a multiple of 16 bytes, as the allocator's memory does.
  if (out.size(1) % WIDTH == 0 && address % 16 == 0) {
    launch<T, WIDTH, ACTIVATION>(projected, out);
  } else {
    launch<T, 1, ACTIVATION>(projected, out);
  }
}

template <typename T>
void launch_named(const Tensor& projected, const Tensor& out, c10::string_view activation) {
  if (activation == "gelu-tanh") {
    launch_widest<T, Activation::GeluTanh>(projected, out);
  } else if (activation == "gelu") {
    launch_widest<T, Activation::Gelu>(projected, out);
  } else if (activation == "silu") {
    launch_widest<T, Activation::Silu>(projected, out);
  } else {
    launch_widest<T, Activation::Relu>(projected, out);
  }
}

// (rows, 2 * hidden) to (rows, hidden), contiguous: act(first half) * second half, in float32.
Tensor act_mul_cuda(const Tensor& projected, c10::string_view activation) {
  const c10::cuda::CUDAGuard guard(projected.device());
  const Tensor packed = projected.contiguous();
  const Tensor out = at::empty({packed.size(0), packed.size(1) / 2}, packed.options());
  if (out.numel() > 0) {
    AT_DISPATCH_SWITCH(
        packed.scalar_type(), "act_mul",
        AT_DISPATCH_CASE(at::kFloat, [&] { launch_named<scalar_t>(packed, out, activation); })
            AT_DISPATCH_CASE(at::kHalf, [&] { launch_named<scalar_t>(packed, out, activation); })
                AT_DISPATCH_CASE(at::kBFloat16,
                                 [&] { launch_named<scalar_t>(packed, out, activation); }));
  }
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(tracekit, CUDA, library) {
  library.impl("act_mul", act_mul_cuda);
}
