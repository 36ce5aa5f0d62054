// Files made to cost much time or memory: parts that share their bytes, names that run over each
// other, lists that are looked through again and again. Each is refused or loaded within a second
// and 64 MB + 8 times the size of its structure, and so are its methods, but for memory.
#include <flatbuffers/flatbuffers.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ctime>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "pteron/runtime/executor/method.h"
#include "pteron/runtime/executor/program.h"
#include "pteron/runtime/executor/tests/allocation_meter.h"
#include "pteron/runtime/executor/tests/program_writer.h"
#include "pteron/runtime/schema/program_generated.h"

namespace pteron {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;
using testing::Bytes;
using Indices = Offset<Vector<int32_t>>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(PTERON_UBSAN)
constexpr bool kIsInstrumented = true;
#else
constexpr bool kIsInstrumented = false;
#endif

double cpu_seconds() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Writes what program_writer.h does not: parts that several others refer to.
class Writer final {
 public:
  flatbuffers::FlatBufferBuilder builder{1 << 20};
  Indices none = indices(0);

  Indices indices(size_t count, int32_t value = 0) {
    return builder.CreateVector(std::vector<int32_t>(count, value));
  }
  Offset<schema::EValue> value(int64_t number) {
    return schema::CreateEValue(builder, schema::Value::Int,
                                schema::CreateInt(builder, number).Union());
  }
  Offset<schema::EValue> int_list(Offset<Vector<int64_t>> items) {
    return schema::CreateEValue(builder, schema::Value::IntList,
                                schema::CreateIntList(builder, items).Union());
  }
  Offset<schema::EValue> tensor(const testing::TensorSpec& spec) {
    const auto sizes = builder.CreateVector(*spec.sizes);
    const auto dim_order = builder.CreateVector(*spec.dim_order);
    Offset<schema::AllocationInfo> allocation(0);
    if (spec.has_allocation) {
      allocation = schema::CreateAllocationInfo(builder, spec.memory_id,
                                                static_cast<uint32_t>(spec.offset), 0);
    }
    Offset<schema::ExtraTensorInfo> extra(0);
    if (spec.name) {
      extra = schema::CreateExtraTensorInfo(builder, 0, builder.CreateString(*spec.name));
    }
    const auto tensor =
        schema::CreateTensor(builder, spec.scalar_type, 0, sizes, dim_order, false, 0, allocation,
                             0, schema::ShapeDynamism::Static, extra);
    return schema::CreateEValue(builder, schema::Value::Tensor, tensor.Union());
  }
  Offset<Vector<Offset<schema::EValue>>> values(std::vector<Offset<schema::EValue>> items) {
    return builder.CreateVector(items);
  }
  Offset<schema::Instruction> call(Indices arguments) {
    return schema::CreateInstruction(builder, schema::InstructionCall::KernelCall,
                                     schema::CreateKernelCall(builder, 0, arguments).Union());
  }
  // Of one operator.
  void add_method(Offset<flatbuffers::String> name, Offset<Vector<Offset<schema::EValue>>> values,
                  std::vector<Offset<schema::Instruction>> instructions, Indices inputs = {},
                  Offset<Vector<int64_t>> buffer_sizes = {}) {
    if (operators_.IsNull()) {
      const auto op = schema::CreateOperator(builder, builder.CreateString("aten::sym_size"),
                                             builder.CreateString("int"));
      operators_ = builder.CreateVector(std::vector<Offset<schema::Operator>>{op});
      buffer_sizes_ = builder.CreateVector(std::vector<int64_t>{0, 1 << 30});
    }
    const auto chain = schema::CreateChain(builder, 0, 0, builder.CreateVector(instructions));
    const auto chains = builder.CreateVector(std::vector<Offset<schema::Chain>>{chain});
    methods_.push_back(schema::CreateMethod(
        builder, name, 0, values, inputs.IsNull() ? none : inputs, none, chains, operators_, 0,
        buffer_sizes.IsNull() ? buffer_sizes_ : buffer_sizes));
  }
  void add_method(const std::string& name, Offset<Vector<Offset<schema::EValue>>> values,
                  std::vector<Offset<schema::Instruction>> instructions = {}, Indices inputs = {},
                  Offset<Vector<int64_t>> buffer_sizes = {}) {
    add_method(builder.CreateString(name), values, std::move(instructions), inputs, buffer_sizes);
  }
  std::shared_ptr<Bytes> finish(std::vector<Offset<schema::NamedData>> named = {},
                                std::vector<Offset<schema::Segment>> segments = {}) {
    const auto methods = builder.CreateVector(methods_);
    const auto segment_table = builder.CreateVector(segments);
    const auto named_data = builder.CreateVector(named);
    builder.Finish(
        schema::CreateProgram(builder, 0, methods, 0, 0, segment_table, 0, 0, named_data),
        schema::ProgramIdentifier());
    const uint8_t* const data = builder.GetBufferPointer();
    return std::make_shared<Bytes>(data, data + builder.GetSize());
  }

 private:
  Offset<Vector<Offset<schema::Operator>>> operators_;
  Offset<Vector<int64_t>> buffer_sizes_;
  std::vector<Offset<schema::Method>> methods_;
};

// What loading a structure of `nbytes` may take; and its methods, which have memory for each value,
// instruction and input, that is, for as few as 16 bytes of the file.
size_t most_memory_of_load(size_t nbytes) { return (size_t{64} << 20) + 8 * nbytes; }
constexpr size_t kMostMemoryOfMethods = size_t{512} << 20;

void check_cost(const char* what, size_t nbytes, size_t most_memory,
                const std::function<Error()>& work) {
  testing::AllocationMeter meter;
  const double start = cpu_seconds();
  const std::string result = work().message();
  const double seconds = cpu_seconds() - start;
  const size_t peak = meter.peak_nbytes();
  std::printf("%s, %s: %zu kB, %.3f s, %zu kB of memory: %.160s\n",
              ::testing::UnitTest::GetInstance()->current_test_info()->name(), what, nbytes / 1000,
              seconds, peak / 1000, result.c_str());
  if (kIsInstrumented) return;
  EXPECT_LT(seconds, 2);  // at most 0.7 where the core's other thread is idle
  EXPECT_LT(peak, most_memory);
}

using ProgramPtr = std::shared_ptr<const Program>;

// Loads the program; and, if it is one, its methods, one after the other.
void check_load(size_t nbytes, const std::function<Result<ProgramPtr>()>& load) {
  ProgramPtr program;
  check_cost("load", nbytes, most_memory_of_load(nbytes), [&]() -> Error {
    PTERON_ASSIGN_OR_RETURN(program, load());
    return Error::Ok;
  });
  if (!program) return;
  check_cost("load methods", nbytes, kMostMemoryOfMethods, [&]() -> Error {
    for (const std::string& name : program->method_names()) {
      PTERON_RETURN_IF_ERROR([&]() -> Error {
        PTERON_ASSIGN_OR_RETURN(const auto method, program->load_method(name));
        return Error::Ok;
      }());
    }
    return Error::Ok;
  });
}

void check_bytes(const std::shared_ptr<Bytes>& bytes) {
  check_load(bytes->size(), [&] { return Program::load(*bytes, bytes); });
}

TEST(HostileFilesTest, MethodsThatShareArguments) {
  Writer writer;
  const auto values = writer.values({writer.value(0)});
  const auto call = writer.call(writer.indices(500'000));
  for (int i = 0; i < 10'000; ++i) writer.add_method(std::to_string(i), values, {call});
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, OneMethodWhoseCallsShareArguments) {
  Writer writer;
  const auto call = writer.call(writer.indices(1'000'000));
  writer.add_method("forward", writer.values({writer.value(0)}), std::vector(30, call));
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, MethodsThatShareLists) {
  Writer writer;
  const auto items = writer.builder.CreateVector(std::vector<int64_t>(500'000, 0));
  const auto values = writer.values({writer.value(0), writer.int_list(items)});
  for (int i = 0; i < 10'000; ++i) writer.add_method(std::to_string(i), values);
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, MethodsThatShareValues) {
  Writer writer;
  const auto values = writer.values(
      std::vector(100'000, writer.tensor(testing::TensorSpec::planned({1, 2, 3, 4}, 0))));
  for (int i = 0; i < 10'000; ++i) writer.add_method(std::to_string(i), values);
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, OneMethodWhoseValuesAreOne) {
  Writer writer;
  writer.add_method("forward",
                    writer.values(std::vector(
                        1'000'000, writer.tensor(testing::TensorSpec::planned({1, 2, 3, 4}, 0)))));
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, ValuesThatAreAllWrong) {
  Writer writer;
  testing::TensorSpec wrong = testing::TensorSpec::planned({1, 2, 3, 4}, 0);
  wrong.dim_order = {{0, 0, 0, 0}};
  const auto tensor = writer.tensor(wrong);
  writer.add_method("forward", writer.values(std::vector(1'000'000, tensor)));
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, MethodsThatSharePools) {
  Writer writer;
  const auto values = writer.values({writer.value(0)});
  const auto pools = writer.builder.CreateVector(std::vector<int64_t>(500'000, 0));
  for (int i = 0; i < 10'000; ++i) writer.add_method(std::to_string(i), values, {}, {}, pools);
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, ManyMethods) {
  Writer writer;
  const auto values = writer.values({writer.value(0)});
  for (int i = 0; i < 50'000; ++i) writer.add_method("method_" + std::to_string(i), values);
  check_bytes(writer.finish());
}

// Strings, each of which is the rest of the one before, and so as long as the file.
std::vector<Offset<flatbuffers::String>> nested_strings(Writer& writer, uint32_t count) {
  std::vector<uint32_t> lengths;
  for (uint32_t i = 0; i < count; ++i) lengths.push_back(4 * (count - i));
  lengths.resize(count + 2);  // the end of all
  const auto vector = writer.builder.CreateVector(lengths);
  std::vector<Offset<flatbuffers::String>> strings;
  for (uint32_t i = 0; i < count; ++i) strings.emplace_back(vector.o - 4 - 4 * i);
  return strings;
}

TEST(HostileFilesTest, NamesOfMethodsThatOverlap) {
  Writer writer;
  const auto values = writer.values({writer.value(0)});
  for (const auto name : nested_strings(writer, 100'000)) writer.add_method(name, values, {});
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, KeysThatOverlap) {
  Writer writer;
  writer.add_method("forward", writer.values({writer.value(0)}));
  std::vector<Offset<schema::NamedData>> named;
  for (const auto key : nested_strings(writer, 100'000)) {
    named.push_back(schema::CreateNamedData(writer.builder, key, 0));
  }
  const auto segment = schema::CreateSegment(writer.builder, 0, 0);
  check_bytes(writer.finish(named, {segment}));
}

TEST(HostileFilesTest, InputsThatAreOneValue) {
  Writer writer;
  const auto values = writer.values({writer.tensor(testing::TensorSpec::input({1, 2, 3, 4}))});
  writer.add_method("forward", values, {}, writer.indices(1'000'000));
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, ManyPlannedInputs) {
  Writer writer;
  constexpr int kCount = 50'000;
  std::vector<Offset<schema::EValue>> values;
  for (int i = 0; i < kCount; ++i) {
    values.push_back(writer.tensor(testing::TensorSpec::planned({1}, 4 * i)));
  }
  std::vector<int32_t> inputs(kCount);
  std::iota(inputs.begin(), inputs.end(), 0);
  const auto list = writer.builder.CreateVector(inputs);
  writer.add_method("forward", writer.values(values), {}, list);
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, ManyMutableBuffers) {
  Writer writer;
  std::vector<Offset<schema::EValue>> values;
  for (int i = 0; i < 50'000; ++i) {
    values.push_back(
        writer.tensor(testing::TensorSpec::mutable_buffer({1}, 4 * i, std::to_string(i))));
  }
  writer.add_method("forward", writer.values(values));
  check_bytes(writer.finish());
}

TEST(HostileFilesTest, CallsOfOneList) {
  Writer writer;
  const auto tensor = writer.tensor(testing::TensorSpec::planned({1}, 0));
  const auto items = schema::CreateTensorList(writer.builder, writer.indices(500'000));
  const auto list = schema::CreateEValue(writer.builder, schema::Value::TensorList, items.Union());
  const auto call = writer.call(writer.indices(1, 1));
  writer.add_method("forward", writer.values({tensor, list}), std::vector(20'000, call));
  check_bytes(writer.finish());
}

// What is padded with zeros on a sparse file takes no disk, and is no budget either.
void check_padded(Writer& writer, size_t nbytes) {
  const auto bytes = writer.finish();
  const std::string path = testing::write_file("padded.pte", *bytes);
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(nbytes)), 0);
  check_load(bytes->size(), [&] { return Program::load(path); });
  ::unlink(path.c_str());
}

constexpr size_t kMostPadded = 0x7ffffff0;  // what FlatBuffers can have

TEST(HostileFilesTest, PaddedArguments) {
  Writer writer;
  const auto call = writer.call(writer.indices(1'000'000));
  writer.add_method("forward", writer.values({writer.value(0)}), std::vector(500, call));
  check_padded(writer, kMostPadded);
}

TEST(HostileFilesTest, FewerPaddedArguments) {
  Writer writer;
  const auto call = writer.call(writer.indices(1'000'000));
  writer.add_method("forward", writer.values({writer.value(0)}), std::vector(32, call));
  check_padded(writer, kMostPadded);
}

TEST(HostileFilesTest, PaddedValues) {
  Writer writer;
  const auto tensor = writer.tensor(testing::TensorSpec::planned({1, 2, 3, 4}, 0));
  writer.add_method("forward", writer.values(std::vector(5'000'000, tensor)));
  check_padded(writer, kMostPadded);
}

TEST(HostileFilesTest, FewerPaddedValues) {
  Writer writer;
  const auto tensor = writer.tensor(testing::TensorSpec::planned({1, 2, 3, 4}, 0));
  writer.add_method("forward", writer.values(std::vector(650'000, tensor)));
  check_padded(writer, kMostPadded);
}

TEST(HostileFilesTest, FewerPaddedValuesThatAreWrong) {
  Writer writer;
  testing::TensorSpec wrong = testing::TensorSpec::planned({1, 2, 3, 4}, 0);
  wrong.dim_order = {{0, 0, 0, 0}};
  const auto tensor = writer.tensor(wrong);
  writer.add_method("forward", writer.values(std::vector(650'000, tensor)));
  check_padded(writer, kMostPadded);
}

TEST(HostileFilesTest, SegmentsThatOverlap) {
  testing::ProgramSpec program;
  program.add_method("forward");
  constexpr size_t kNbytes = 100'000;
  for (size_t i = 0; i < 20'000; ++i) {
    program.segments.emplace_back();
    program.false_ranges[i] = {0, kNbytes};
  }
  program.segments.back() = Bytes(kNbytes);
  LoadOptions options;
  options.verification = Verification::Full;
  const auto bytes = std::make_shared<Bytes>(testing::write_program(program));
  const size_t nbytes = bytes->size() - kNbytes;
  check_cost("load", nbytes, most_memory_of_load(nbytes), [&]() -> Error {
    const auto loaded = Program::load(*bytes, bytes, options);
    EXPECT_NE(loaded.error().message().find("overlap"), std::string::npos)
        << loaded.error().message();
    return Error::Ok;
  });
}

}  // namespace
}  // namespace pteron
