// A whole program: what loads, what it says of itself, and what it computes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pteron/runtime/core/tests/value_of.h"
#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/session.h"
#include "pteron/runtime/executor/tests/everything_program.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/executor/tests/test_kernels.h"

namespace pteron {
namespace {

using testing::Bytes;
using testing::EverythingProgram;

std::vector<float> floats_of(const EValue& value) {
  const Tensor& tensor = value.tensor();
  const float* const data = tensor.data_as<const float>();
  return {data, data + tensor.numel()};
}

struct Files {
  std::string program;
  std::string data;
};

Files write(const EverythingProgram& everything, const std::string& name) {
  return {testing::write_file(name + ".pte", testing::write_program(everything.program)),
          testing::write_file(name + ".ptd", testing::write_tensor_data(everything.data))};
}

Result<std::shared_ptr<const Program>> load(
    const Files& files, Verification verification = Verification::InternalConsistency) {
  LoadOptions options;
  options.verification = verification;
  options.data_paths = {files.data};
  return Program::load(files.program, options);
}

// Runs "forward" with x = 1 1 1 1 and n = 3 and checks all outputs, for the `call`th call on its
// state.
void check_forward(Method& method, int call) {
  std::vector<float> x(4, 1);
  std::vector<float> y{1, 2, 3};
  std::vector<float> y_out(4);
  const std::vector<int64_t> four{4};
  const std::vector<int64_t> three{3};
  const std::vector<EValue> inputs{EValue(*Tensor::make(ScalarType::Float, four, x.data())),
                                   EValue(int64_t{3}),
                                   EValue(*Tensor::make(ScalarType::Float, three, y.data())),
                                   EValue(std::string_view("hello")), EValue()};
  Error error = method.set_inputs(inputs);
  ASSERT_TRUE(error.ok()) << error.message();
  ASSERT_TRUE(method.set_output_data(3, y_out.data(), 16).ok());
  error = method.execute();
  ASSERT_TRUE(error.ok()) << error.message();

  const auto grown = static_cast<float>(3 * call);
  EXPECT_EQ(floats_of(method.get_output(0)),
            (std::vector<float>{104 + 10 + grown, 206 + 20 + 2 * grown, 308 + 30 + 3 * grown,
                                410 + 40 + 4 * grown}));
  EXPECT_EQ(floats_of(method.get_output(1)), (std::vector<float>{28}));
  EXPECT_EQ(floats_of(method.get_output(2)), (std::vector<float>{-1, -2, -3, -4}));
  EXPECT_EQ(floats_of(method.get_output(3)), (std::vector<float>{2, 4, 6}));
  EXPECT_EQ(y_out, (std::vector<float>{2, 4, 6, 0}));
  EXPECT_EQ(method.get_output(4).tensor().data(), y.data());
  EXPECT_EQ(method.get_output(5).to_string(), "hello");
  EXPECT_TRUE(method.get_output(6).is_none());
  EXPECT_EQ(method.get_output(7).to_double(), 0.5);
}

TEST(ProgramTest, EverythingRuns) {
  const Files files = write(EverythingProgram::make(), "everything");
  for (const Verification verification :
       {Verification::Minimal, Verification::InternalConsistency, Verification::Full}) {
    auto program = value_of(load(files, verification));
    auto method = value_of(program->load_method("forward"));
    for (int call = 1; call <= 3; ++call) check_forward(*method, call);
    ASSERT_TRUE(method->reset_state().ok());
    check_forward(*method, 1);
  }
}

TEST(ProgramTest, AMethodOutlivesTheProgramsHandle) {
  auto program = value_of(load(write(EverythingProgram::make(), "outlives")));
  auto method = value_of(program->load_method("forward"));
  program.reset();
  check_forward(*method, 1);
}

TEST(ProgramTest, ConstantGettersHaveTheirValues) {
  auto program = value_of(load(write(EverythingProgram::make(), "getter")));
  auto method = value_of(program->load_method("get_length"));
  EXPECT_TRUE(method->execute().ok());
  EXPECT_EQ(method->get_output(0).to_int(), 128);
  const IntList& list = method->get_output(1).to_int_list();
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_EQ(list.items[1]->to_int(), 2);
}

TEST(ProgramTest, SaysWhatItHolds) {
  const Files files = write(EverythingProgram::make(), "meta");
  auto loaded = value_of(load(files));
  const Program& program = *loaded;
  EXPECT_EQ(program.method_names(), (std::vector<std::string>{"forward", "get_length"}));
  EXPECT_EQ(program.path(), files.program);
  EXPECT_TRUE(program.has_integrity_table());

  const auto meta = value_of(program.method_meta("forward"));
  std::vector<std::string> inputs;
  for (const ValueMeta& input : meta.inputs) inputs.push_back(input.describe());
  EXPECT_EQ(inputs, (std::vector<std::string>{"float32[4]", "Int", "float32[<=4]",
                                              "String \"hello\"", "None"}));
  EXPECT_EQ(meta.inputs[2].name, "y");
  EXPECT_EQ(meta.outputs[7].name, "half");
  EXPECT_TRUE(meta.inputs[0].planned);
  EXPECT_TRUE(meta.inputs[1].symbolic);
  EXPECT_FALSE(meta.inputs[2].planned);
  EXPECT_EQ(meta.inputs[2].dynamism, ShapeDynamism::DynamicBound);
  EXPECT_EQ(meta.outputs.size(), 8u);
  EXPECT_EQ(meta.outputs[7].describe(), "Double 0.5");
  EXPECT_EQ(meta.planned_nbytes(), 1024u);
  ASSERT_EQ(meta.mutable_buffers.size(), 1u);
  EXPECT_EQ(meta.mutable_buffers[0].name, "state");
  EXPECT_EQ(meta.mutable_buffers[0].nbytes, 16u);
  EXPECT_TRUE(meta.mutable_buffers[0].has_initial_value);
  ASSERT_EQ(meta.delegates.size(), 2u);
  EXPECT_EQ(meta.delegates[0].backend_id, testing::kScaleBackend);
  EXPECT_EQ(std::string(meta.delegates[0].processed.begin(), meta.delegates[0].processed.end()),
            "2");
  EXPECT_EQ(meta.delegates[1].compile_specs[0].key, "name");
  EXPECT_EQ(meta.operators, (std::vector<std::string>{"test::add.out", "test::add_int",
                                                      "test::less", "test::sum_lists"}));
  EXPECT_EQ(meta.num_instructions, 15u);
  EXPECT_EQ(meta.constant_nbytes, 32u);

  ASSERT_EQ(program.segments().size(), 6u);
  EXPECT_EQ(program.segments()[0].nbytes, 16u);
  EXPECT_EQ(program.segments()[0].digest.size(), 64u);
  EXPECT_EQ(program.segments()[4].file, files.data);
  std::vector<std::string_view> keys;
  for (const NamedDataMeta& entry : program.named_data_entries()) keys.push_back(entry.key);
  EXPECT_EQ(keys, (std::vector<std::string_view>{"blob", "external", "opaque"}));
  EXPECT_TRUE(program.named_data_entries()[1].has_layout);
}

TEST(ProgramTest, NamesThatCannotTellValuesApartAreNone) {
  EverythingProgram everything = EverythingProgram::make();
  auto& method = everything.program.methods->front();
  method.input_names->back() = "x";
  method.output_names->pop_back();
  auto program = value_of(load(write(everything, "same_names")));
  const auto meta = value_of(program->method_meta("forward"));
  for (const ValueMeta& input : meta.inputs) EXPECT_EQ(input.name, "");
  for (const ValueMeta& output : meta.outputs) EXPECT_EQ(output.name, "");
}

TEST(ProgramTest, MetadataNeedsNoBackendAndNoKernel) {
  EverythingProgram everything = EverythingProgram::make();
  auto& method = everything.program.methods->front();
  (*method.delegates)[0].id = "NoSuchBackend";
  method.operators[0].name = "no::such";
  auto program = value_of(load(write(everything, "unregistered")));
  EXPECT_TRUE(program->method_meta("forward").ok());

  const auto failed = program->load_method("forward");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error(), Error::NotFound);
  const std::string message = failed.error().message();
  EXPECT_NE(message.find("NoSuchBackend"), std::string::npos) << message;
  EXPECT_NE(message.find("registered: ScaleBackend"), std::string::npos) << message;
  EXPECT_NE(message.find("no::such.out"), std::string::npos) << "all at once: " << message;
  EXPECT_TRUE(program->load_method("get_length").ok()) << "others still load";
}

TEST(ProgramTest, UnknownMethodsAndFilesAreNamed) {
  auto program = value_of(load(write(EverythingProgram::make(), "names")));
  const auto method = program->load_method("backward");
  ASSERT_FALSE(method.ok());
  EXPECT_EQ(method.error(), Error::NotFound);
  EXPECT_NE(method.error().message().find("forward, get_length"), std::string::npos);

  const auto missing = Program::load(::testing::TempDir() + "/none.pte");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error(), Error::NotFound);
}

TEST(ProgramTest, LoadsFromMemory) {
  testing::ProgramSpec spec;
  spec.add_named("blob", testing::text("bytes"));
  spec.add_method("forward");
  const Bytes bytes = testing::write_program(spec);

  // Copied, since nobody owns them and they are misaligned.
  Bytes shifted(bytes.size() + 17);
  const size_t shift = 1 + (16 - reinterpret_cast<uintptr_t>(shifted.data()) % 16) % 16;
  std::memcpy(shifted.data() + shift, bytes.data(), bytes.size());
  auto copied = value_of(Program::load(Span<const uint8_t>(shifted.data() + shift, bytes.size())));
  shifted.assign(shifted.size(), 0);
  EXPECT_EQ(*(*copied->named_data().get_data("blob")).data(), 'b');

  // In place, since they have an owner.
  std::shared_ptr<void> owner(std::aligned_alloc(16, (bytes.size() + 15) / 16 * 16), std::free);
  std::memcpy(owner.get(), bytes.data(), bytes.size());
  const Span<const uint8_t> span(static_cast<const uint8_t*>(owner.get()), bytes.size());
  std::weak_ptr<void> watched = owner;
  auto borrowed = value_of(Program::load(span, std::move(owner)));
  const uint8_t* const blob = borrowed->named_data().get_verified("blob")->data();
  EXPECT_TRUE(blob > span.begin() && blob < span.end());
  borrowed.reset();
  EXPECT_TRUE(watched.expired());

  EXPECT_EQ(Program::load(Span<const uint8_t>()).error(), Error::InvalidProgram);
}

TEST(ProgramTest, AFileWithoutHeaderLoads) {
  testing::ProgramSpec spec;
  auto& method = spec.add_method("forward");
  method.outputs = {method.add(int64_t{7})};
  testing::WriteOptions options;
  options.header = false;
  auto program = value_of(Program::load(testing::write_program(spec, options)));
  EXPECT_FALSE(program->has_integrity_table());
  EXPECT_EQ((*program->load_method("forward"))->get_output(0).to_int(), 7);

  spec.add_named("blob", testing::text("bytes"));
  const auto failed = Program::load(testing::write_program(spec, options));
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message().find("does not say where they begin"), std::string::npos);
}

TEST(ProgramTest, ConstantsAreUsedInPlace) {
  testing::ProgramSpec spec;
  auto& getter = spec.add_method("constants");
  const uint32_t index = spec.add_constant(testing::floats({5, 6}));
  getter.outputs = {getter.add(testing::TensorSpec::constant({2}, index)),
                    getter.add(testing::TensorSpec::external({4}, "external"))};
  EverythingProgram everything;
  everything.program = spec;
  everything.data.add_tensor("external", {4}, testing::floats(testing::kExternal));
  auto program = value_of(load(write(everything, "in_place")));
  auto first = program->load_method("constants");
  auto second = program->load_method("constants");
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(floats_of((*first)->get_output(0)), (std::vector<float>{5, 6}));
  EXPECT_EQ(floats_of((*first)->get_output(1)), testing::kExternal);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ((*first)->get_output(i).tensor().data(), (*second)->get_output(i).tensor().data());
  }
  EXPECT_EQ((*first)->get_output(1).tensor().data(),
            program->named_data().get_data("external")->data());
}

TEST(ProgramTest, ExternalDataMustBeThereAndFit) {
  EverythingProgram everything = EverythingProgram::make();
  const Files files = write(everything, "external");
  auto without = Program::load(files.program);
  ASSERT_TRUE(without.ok()) << "metadata needs no data file";
  auto failed = (*without)->load_method("forward");
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error(), Error::NotFound);
  EXPECT_NE(failed.error().message().find("external tensor external"), std::string::npos);

  struct Case {
    const char* name;
    std::function<void(testing::TensorDataSpec*)> change;
    const char* message;
  };
  const Case cases[] = {
      {"dtype", [](auto* d) { d->entries[0].layout->scalar_type = 7; }, "it is float64[4]"},
      {"sizes",
       [](auto* d) {
         d->entries[0].layout->sizes = {{2, 2}};
         d->entries[0].layout->dim_order = {{0, 1}};
       },
       "it is float32[2, 2]"},
      {"no_layout", [](auto* d) { d->entries[0].layout.reset(); }, "data without a layout"},
      {"no_sizes", [](auto* d) { d->entries[0].layout->sizes.reset(); }, "not complete"},
      {"short", [](auto* d) { d->segments[0].resize(12); }, "12 bytes, expected 16"},
  };
  for (const Case& c : cases) {
    EverythingProgram changed = everything;
    c.change(&changed.data);
    auto program = load(write(changed, std::string("external_") + c.name));
    ASSERT_TRUE(program.ok()) << c.name << program.error().message();
    const auto method = (*program)->load_method("forward");
    ASSERT_FALSE(method.ok()) << c.name;
    EXPECT_EQ(method.error(), Error::InvalidExternalData) << c.name;
    EXPECT_NE(method.error().message().find(c.message), std::string::npos)
        << c.name << ": " << method.error().message();
  }
}

TEST(ProgramTest, KeysMustDifferAmongAllFiles) {
  EverythingProgram everything = EverythingProgram::make();
  everything.data.add_blob("blob", testing::text("again"));
  const auto program = load(write(everything, "duplicate"));
  ASSERT_FALSE(program.ok());
  EXPECT_NE(program.error().message().find("named data \"blob\""), std::string::npos)
      << program.error().message();

  const Files files = write(EverythingProgram::make(), "twice");
  LoadOptions options;
  options.data_paths = {files.data, files.data};
  EXPECT_FALSE(Program::load(files.program, options).ok());
}

TEST(ProgramTest, DataFilesComeFromMemory) {
  const EverythingProgram everything = EverythingProgram::make();
  const auto data = std::make_shared<const Bytes>(testing::write_tensor_data(everything.data));
  LoadOptions options;
  options.verification = Verification::Full;
  for (const bool in_place : {true, false}) {
    options.data_files = {{*data, in_place ? data : nullptr}};
    const auto program =
        value_of(Program::load(testing::write_program(everything.program), nullptr, options));
    EXPECT_EQ(data.use_count(), in_place ? 3 : 1) << "the program keeps what it uses";
    options.data_files.clear();
    auto method = value_of(program->load_method("forward"));
    check_forward(*method, 1);
  }
  const Bytes other = testing::text("no such data");
  options.data_files = {{other, nullptr}};
  const auto program = Program::load(testing::write_program(everything.program), nullptr, options);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error(), Error::InvalidExternalData);
  EXPECT_NE(program.error().message().find("tensor data 0 in memory: 12 bytes"), std::string::npos);
}

TEST(ProgramTest, AProgramFileIsNoDataFile) {
  const Files files = write(EverythingProgram::make(), "confused");
  LoadOptions options;
  options.data_paths = {files.program};
  const auto program = Program::load(files.program, options);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error(), Error::InvalidExternalData);
  EXPECT_NE(program.error().message().find("not a tensor-data file"), std::string::npos);
  const auto swapped = Program::load(files.data);
  ASSERT_FALSE(swapped.ok());
  EXPECT_NE(swapped.error().message().find("not a program file"), std::string::npos);
}

}  // namespace
}  // namespace pteron
