#include <gtest/gtest.h>
#include <protozero/pbf_writer.hpp>

#include "kvik/error.h"
#include "onnx/reader.h"
#include "support/model_writer.h"
#include "support/paths.h"

namespace kvik::onnx {
namespace {

using protozero::pbf_writer;
using testing_support::TemporaryFolder;

std::string header(DType dtype, std::initializer_list<int64_t> dims) {
  std::string bytes;
  pbf_writer writer(bytes);
  for (const int64_t dim : dims) writer.add_int64(1, dim);
  writer.add_int32(2, static_cast<int32_t>(dtype));
  return bytes;
}

Tensor read_back(const std::string& message) {
  const TemporaryFolder folder;
  return read_tensor(folder.write("tensor.pb", message));
}

TEST(TensorData, PackedUnpackedAndRawFloatsReadTheSame) {
  const std::vector<float> values = {1.5f, -2.0f, 3.25f};
  std::string packed = header(DType::kF32, {3});
  pbf_writer(packed).add_packed_float(4, values.begin(), values.end());
  std::string single = header(DType::kF32, {3});
  for (const float value : values) pbf_writer(single).add_float(4, value);
  std::string raw = header(DType::kF32, {3});
  pbf_writer(raw).add_bytes(9, reinterpret_cast<const char*>(values.data()), 12);
  for (const std::string& message : {packed, single, raw}) {
    const Tensor tensor = read_back(message);
    EXPECT_EQ(std::vector<float>(tensor.data<float>().begin(), tensor.data<float>().end()), values);
  }
}

template <class T>
void expect_int32_data(const std::vector<int32_t>& stored, const std::vector<T>& expected) {
  std::string message = header(kDTypeOf<T>, {static_cast<int64_t>(expected.size())});
  pbf_writer(message).add_packed_int32(5, stored.begin(), stored.end());
  const Tensor tensor = read_back(message);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(tensor.data<T>()[i], expected[i]);
}

TEST(TensorData, SmallTypesAreStoredInInt32Data) {
  expect_int32_data<int8_t>({-1, 127, -128}, {-1, 127, -128});
  expect_int32_data<uint8_t>({255, 0}, {255, 0});
  expect_int32_data<int16_t>({-300, 300}, {-300, 300});
  expect_int32_data<uint16_t>({65535}, {65535});
  expect_int32_data<int32_t>({-70000}, {-70000});
  expect_int32_data<bool>({0, 1, 1}, {false, true, true});
  expect_int32_data<Half>({0x3c00, 0xc000}, {Half(1.0f), Half(-2.0f)});
  expect_int32_data<BFloat16>({0x3f80}, {BFloat16(1.0f)});
  expect_int32_data<Float8E4M3FN>({0x38}, {Float8E4M3FN(1.0f)});
}

TEST(TensorData, WideTypesHaveTheirOwnFields) {
  const std::vector<int64_t> longs = {-5, int64_t{1} << 40};
  std::string message = header(DType::kI64, {2});
  pbf_writer(message).add_packed_int64(7, longs.begin(), longs.end());
  EXPECT_EQ(read_back(message).data<int64_t>()[1], int64_t{1} << 40);
  const std::vector<double> doubles = {0.1};
  message = header(DType::kF64, {1});
  pbf_writer(message).add_packed_double(10, doubles.begin(), doubles.end());
  EXPECT_EQ(read_back(message).data<double>()[0], 0.1);
  const std::vector<uint64_t> unsigneds = {4000000000u};
  message = header(DType::kU32, {1});
  pbf_writer(message).add_packed_uint64(11, unsigneds.begin(), unsigneds.end());
  EXPECT_EQ(read_back(message).data<uint32_t>()[0], 4000000000u);
}

TEST(TensorData, FourBitTypesStoreTwoElementsPerByte) {
  std::string raw = header(DType::kI4, {3});
  pbf_writer(raw).add_bytes(9, std::string("\x21\x03", 2));
  EXPECT_EQ(read_back(raw).bytes()[0], std::byte{0x21});
  const std::vector<int32_t> stored = {0x21, 0x03};
  std::string typed = header(DType::kU4, {3});
  pbf_writer(typed).add_packed_int32(5, stored.begin(), stored.end());
  EXPECT_EQ(read_back(typed).bytes()[1], std::byte{0x03});
}

TEST(TensorData, StringsAreRead) {
  std::string message = header(DType::kString, {2});
  pbf_writer(message).add_string(6, "one");
  pbf_writer(message).add_string(6, "two");
  EXPECT_EQ(read_back(message).data<std::string>()[1], "two");
}

TEST(TensorData, BoolOtherThanZeroAndOneBecomesTrue) {
  std::string message = header(DType::kBool, {2});
  pbf_writer(message).add_bytes(9, std::string("\x07\0", 2));
  const Tensor tensor = read_back(message);
  EXPECT_TRUE(tensor.data<bool>()[0]);
  EXPECT_FALSE(tensor.data<bool>()[1]);
}

TEST(TensorData, TooFewAndTooManyNumbersAreRefused) {
  for (const size_t n : {1u, 3u}) {
    const std::vector<float> values(n, 1.0f);
    std::string message = header(DType::kF32, {2});
    pbf_writer(message).add_packed_float(4, values.begin(), values.end());
    EXPECT_THAT([&] { read_back(message); }, testing::ThrowsMessage<Error>(testing::HasSubstr("expected 2")));
  }
}

}  // namespace
}  // namespace kvik::onnx
