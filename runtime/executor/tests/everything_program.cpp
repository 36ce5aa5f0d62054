#include "pteron/runtime/executor/tests/everything_program.h"

#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron::testing {
namespace {

void add_forward(ProgramSpec* program) {
  const uint32_t constant_index = program->add_constant(floats(kConstant));
  const uint32_t state_index = program->add_initial_value(floats(kInitialState));
  const auto double_it = static_cast<uint32_t>(program->add_segment(text("2")));
  program->add_named("blob", text("some bytes"));
  program->inline_delegate_data->push_back(text("-1"));

  MethodSpec& method = program->add_method("forward");
  method.delegates = {{kScaleBackend, true, 1, double_it, {{"name", text("doubles")}}},
                      {kScaleBackend, true, 0, 0, {{"name", text("negates")}}}};

  const int x = method.add(TensorSpec::planned({4}, 0));
  const int n = method.add(int64_t{3});
  const int y = method.add(TensorSpec::input({4}).bounded());
  const int hello = method.add(StringSpec{"hello"});
  const int none = method.add(NoneSpec{});
  method.inputs = {x, n, y, hello, none};
  method.input_names = {{"x", "n", "y", "greeting", "nothing"}};

  TensorSpec state_spec = TensorSpec::mutable_buffer({4}, 192, "state");
  state_spec.data_index = state_index;
  const int constant = method.add(TensorSpec::constant({4}, constant_index));
  const int external = method.add(TensorSpec::external({4}, "external"));
  const int state = method.add(state_spec);
  const int sum = method.add(TensorSpec::planned({4}, 64));
  const int scaled = method.add(TensorSpec::planned({4}, 128));
  const int moved = method.add(TensorSpec::input({4}));  // no memory before something is moved here
  const int out = method.add(TensorSpec::planned({4}, 256));
  const int total = method.add(TensorSpec::planned({1}, 320));
  const int negated = method.add(TensorSpec::planned({4}, 384));
  const int y_out = method.add(TensorSpec::input({4}).bounded());
  const int counter = method.add(int64_t{0});
  const int zero = method.add(int64_t{0});
  const int one = method.add(int64_t{1});
  const int goes_on = method.add(false);
  const int never = method.add(false);
  const int half = method.add(0.5);
  const int ints = method.add(IntListSpec{{{n, one}}});
  const int doubles = method.add(DoubleListSpec{{{0.5, 1.5}}});
  const int bools = method.add(BoolListSpec{{{1, 0, 255}}});  // any byte but 0 is true
  const int tensors = method.add(TensorListSpec{{{constant}}});
  const int optionals = method.add(OptionalTensorListSpec{{{-1, constant}}});
  method.outputs = {out, total, negated, y_out, y, hello, none, half};
  method.output_names = {{"out", "total", "negated", "y_out", "y", "greeting", "nothing", "half"}};

  method.kernel("test::add.out", {x, constant, sum, sum});
  method.instruction(DelegateCallSpec{0, {{sum, scaled}}});
  method.kernel("test::add.out", {scaled, external, scaled, scaled});
  const int loop = method.kernel("test::add.out", {state, constant, state, state});
  method.kernel("test::add_int", {counter, one, counter});
  method.kernel("test::less", {counter, n, goes_on});
  const int leave = method.instruction(JumpFalseSpec{goes_on, 0});
  method.instruction(JumpFalseSpec{never, loop});
  std::get<JumpFalseSpec>(method.chain()[leave]).destination =
      method.kernel("test::add_int", {zero, zero, counter});
  method.instruction(MoveSpec{scaled, moved});
  method.instruction(FreeSpec{sum});
  method.kernel("test::add.out", {moved, state, out, out});
  method.kernel("test::sum_lists", {ints, doubles, bools, tensors, optionals, total, total});

  method.chains->emplace_back(std::vector<InstructionSpec>{});  // a second chain
  method.instruction(DelegateCallSpec{1, {{constant, negated}}});
  method.kernel("test::add.out", {y, y, y_out, y_out});
}

}  // namespace

EverythingProgram EverythingProgram::make() {
  EverythingProgram everything;
  add_forward(&everything.program);
  MethodSpec& getter = everything.program.add_method("get_length");
  getter.buffer_sizes = {0};
  getter.outputs = {getter.add(int64_t{128}), getter.add(std::vector<int64_t>{1, 2})};
  everything.data.add_tensor("external", {4}, floats(kExternal));
  everything.data.add_blob("opaque", text("not a tensor"));
  return everything;
}

}  // namespace pteron::testing
