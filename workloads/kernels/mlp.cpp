// The gated MLP as one operator: down(act(gate(x)) * up(x)), without bias.
// https://arxiv.org/abs/2002.05202
//
// The dispatcher registers the operator, so a profiler's trace shows its name:
// https://docs.pytorch.org/tutorials/advanced/cpp_custom_ops.html

// Not <ATen/ATen.h>, which takes twice as long to compile.
#include <ATen/core/Tensor.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/silu.h>
#include <torch/library.h>

#include <string>

namespace {

using at::Tensor;

// Without a stream, whose number formats crash where two C++ libraries are loaded.
std::string listed(at::IntArrayRef sizes) {
  std::string text;
  for (const int64_t size : sizes) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return "[" + text + "]";
}

bool is_known(c10::string_view activation) {
  return activation == "gelu-tanh" || activation == "gelu" || activation == "silu" ||
         activation == "relu";
}

void check(const Tensor& x, const Tensor& gate_up, const Tensor& down,
           c10::string_view activation) {
  TORCH_CHECK_VALUE(x.scalar_type() == at::kFloat || x.scalar_type() == at::kHalf ||
                        x.scalar_type() == at::kBFloat16,
                    "gated_mlp computes float32, float16 and bfloat16, not ", x.scalar_type());
  TORCH_CHECK_VALUE(is_known(activation), "gated_mlp knows no activation '", activation,
                    "'; there are: gelu-tanh, gelu, silu, relu");
  TORCH_CHECK_VALUE(x.dim() >= 1 && gate_up.dim() == 2 && down.dim() == 2 &&
                        gate_up.size(1) == x.size(-1) && gate_up.size(0) == 2 * down.size(1) &&
                        down.size(0) == x.size(-1),
                    "gated_mlp takes x (..., dim), gate_up (2 * hidden, dim) and down (dim, "
                    "hidden), not ", listed(x.sizes()), ", ", listed(gate_up.sizes()), " and ",
                    listed(down.sizes()));
  for (const Tensor& weight : {gate_up, down}) {
    TORCH_CHECK_VALUE(weight.scalar_type() == x.scalar_type(),
                      "gated_mlp needs x and the weights in one dtype, not ", x.scalar_type(),
                      " and ", weight.scalar_type());
    TORCH_CHECK_VALUE(weight.device() == x.device(),
                      "gated_mlp needs x and the weights on one device, not ", x.device(),
                      " and ", weight.device());
  }
}

// Takes x (..., dim) to (..., dim), in x's dtype. gate_up is (2 * hidden, dim): the rows of gate,
// then the rows of up. Computes no gradients.
Tensor gated_mlp(const Tensor& x, const Tensor& gate_up, const Tensor& down,
                 c10::string_view activation) {
  static const auto act_mul = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("tracekit::act_mul", "")
                                  .typed<Tensor(const Tensor&, c10::string_view)>();
  check(x, gate_up, down, activation);
  const int64_t rows = c10::multiply_integers(x.sizes().slice(0, x.dim() - 1));
  const Tensor projected = at::mm(x.reshape({rows, x.size(-1)}), gate_up.t());
  return at::mm(act_mul.call(projected, activation), down.t()).view(x.sizes());
}

// (rows, 2 * hidden) to (rows, hidden): act(first half) * second half, the product in place.
Tensor act_mul_cpu(const Tensor& projected, c10::string_view activation) {
  const int64_t hidden = projected.size(1) / 2;
  const Tensor gate = projected.narrow(1, 0, hidden);
  const Tensor up = projected.narrow(1, hidden, hidden);
  if (activation == "gelu-tanh") {
    return at::gelu(gate, "tanh").mul_(up);
  }
  if (activation == "gelu") {
    return at::gelu(gate).mul_(up);
  }
  return (activation == "silu" ? at::silu(gate) : at::relu(gate)).mul_(up);
}

}  // namespace

TORCH_LIBRARY(tracekit, library) {
  library.def("gated_mlp(Tensor x, Tensor gate_up, Tensor down, str activation) -> Tensor");
  library.def("act_mul(Tensor projected, str activation) -> Tensor");
}

TORCH_LIBRARY_IMPL(tracekit, CompositeExplicitAutograd, library) {
  library.impl("gated_mlp", gated_mlp);
}

TORCH_LIBRARY_IMPL(tracekit, CPU, library) {
  library.impl("act_mul", act_mul_cpu);
}
