#include "pteron/backends/aoti/ops/recurrent/recurrent.h"

#include <algorithm>

#include "pteron/backends/cpu/runtime/kernels/recurrent_step.h"
#include "pteron/backends/cpu/runtime/shims/launch.h"

namespace pteron::cpu {
namespace {

// Multiplications that are worth a thread.
constexpr int64_t kWorkPerThread = 1 << 16;

// Distributes `count` units or rows, of `work` multiplications each.
template <typename Body>
void for_units(int64_t count, int64_t work, const Body& body) {
  const int64_t grain = kWorkPerThread / std::max<int64_t>(kRecurrentUnits * work, 1) + 1;
  parallel_for((count + kRecurrentUnits - 1) / kRecurrentUnits, grain,
               [&](int64_t begin, int64_t end) {
                 body(begin * kRecurrentUnits, std::min(end * kRecurrentUnits, count));
               });
}

template <typename T>
Error run(const aoti::RecurrentCall& call) {
  const RecurrentFunctions<T>& functions = recurrent_functions<T>();
  const auto data = [](const SlimTensor* tensor) {
    return tensor ? tensor->data_as<T>() : nullptr;
  };
  const int64_t steps = call.input.size(0), batch = call.input.size(1), rows = call.input.size(2);
  const int64_t gates = gates_of(call.kind), units = rows / gates, outputs = call.out.size(2);
  Scratch<T> unprojected(call.projection ? batch * units : 0);
  RecurrentStep<T> step{call.kind, batch, units, outputs};
  step.hidden = data(&call.hx);
  step.weight = data(&call.weight);
  step.bias = data(call.bias);
  step.cell = data(call.c);
  for (int64_t i = 0; i < steps; ++i) {
    const int64_t at = call.reverse ? steps - 1 - i : i;
    T* const out = data(&call.out) + at * batch * outputs;
    step.input = data(&call.input) + at * batch * rows;
    step.out = call.projection ? unprojected.data() : out;
    for_units(units, batch * gates * outputs,
              [&](int64_t begin, int64_t end) { functions.step(step, begin, end); });
    if (call.projection) {
      for_units(outputs, batch * units, [&](int64_t begin, int64_t end) {
        functions.project(batch, units, outputs, unprojected.data(), data(call.projection), out,
                          begin, end);
      });
    }
    step.hidden = out;
  }
  return Error::Ok;
}

}  // namespace

Error recurrent(const aoti::RecurrentCall& call) {
  switch (call.out.dtype()) {
    case DType::Float:
      return run<float>(call);
    case DType::Double:
      return run<double>(call);
    default:
      return aoti::no_kernel_for(call.out);
  }
}

}  // namespace pteron::cpu
