// Calls in any order: programs, sessions and methods are loaded, run, cancelled, changed and freed,
// also while a method runs. Each ends in an error or a result, and nothing is left.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/executor/tests/fuzzed_program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron::testing {
namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// What the fuzzer decides, byte by byte; zeros after the end.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), left_(size) {}
  bool at_end() const { return left_ == 0; }
  size_t below(size_t bound) {
    if (left_ == 0 || bound == 0) return 0;
    --left_;
    return *data_++ % bound;
  }
  template <typename T>
  T* any(std::vector<T>& of) {
    return of.empty() ? nullptr : &of[below(of.size())];
  }
  template <typename T>
  void erase(std::vector<T>& of) {
    if (!of.empty()) of.erase(of.begin() + static_cast<std::ptrdiff_t>(below(of.size())));
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

struct Loaded {
  std::unique_ptr<Method> method;
  std::vector<Buffer> buffers;  // of inputs and outputs, as long as the method
};

class World {
 public:
  explicit World(Choices choices) : choices_(choices) {}

  void run() {
    while (!choices_.at_end()) step();
  }

 private:
  void step() {
    switch (choices_.below(12)) {
      case 0:
        load_program();
        break;
      case 1:
        choices_.erase(programs_);
        break;
      case 2:
        if (auto* const program = choices_.any(programs_)) {
          sessions_.push_back((*program)->new_session());
        }
        break;
      case 3:
        choices_.erase(sessions_);
        break;
      case 4:
      case 5:
        load_method();
        break;
      case 6:
        choices_.erase(methods_);
        break;
      case 7:
        change_session();
        break;
      default:
        if (Loaded* const loaded = choices_.any(methods_)) use(*loaded);
    }
  }

  void load_program() {
    static const Bytes files[] = {write_program(everything()), write_program(kernels())};
    if (programs_.size() > 4) return;
    const Bytes& bytes = files[choices_.below(2)];
    LoadOptions options;
    options.verification = static_cast<Verification>(choices_.below(4));
    if (choices_.below(8) == 1) options.limits.load_bytes = 100;
    auto program = Program::load({bytes.data(), bytes.size()}, nullptr, options);
    if (program.ok()) programs_.push_back(*program);
  }

  void load_method() {
    auto* const program = choices_.any(programs_);
    if (!program || methods_.size() > 6) return;
    const std::vector<std::string> names = (*program)->method_names();
    LoadMethodOptions options;
    if (auto* const session = choices_.any(sessions_); session && choices_.below(2)) {
      options.session = *session;
    }
    options.separate_tensors = choices_.below(2) != 0;
    options.limits.emplace().instructions = choices_.below(4) ? 1000 : 3;
    if (choices_.below(8) == 1) options.limits->planned_bytes = 64;
    auto method = (*program)->load_method(names[choices_.below(names.size())], options);
    if (method.ok()) methods_.push_back({std::move(*method), {}});
  }

  void change_session() {
    auto* const session = choices_.any(sessions_);
    if (!session) return;
    switch (choices_.below(3)) {
      case 0:
        (void)(*session)->reset().ok();
        break;
      case 1:
        if (auto copy = (*session)->copy(); copy.ok() && sessions_.size() < 6) {
          sessions_.push_back(*copy);
        }
        break;
      default:
        for (const std::string& name : (*session)->buffer_names()) {
          const Result<Tensor> buffer = (*session)->buffer(name);
          require(buffer.ok(), "a buffer with a name is none");
          (void)(*session)->set_buffer(name, *buffer).ok();
        }
    }
  }

  EValue value_for(const ValueMeta& meta, Loaded& loaded) {
    if (meta.kind == ValueKind::Tensor && choices_.below(8)) {
      std::vector<int64_t> sizes = meta.sizes;
      for (int64_t& size : sizes) {
        if (choices_.below(4) == 1) size = static_cast<int64_t>(choices_.below(6));
      }
      const auto made = Tensor::make(meta.dtype, sizes, meta.dim_order, nullptr, meta.device);
      if (!made.ok()) return EValue();
      Tensor tensor = *made;
      loaded.buffers.push_back(allocate(tensor.nbytes()));
      std::fill_n(loaded.buffers.back().get(), tensor.nbytes(), uint8_t{0});
      tensor.set_data(loaded.buffers.back().get(), tensor.nbytes());
      return EValue(tensor);
    }
    if (meta.kind == ValueKind::Int) return EValue(static_cast<int64_t>(choices_.below(5)));
    if (meta.kind == ValueKind::String) return EValue(std::string_view("hello"));
    return EValue();
  }

  void use(Loaded& loaded) {
    Method& method = *loaded.method;
    switch (choices_.below(8)) {
      case 0:
        for (size_t i = 0; i < method.inputs_size(); ++i) {
          (void)method.set_input(i, value_for(method.meta().inputs[i], loaded)).ok();
        }
        break;
      case 1:
        for (size_t i = 0; i < method.outputs_size(); ++i) {
          const size_t nbytes = method.meta().outputs[i].nbytes;
          loaded.buffers.push_back(allocate(nbytes));
          (void)method.set_output_data(i, loaded.buffers.back().get(), nbytes).ok();
        }
        break;
      case 2:
        (void)method.reset_state().ok();
        break;
      case 3:
        require(!method.cancel(), "nothing ran that could be cancelled");
        break;
      case 4:
        for (size_t i = 0; i < method.outputs_size(); ++i) (void)method.get_output(i);
        break;
      default:
        run(method);
    }
  }

  // A run with a callback that calls the method that runs.
  static Error interfere(void* context) {
    auto* const method = static_cast<Method*>(context);
    require(method->set_input(0, EValue()) == Error::InvalidState, "an input was set in a run");
    require(method->execute() == Error::InvalidState, "a run within a run");
    require(method->reset_state() == Error::InvalidState, "state was reset in a run");
    require(method->cancel(), "a run could not be cancelled");
    return Error::Ok;
  }

  void run(Method& method) {
    ExecuteOptions options;
    const size_t how = choices_.below(6);
    if (how == 1) options.timeout = 0;
    if (how == 2) {
      options.poll = interfere;
      options.poll_context = &method;
    }
    const Error error = choices_.below(4) ? method.execute(options) : method.prepare(options);
    if (!error.ok())
      require(error.code() == Error::Cancelled || !error.message().empty(), "silent");
  }

  Choices choices_;
  std::vector<std::shared_ptr<const Program>> programs_;
  std::vector<std::shared_ptr<Session>> sessions_;
  std::vector<Loaded> methods_;
};

}  // namespace
}  // namespace pteron::testing

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pteron::testing;
  World({data, size}).run();
  require(scale_backend_log().alive == 0, "a delegate was not destroyed");
  return 0;
}
