// One wrong field at a time, and what the reader says of it.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/program_reader/method_checks.h"

namespace pteron {
namespace {

using namespace testing;  // NOLINT: the specs

// Values of the program that is then made wrong.
enum Slot : int {
  kX,
  kConstant,
  kPlanned,
  kState,
  kInt,
  kBool,
  kMask,
  kInts,
  kTensors,
  kOptionals
};

ProgramSpec sound_program() {
  ProgramSpec program;
  const uint32_t constant = program.add_constant(floats({1, 2, 3, 4}));
  const uint32_t initial = program.add_initial_value(floats({5, 6, 7, 8}));
  program.inline_delegate_data->push_back(text("inline"));
  program.add_named("key", text("named"));
  MethodSpec& method = program.add_method("forward");
  method.add(TensorSpec::planned({4}, 0));
  method.add(TensorSpec::constant({4}, constant));
  method.add(TensorSpec::planned({4}, 64));
  TensorSpec state = TensorSpec::mutable_buffer({4}, 128, "state");
  state.data_index = initial;
  method.add(state);
  method.add(int64_t{1});
  method.add(true);
  method.add(TensorSpec::planned({2}, 192).with_dtype(ScalarType::Bool));
  method.add(IntListSpec{{{kInt}}});
  method.add(TensorListSpec{{{kX, kConstant}}});
  method.add(OptionalTensorListSpec{{{-1, kX}}});
  method.inputs = {kX};
  method.outputs = {kPlanned};
  method.delegates = {{"Backend", true, 0, 0, {{"spec", text("value")}}}};
  method.kernel("any::op.out", {kX, kConstant, kTensors, kOptionals, kInts, kPlanned});
  method.instruction(DelegateCallSpec{0, {{kX, kState, kPlanned}}});
  method.instruction(MoveSpec{kX, kX});
  method.instruction(JumpFalseSpec{kBool, 5});
  method.instruction(FreeSpec{kX});
  return program;
}

using Change = std::function<void(ProgramSpec&, MethodSpec&)>;

struct Case {
  const char* name;
  Change change;
  const char* message;
  Error::Code code = Error::InvalidProgram;
};

std::ostream& operator<<(std::ostream& stream, const Case& c) { return stream << c.name; }

// A Change by statements over the program `p` or its method `m`.
#define PROGRAM(...) [](ProgramSpec& p, MethodSpec&) { __VA_ARGS__; }
#define METHOD(...) [](ProgramSpec&, MethodSpec& m) { __VA_ARGS__; }

class MethodChecksTest : public ::testing::TestWithParam<Case> {};

TEST_P(MethodChecksTest, IsRefusedWithTheReason) {
  ProgramSpec program = sound_program();
  GetParam().change(program, program.methods->front());
  const Bytes bytes = write_program(program);
  const auto loaded = Program::load(bytes);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.error(), GetParam().code) << loaded.error().message();
  EXPECT_NE(loaded.error().message().find(GetParam().message), std::string::npos)
      << loaded.error().message();

  // Without verification the same comes to light when the method is to be used.
  LoadOptions options;
  options.verification = Verification::Minimal;
  const auto lazily = Program::load(bytes, nullptr, options);
  if (!lazily.ok()) return;  // a table of the program
  const auto meta = (*lazily)->method_meta("forward");
  ASSERT_FALSE(meta.ok());
  EXPECT_NE(meta.error().message().find(GetParam().message), std::string::npos);
  EXPECT_FALSE((*lazily)->load_method("forward").ok());
}

const Case kProgramCases[] = {
    {"version", PROGRAM(p.version = 1), "schema version is 1", Error::NotSupported},
    {"inline_constants", PROGRAM(p.inline_constants = {text("old")}), "an old form",
     Error::NotSupported},
    {"no_methods", PROGRAM(p.methods->clear()), "it has no methods"},
    {"absent_methods", PROGRAM(p.methods.reset()), "it has no methods"},
    {"unnamed_method", METHOD(m.name.reset()), "method 0 has no name"},
    {"method_twice", [](ProgramSpec& p, MethodSpec& m) { p.methods->push_back(MethodSpec(m)); },
     "method \"forward\" is there twice"},
    {"constant_segment", PROGRAM(p.constant_segment->segment_index = 9),
     "constants are in segment 9 of 3"},
    {"constant_offset", PROGRAM((*p.constant_segment->offsets)[1] = 4), "16 bytes at 4 go beyond"},
    {"constant_offset_wraps", PROGRAM((*p.constant_segment->offsets)[1] = ~uint64_t{0}),
     "go beyond"},
    {"constant_misaligned",
     PROGRAM(p.segments[0].resize(32); (*p.constant_segment->offsets)[1] = 2),
     "no multiple of its element"},
    {"mutable_segment", PROGRAM(p.mutable_segments[0].segment_index = 3),
     "initial values are in segment 3"},
    {"two_mutable_segments", PROGRAM(p.mutable_segments.push_back(p.mutable_segments[0])),
     "2 segments of initial values"},
    {"unkeyed_data", PROGRAM(p.named_data[0].key.reset()), "named data 0 has no key"},
    {"named_segment", PROGRAM(p.named_data[0].segment_index = 3),
     "named data \"key\" is in segment 3 of 3"},
    {"key_twice", PROGRAM(p.named_data.push_back(p.named_data[0])), "named data \"key\" is in"},
};

const Case kValueCases[] = {
    {"no_values", METHOD(m.values.reset()), "it has no values"},
    {"no_buffer_sizes", METHOD(m.buffer_sizes.reset()), "does not say how much memory"},
    {"negative_buffer", METHOD((*m.buffer_sizes)[1] = -1), "buffer 1 has -1 bytes"},
    {"buffers_overflow", METHOD(m.buffer_sizes = {{0, INT64_MAX, INT64_MAX}}), "buffer 2 has"},
    {"buffer_device_index", METHOD(m.buffer_devices = {{2, 1, 0}}),
     "a device is given for buffer 2 of 1"},
    {"buffer_device_zero", METHOD(m.buffer_devices = {{0, 1, 0}}),
     "a device is given for buffer 0 of 1"},
    {"buffer_device_twice", METHOD(m.buffer_devices = {{1, 0, 0}, {1, 0, 0}}), "of 1, twice"},
    {"buffer_device_type", METHOD(m.buffer_devices = {{1, 7, 0}}), "buffer 1 is on device 7:0"},
    {"pool_on_other_device", METHOD(m.buffer_devices = {{1, 1, 0}}),
     "is on cpu, planned in buffer 1 on cuda:0"},
    {"unknown_kind", METHOD(m.add(RawUnionSpec{12})), "value 10 has unknown kind 12"},
    {"no_kind", METHOD(m.add(RawUnionSpec{0})), "value 10 has unknown kind 0"},
    {"empty_value", METHOD(m.add(RawUnionSpec{2})), "value 10 is empty"},
    {"empty_tensor", METHOD(m.add(RawUnionSpec{5})), "value 10 is empty"},
    {"string_without_text", METHOD(m.add(StringSpec{})), "a string without text"},
    {"int_list_item", METHOD(m.add(IntListSpec{{{99}}})), "item 0 of value 10 is value 99 of 11"},
    {"int_list_negative", METHOD(m.add(IntListSpec{{{-1}}})), "is value -1 of 11"},
    {"int_list_kind", METHOD(m.add(IntListSpec{{{kX}}})), "Tensor, expected Int"},
    {"tensor_list_kind", METHOD(m.add(TensorListSpec{{{kInt}}})), "Int, expected Tensor"},
    {"tensor_list_none", METHOD(m.add(TensorListSpec{{{-1}}})), "is value -1"},
    {"optional_list_item", METHOD(m.add(OptionalTensorListSpec{{{-2}}})), "is value -2"},
    {"list_of_lists", METHOD(m.add(TensorListSpec{{{kTensors}}})), "TensorList, expected Tensor"},
    {"scalar_type", METHOD(m.tensor(kX).scalar_type = 8), "scalar type 8"},
    {"storage_offset", METHOD(m.tensor(kX).storage_offset = 1), "storage offset is 1"},
    {"layout", METHOD(m.tensor(kX).layout = 1), "layout is 1"},
    {"no_sizes", METHOD(m.tensor(kX).sizes.reset()), "no sizes or no dim order"},
    {"no_dim_order", METHOD(m.tensor(kX).dim_order.reset()), "no sizes or no dim order"},
    {"dim_order_length", METHOD(m.tensor(kX).dim_order = {{0, 1}}), "dim order of 2 dimensions"},
    {"dim_order_twice", METHOD(m.tensor(kX).sizes = {{2, 2}}; m.tensor(kX).dim_order = {{1, 1}}),
     "not a permutation"},
    {"negative_size", METHOD(m.tensor(kX).sizes = {{-4}}), "negative size in [-4]"},
    {"too_many_dims", METHOD(m.tensor(kX) = TensorSpec::planned(std::vector<int32_t>(17, 1), 0)),
     "17 dimensions"},
    {"numel_overflow",
     METHOD(m.tensor(kX) = TensorSpec::planned(std::vector<int32_t>(4, INT32_MAX), 0)),
     "more bytes than can be counted"},
    {"unbounded", METHOD(m.tensor(kX).dynamism = 2), "unbounded", Error::NotSupported},
    {"dynamism", METHOD(m.tensor(kX).dynamism = 3), "shape dynamism is 3"},
    {"location", METHOD(m.tensor(kX).has_extra = true; m.tensor(kX).location = 2), "location is 2"},
    {"device_type", METHOD(m.tensor(kX).has_extra = true; m.tensor(kX).device_type = 2),
     "device type is 2"},
    {"device_index",
     METHOD(m.tensor(kX).has_extra = true; m.tensor(kX).device_type = 1;
            m.tensor(kX).device_index = -1),
     "device index is -1"},
    {"tensor_on_other_device", METHOD(m.tensor(kX).has_extra = true; m.tensor(kX).device_type = 1),
     "is on cuda:0, planned in buffer 1 on cpu"},
    {"constant_on_device",
     METHOD(m.tensor(kConstant).has_extra = true; m.tensor(kConstant).device_type = 1),
     "a constant on cuda:0"},
    {"memory_id_zero", METHOD(m.tensor(kX).memory_id = 0), "planned in buffer 0 of 1"},
    {"memory_id", METHOD(m.tensor(kX).memory_id = 2), "planned in buffer 2 of 1"},
    {"beyond_pool", METHOD(m.tensor(kX).offset = 1024 - 12),
     "(16 bytes at 1012) goes beyond buffer 1"},
    {"offset_wraps", METHOD(m.tensor(kX).offset = ~uint64_t{0} - 3), "goes beyond buffer 1"},
    {"offset_misaligned", METHOD(m.tensor(kX).offset = 2), "planned at 2, no multiple"},
    {"data_index", METHOD(m.tensor(kConstant).data_index = 2), "data index 2 of 2"},
    {"initial_index", METHOD(m.tensor(kState).data_index = 7), "data index 7 of 2"},
    {"external_unnamed", METHOD(m.add(TensorSpec::external({1}, ""))), "external and has no name"},
    {"bounded_buffer", METHOD(m.tensor(kState).bounded()),
     "mutable buffer state has no static shape"},
    {"buffer_overlaps", METHOD(m.tensor(kPlanned).offset = 120), "values 2 and 3 overlap"},
    {"buffer_is_overlapped", METHOD(m.tensor(kPlanned).offset = 136), "values 3 and 2 overlap"},
    {"buffer_within_tensor", METHOD(m.tensor(kPlanned) = TensorSpec::planned({32}, 64)),
     "values 2 and 3 overlap"},
    {"two_buffers_at_one_place", METHOD(m.add(TensorSpec::mutable_buffer({4}, 128, "other"))),
     "values 3 and 10 overlap"},
};

const Case kCodeCases[] = {
    {"no_inputs", METHOD(m.inputs.reset()), "it has no list of inputs"},
    {"no_outputs", METHOD(m.outputs.reset()), "it has no list of outputs"},
    {"input_index", METHOD(m.inputs = {{10}}), "input 0 is value 10 of 10"},
    {"input_negative", METHOD(m.inputs = {{-1}}), "input 0 is value -1 of 10"},
    {"input_is_constant", METHOD(m.inputs = {{kConstant}}), "input 0 is a constant"},
    {"input_is_list", METHOD(m.inputs = {{kTensors}}), "lists cannot be inputs"},
    {"output_index", METHOD(m.outputs = {{INT32_MAX}}), "output 0 is value 2147483647 of 10"},
    {"no_chains", METHOD(m.chains->clear()), "it has no chain"},
    {"absent_chains", METHOD(m.chains.reset()), "it has no chain"},
    {"no_instructions", METHOD(m.chains->push_back(std::nullopt)),
     "chain 1 has no list of instructions"},
    {"unknown_instruction", METHOD(m.instruction(RawUnionSpec{6})),
     "instruction 5: it has unknown kind 6"},
    {"no_instruction", METHOD(m.instruction(RawUnionSpec{0})), "it has unknown kind 0"},
    {"empty_instruction", METHOD(m.instruction(RawUnionSpec{1})), "instruction 5: it is empty"},
    {"operator_index", METHOD(m.instruction(KernelSpec{1, {{kX}}})), "it calls operator 1 of 1"},
    {"operator_negative", METHOD(m.instruction(KernelSpec{-1, {{kX}}})),
     "it calls operator -1 of 1"},
    {"operator_unnamed", METHOD(m.operators[0].name.reset()), "operator 0 has no name"},
    {"operator_long", METHOD(m.operators[0].name = std::string(200, 'x')), "is longer than 99"},
    {"delegate_index", METHOD(m.instruction(DelegateCallSpec{1, {{kX}}})),
     "it calls delegate 1 of 1"},
    {"no_arguments", METHOD(m.instruction(KernelSpec{0, {}})), "it has no list of arguments"},
    {"argument", METHOD(m.instruction(KernelSpec{0, {{kX, 10}}})), "an argument is value 10 of 10"},
    {"argument_negative", METHOD(m.instruction(DelegateCallSpec{0, {{-1}}})),
     "an argument is value -1"},
    {"writes_constant", METHOD(m.kernel("any::op.out", {kX, kConstant, kConstant})),
     "it writes to value 1, a constant"},
    {"writes_constant_in_list",
     METHOD(m.kernel("any::op.out", {kX, m.add(TensorListSpec{{{kPlanned, kConstant}}})})),
     "it writes to value 1, a constant"},
    {"move_from", METHOD(m.instruction(MoveSpec{10, kX})), "it moves from value 10"},
    {"move_to", METHOD(m.instruction(MoveSpec{kX, -1})), "it moves to value -1"},
    {"move_kinds", METHOD(m.instruction(MoveSpec{kX, kInt})), "it moves Tensor to Int"},
    {"move_list", METHOD(m.instruction(MoveSpec{kTensors, kTensors})), "it moves a list"},
    {"jump_destination", METHOD(m.instruction(JumpFalseSpec{kBool, 7})), "it jumps to 7 of 6"},
    {"jump_negative", METHOD(m.instruction(JumpFalseSpec{kBool, -1})), "it jumps to -1 of 6"},
    {"jump_condition", METHOD(m.instruction(JumpFalseSpec{99, 0})), "its condition is value 99"},
    {"jump_on_int", METHOD(m.instruction(JumpFalseSpec{kInt, 0})),
     "neither a bool nor a bool tensor"},
    {"jump_on_floats", METHOD(m.instruction(JumpFalseSpec{kX, 0})),
     "neither a bool nor a bool tensor"},
    {"free_index", METHOD(m.instruction(FreeSpec{10})), "it frees value 10"},
    {"free_int", METHOD(m.instruction(FreeSpec{kInt})), "it frees value 4, which is no tensor"},
    {"delegate_id", METHOD((*m.delegates)[0].id.reset()), "delegate 0 has no backend id"},
    {"delegate_data", METHOD((*m.delegates)[0].has_processed = false), "has no processed data"},
    {"delegate_location", METHOD((*m.delegates)[0].location = 2), "is at location 2"},
    {"delegate_inline", METHOD((*m.delegates)[0].index = 1), "is in blob 1 of 1"},
    {"delegate_no_inline", PROGRAM(p.inline_delegate_data.reset()), "is in blob 0 of 0"},
    {"delegate_segment", METHOD((*m.delegates)[0].location = 1; (*m.delegates)[0].index = 3),
     "is in segment 3 of 3"},
    {"spec_key", METHOD((*m.delegates)[0].compile_specs = {{std::nullopt, text("x")}}),
     "compile spec 0 of delegate 0 has no key"},
    {"no_memory", METHOD(m.kernel("any::op", {m.add(TensorSpec::input({4}))})),
     "nothing gives memory to value 10"},
    {"no_memory_in_list",
     METHOD(const int lost = m.add(TensorSpec::input({4}));
            m.kernel("any::op", {m.add(OptionalTensorListSpec{{{-1, lost}}})})),
     "nothing gives memory to value 10"},
};

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Program, MethodChecksTest, ::testing::ValuesIn(kProgramCases),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Values, MethodChecksTest, ::testing::ValuesIn(kValueCases), name_of_case);
INSTANTIATE_TEST_SUITE_P(Code, MethodChecksTest, ::testing::ValuesIn(kCodeCases), name_of_case);

TEST(MethodChecks, TheSoundProgramIsSound) {
  const auto program = value_of(Program::load(write_program(sound_program())));
}

TEST(MethodChecks, AllProblemsAreReportedTogether) {
  ProgramSpec program = sound_program();
  MethodSpec& method = program.methods->front();
  method.tensor(kX).scalar_type = 8;
  method.tensor(kPlanned).memory_id = 5;
  method.add(StringSpec{});
  program.add_method("other").outputs = {{3}};
  const auto loaded = Program::load(write_program(program));
  ASSERT_FALSE(loaded.ok());
  const std::string message = loaded.error().message();
  for (const char* const part : {"4 errors", "scalar type 8", "planned in buffer 5",
                                 "a string without text", "method other: output 0 is value 3"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
}

TEST(MethodChecks, ALongListIsCutOff) {
  ProgramSpec program = sound_program();
  for (int i = 0; i < 50; ++i) program.methods->front().add(StringSpec{});
  const auto loaded = Program::load(write_program(program));
  ASSERT_FALSE(loaded.ok());
  EXPECT_NE(loaded.error().message().find("50 errors"), std::string::npos);
  EXPECT_NE(loaded.error().message().find("and 30 more"), std::string::npos);
}

TEST(MethodChecks, WhatNobodyUsesNeedsNoMemory) {
  ProgramSpec program = sound_program();
  program.methods->front().add(TensorSpec::input({4}));
  program.methods->front().kernel("any::op",
                                  {program.methods->front().add(TensorSpec::input({0}))});
  EXPECT_TRUE(Program::load(write_program(program)).ok());
}

TEST(MethodChecks, PartsOfAMutableBufferMayShareItsMemory) {
  ProgramSpec program = sound_program();
  MethodSpec& method = program.methods->front();
  method.add(TensorSpec::planned({2}, 136));                  // its second half
  method.add(TensorSpec::mutable_buffer({4}, 128, "state"));  // the same again
  const auto loaded = Program::load(write_program(program));
  EXPECT_TRUE(loaded.ok()) << loaded.error().message();
}

}  // namespace
}  // namespace pteron
