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

// Strides over rows along y and over a row's packs along x; `packs` is the count in half a row.
template <typename T, int WIDTH, Activation ACTIVATION>
__global__ void act_mul_kernel(const Pack<T, WIDTH>* __restrict__ projected,
                               Pack<T, WIDTH>* __restrict__ out, int64_t rows, int64_t packs) {
  for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
    const Pack<T, WIDTH>* gate_row = projected + row * 2 * packs;
    for (int64_t column = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; column < packs;
         column += int64_t{gridDim.x} * blockDim.x) {
      const Pack<T, WIDTH> gate = gate_row[column];
      const Pack<T, WIDTH> up = gate_row[packs + column];
      Pack<T, WIDTH> result;
#pragma unroll
      for (int lane = 0; lane < WIDTH; ++lane) {
        const float value = activated<ACTIVATION>(static_cast<float>(gate.lane[lane]));
        result.lane[lane] = static_cast<T>(value * static_cast<float>(up.lane[lane]));
      }
      out[row * packs + column] = result;
    }
  }
}

template <typename T, int WIDTH, Activation ACTIVATION>
void launch(const Tensor& projected, const Tensor& out) {
  constexpr int THREADS = 128;
  // Limits of a grid: https://docs.nvidia.com/cuda/cuda-c-programming-guide/#compute-capabilities
  constexpr int64_t MOST_BLOCKS_X = 2147483647, MOST_BLOCKS_Y = 65535;
  const int64_t rows = out.size(0), packs = out.size(1) / WIDTH;
  const dim3 grid(std::min((packs + THREADS - 1) / THREADS, MOST_BLOCKS_X),
                  std::min(rows, MOST_BLOCKS_Y));
  act_mul_kernel<T, WIDTH, ACTIVATION><<<grid, THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
      reinterpret_cast<const Pack<T, WIDTH>*>(projected.const_data_ptr<T>()),
      reinterpret_cast<Pack<T, WIDTH>*>(out.mutable_data_ptr<T>()), rows, packs);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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
