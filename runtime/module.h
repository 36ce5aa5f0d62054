// A program file and its methods, loaded when they are first needed.
//
//   #include "pteron/runtime/module.h"
//
//   Result<std::vector<float>> classify(Module& module, std::vector<float> pixels) {
//     PTERON_ASSIGN_OR_RETURN(TensorPtr x, make_tensor_ptr({1, 784}, std::move(pixels)));
//     PTERON_ASSIGN_OR_RETURN(Module::Outputs outputs, module.forward(x));
//     PTERON_ASSIGN_OR_RETURN(Tensor scores, outputs.tensor());
//     return to_vector<float>(scores);
//   }
//   Error run() {
//     Module module("model.pte");
//     PTERON_ASSIGN_OR_RETURN(auto scores, classify(module, std::vector<float>(784)));
//     return Error::Ok;
//   }
//
// Inputs are given in order, or by name, which is that of the argument of the exported module; outputs
// that a dict held have its keys.
//
//   Error step(Module& decoder, const TensorPtr& ids, const TensorPtr& position) {
//     PTERON_ASSIGN_OR_RETURN(auto outputs, decoder.execute("decode", {ids, position}));
//     PTERON_ASSIGN_OR_RETURN(
//         outputs, decoder.execute("decode", {{"position", position}, {"ids", ids}}));
//     PTERON_ASSIGN_OR_RETURN(Tensor logits, outputs.tensor("logits"));
//     return decoder.reset_state();
//   }
//
// What else there is to say is in the options: weights in .ptd files, other devices, what a backend shall
// do.
//
//   Error load_on_the_second_gpu() {
//     Module::Options options;
//     options.load.data_paths = {"model.ptd"};
//     PTERON_RETURN_IF_ERROR(options.load_method.devices.add("cuda:0=cuda:1"));
//     Module module("model.pte", std::move(options));
//     PTERON_RETURN_IF_ERROR(module.load_method("forward"));
//     PTERON_RETURN_IF_ERROR(module.set_input(*make_tensor_ptr(std::vector<float>{1, 2}), 0));
//     return module.prepare();   // CUDA graphs, for inputs of these sizes
//   }
//
// The program links the backends that its models use (//backends/.../runtime). The methods of a module
// share their state (a KV cache), as those of a Session do, and weights are there once. Nothing throws:
// every failure is an Error.
//
// Not thread-safe, but for cancel(): one thread at a time. For another thread make another module over the same
// program(), which shares code and weights and has state of its own. Nothing is allocated by execute()
// of a loaded method, inputs by name included; what a backend does is in its documentation.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "pteron/runtime/core/evalue.h"
#include "pteron/runtime/core/result.h"
#include "pteron/runtime/core/tensor_ptr.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/planned_buffer.h"
#include "pteron/runtime/executor/program.h"

namespace pteron {

class Module final {
 public:
  struct Options {
    LoadOptions load;
    // For all methods. Without a session the module has one of its own; what is said for a backend goes
    // to the methods that use it.
    LoadMethodOptions load_method;
  };

  // Which input or output: a number, counted from 0, or a name. Borrows the name.
  class Key final {
   public:
    template <typename Integer, typename = std::enable_if_t<std::is_integral_v<Integer>>>
    Key(Integer index) : index_(static_cast<size_t>(index)) {}     // NOLINT: implicit
    Key(std::string_view name) : name_(name), is_name_(true) {}    // NOLINT: implicit
    Key(const char* name) : Key(std::string_view(name)) {}         // NOLINT: implicit
    Key(const std::string& name) : Key(std::string_view(name)) {}  // NOLINT: implicit

    // The number among `values`. NotFound, naming those there are; `what` is "input" or "output".
    Result<size_t> find(const std::vector<ValueMeta>& values, const char* what) const;

   private:
    size_t index_ = 0;
    std::string_view name_;
    bool is_name_ = false;
  };

  struct NamedInput {
    std::string_view name;
    EValue value;
  };

  // One value, or {x, y}, or {{"x", x}, {"y", y}}. An argument of a call: it borrows.
  class Inputs final {
   public:
    template <typename Value,
              typename = std::enable_if_t<std::is_convertible_v<const Value&, EValue>>>
    Inputs(const Value& value) : one_(value), values_(&one_, 1) {}               // NOLINT: implicit
    Inputs(std::initializer_list<EValue> values) : values_(span_of(values)) {}   // NOLINT: implicit
    Inputs(const std::vector<EValue>& values) : values_(values) {}               // NOLINT: implicit
    Inputs(std::initializer_list<NamedInput> named) : named_(span_of(named)) {}  // NOLINT: implicit
    Inputs(const std::vector<NamedInput>& named) : named_(named) {}              // NOLINT: implicit
    Inputs(const Inputs&) = delete;
    Inputs& operator=(const Inputs&) = delete;

    Span<const EValue> values() const { return values_; }
    Span<const NamedInput> named() const { return named_; }

   private:
    template <typename T>
    static Span<const T> span_of(const std::initializer_list<T>& list) {
      return {list.begin(), list.size()};
    }

    EValue one_;
    Span<const EValue> values_;
    Span<const NamedInput> named_;
  };

  // What a method returned. Borrowed from the module: valid until the method runs again.
  class Outputs final {
   public:
    explicit Outputs(const Method& method) : method_(&method) {}

    size_t size() const { return method_->outputs_size(); }
    const EValue& operator[](size_t index) const { return method_->get_output(index); }
    // NotFound, naming those there are; InvalidType: it is no tensor.
    Result<Tensor> tensor(Key key = 0) const;
    Result<EValue> get(Key key) const;

   private:
    const Method* method_;
  };

  // Opens nothing yet: load() does, and whatever needs the file.
  explicit Module(std::string path, Options options = {});
  // Over a program that is open; `options.load` is not used.
  explicit Module(std::shared_ptr<const Program> program, Options options = {});
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;

  // Opens the file. What is open stays so: calls after the first do nothing. Errors as of
  // Program::load(); InvalidArgument: options for a backend that no method uses.
  Error load();
  bool is_loaded() const { return is_loaded_; }
  Result<std::shared_ptr<const Program>> program();

  // Those of Program, which these open.
  Result<std::vector<std::string>> method_names();
  Result<MethodMeta> method_meta(std::string_view method);

  // Loads the method, once; execute() and others do it as well. Outputs that have no memory in the
  // program get some here.
  Error load_method(std::string_view method);
  bool is_method_loaded(std::string_view method) const;
  // Whether it was loaded. What it returned goes with it; the state stays.
  bool unload_method(std::string_view method);

  // Runs a method on these inputs. InvalidArgument or InvalidType says all that is wrong with them, and
  // nothing has run. An input that is not planned is read where it lies; see Method::set_input().
  // Cancelled, TimedOut, OutOfResources: see Method::execute().
  Result<Outputs> execute(std::string_view method, const Inputs& inputs,
                          const ExecuteOptions& options = {});
  Result<Outputs> forward(const Inputs& inputs, const ExecuteOptions& options = {}) {
    return execute("forward", inputs, options);
  }

  // Runs it on the inputs that were set, or given, before.
  Result<Outputs> execute(std::string_view method);
  Result<Outputs> forward() { return execute("forward"); }

  // Method::cancel(), from any thread while none loads or unloads methods. False: it does not run.
  bool cancel(std::string_view method = "forward");

  // As those of Method.
  Error set_input(std::string_view method, const EValue& value, Key key);
  Error set_input(const EValue& value, Key key) { return set_input("forward", value, key); }
  Error set_inputs(std::string_view method, const Inputs& inputs);
  Error set_inputs(const Inputs& inputs) { return set_inputs("forward", inputs); }

  // The output is written to the memory of `tensor`, which must hold its upper bound and outlive the
  // method's runs. InvalidState: the output has memory in the program.
  Error set_output(std::string_view method, const Tensor& tensor, Key key = 0);
  Error set_output(const Tensor& tensor, Key key = 0) { return set_output("forward", tensor, key); }

  // Method::prepare(), for the inputs that are set.
  Error prepare(std::string_view method = "forward");

  // The state of all methods to its initial value: a new conversation.
  Error reset_state();

 private:
  struct Loaded {
    std::unique_ptr<Method> method;
    std::vector<EValue> inputs;  // in order, where they are given by name
    std::vector<char> is_given;
    std::vector<PlannedBuffer> outputs;  // memory of those that are not planned
  };

  Result<Loaded*> find(std::string_view method);

  std::string path_;
  Options options_;
  std::shared_ptr<const Program> program_;
  bool is_loaded_ = false;
  std::map<std::string, Loaded, std::less<>> methods_;
};

}  // namespace pteron
