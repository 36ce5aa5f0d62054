// A program file and its methods, loaded on first use.
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
// Pass inputs in order, or by the argument's name in the exported module. If the module returned a
// dict, its keys name the outputs.
//
//   Error step(Module& decoder, const TensorPtr& ids, const TensorPtr& position) {
//     PTERON_ASSIGN_OR_RETURN(auto outputs, decoder.execute("decode", {ids, position}));
//     PTERON_ASSIGN_OR_RETURN(
//         outputs, decoder.execute("decode", {{"position", position}, {"ids", ids}}));
//     PTERON_ASSIGN_OR_RETURN(Tensor logits, outputs.tensor("logits"));
//     return decoder.reset_state();
//   }
//
// Options: weights in .ptd files, device mapping, backend options.
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
// Link the backends that the models use (//backends/.../runtime). The methods of a module share
// state (a KV cache), as in a Session, and weights. Throws no exceptions: every failure is an
// Error.
//
// Not thread-safe, except cancel(): one thread at a time. For another thread create another module
// over the same program(), which shares code and weights and has its own state. execute() of a
// loaded method allocates nothing, also with named inputs; for backends see their documentation.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
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
    // For all methods. Without a session the module creates one; backend options apply to the
    // methods that use the backend.
    LoadMethodOptions load_method;
  };

  // An input or output, by index (from 0) or by name. Borrows the name.
  class Key final {
   public:
    template <typename Integer, typename = std::enable_if_t<std::is_integral_v<Integer>>>
    Key(Integer index) : index_(static_cast<size_t>(index)) {}     // NOLINT: implicit
    Key(std::string_view name) : name_(name), is_name_(true) {}    // NOLINT: implicit
    Key(const char* name) : Key(std::string_view(name)) {}         // NOLINT: implicit
    Key(const std::string& name) : Key(std::string_view(name)) {}  // NOLINT: implicit

    // The index in `values`. NotFound lists the valid names; `what` is "input" or "output".
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

  // One value, or {x, y}, or {{"x", x}, {"y", y}}. Borrows; use only as an argument of a call.
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

  // The outputs of a method. Borrowed from the module: valid until the method runs again.
  class Outputs final {
   public:
    explicit Outputs(const Method& method) : method_(&method) {}

    size_t size() const { return method_->outputs_size(); }
    const EValue& operator[](size_t index) const { return method_->get_output(index); }
    // NotFound lists the outputs; InvalidType: not a tensor.
    Result<Tensor> tensor(Key key = 0) const;
    Result<EValue> get(Key key) const;

   private:
    const Method* method_;
  };

  // Does not open the file; load() and the first use do.
  explicit Module(std::string path, Options options = {});
  // Uses an open program; `options.load` is ignored.
  explicit Module(std::shared_ptr<const Program> program, Options options = {});
  Module(Module&&) = default;
  Module& operator=(Module&&) = default;

  // Opens the file; later calls do nothing. Errors as of Program::load(); InvalidArgument: options
  // for a backend that no method uses.
  Error load();
  bool is_loaded() const { return is_loaded_; }
  Result<std::shared_ptr<const Program>> program();

  // As in Program; open the file if needed.
  Result<std::vector<std::string>> method_names();
  Result<MethodMeta> method_meta(std::string_view method);

  // Loads the method once; execute() and others call it. Allocates memory for unplanned outputs.
  Error load_method(std::string_view method);
  bool is_method_loaded(std::string_view method) const;
  // Returns whether it was loaded. Invalidates its outputs; keeps the state.
  bool unload_method(std::string_view method);

  // Runs a method on these inputs. InvalidArgument or InvalidType lists all errors of the inputs;
  // nothing has run then. Unplanned inputs are used in place; see Method::set_input(). Cancelled,
  // TimedOut, OutOfResources: see Method::execute().
  Result<Outputs> execute(std::string_view method, const Inputs& inputs,
                          const ExecuteOptions& options = {});
  Result<Outputs> forward(const Inputs& inputs, const ExecuteOptions& options = {}) {
    return execute("forward", inputs, options);
  }

  // Runs it on the inputs set before.
  Result<Outputs> execute(std::string_view method);
  Result<Outputs> forward() { return execute("forward"); }

  // Method::cancel(), from any thread while no thread loads or unloads methods. False if it is not
  // running.
  bool cancel(std::string_view method = "forward");

  // As in Method.
  Error set_input(std::string_view method, const EValue& value, Key key);
  Error set_input(const EValue& value, Key key) { return set_input("forward", value, key); }
  Error set_inputs(std::string_view method, const Inputs& inputs);
  Error set_inputs(const Inputs& inputs) { return set_inputs("forward", inputs); }

  // Writes the output to the memory of `tensor`, which must hold its upper bound and outlive the
  // method's runs. InvalidState: the output is planned.
  Error set_output(std::string_view method, const Tensor& tensor, Key key = 0);
  Error set_output(const Tensor& tensor, Key key = 0) { return set_output("forward", tensor, key); }

  // Method::prepare(), for the inputs that are set.
  Error prepare(std::string_view method = "forward");

  // Resets the state of all methods to its initial value: a new conversation.
  Error reset_state();

 private:
  struct Loaded {
    std::unique_ptr<Method> method;
    std::vector<EValue> inputs;  // named inputs in order
    std::vector<char> is_given;
    std::vector<PlannedBuffer> outputs;  // memory of unplanned outputs
  };

  Result<Loaded*> find(std::string_view method);

  std::string path_;
  Options options_;
  std::shared_ptr<const Program> program_;
  bool is_loaded_ = false;
  std::map<std::string, Loaded, std::less<>> methods_;
};

}  // namespace pteron
