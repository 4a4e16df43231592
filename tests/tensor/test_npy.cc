#include <cstring>
#include <gmock/gmock.h>

#include "kvik/error.h"
#include "tensor/npy.h"

namespace kvik {
namespace {

std::string npy(const std::string& header, const std::string& data) {
  std::string bytes("\x93NUMPY\x01\x00", 8);
  bytes.push_back(static_cast<char>(header.size() & 255));
  bytes.push_back(static_cast<char>(header.size() >> 8));
  return bytes + header + data;
}

Tensor read(const std::string& bytes) { return read_npy(std::as_bytes(std::span(bytes)), "a.npy"); }

std::string header_of(const std::string& type, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + type + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }  \n";
}

TEST(Npy, ReadsElementsAndShape) {
  const float values[] = {1.5f, -2, 3, 4, 5, 6};
  std::string data(sizeof values, '\0');
  std::memcpy(data.data(), values, sizeof values);
  const Tensor tensor = read(npy(header_of("<f4", "(1, 2, 3)"), data));
  EXPECT_EQ(tensor.dims(), (Dims{1, 2, 3}));
  EXPECT_THAT(tensor.data<float>(), testing::ElementsAre(1.5f, -2, 3, 4, 5, 6));
  EXPECT_EQ(read(npy(header_of("<f4", "(6,)"), data)).dims(), (Dims{6}));
  EXPECT_EQ(read(npy(header_of("<i8", "(3,)"), data)).dtype(), DType::kI64);
}

TEST(Npy, ErrorsNameTheReason) {
  const auto refused = [](const std::string& bytes, const char* message) {
    EXPECT_THAT([&] { read(bytes); }, testing::ThrowsMessage<Error>(testing::HasSubstr(message)));
  };
  refused("", "not a NumPy array file");
  refused("PK a zip of several arrays", "not a NumPy array file");
  refused(npy(header_of("<f4", "(2, 3)"), "1234"), "4 bytes follow the header; a shape of [2, 3] needs another number");
  refused(npy(header_of("<f4", "(99999999999, 99999999999)"), "1234"), "needs another number");
  refused(npy(header_of("<f4", "(2, x)"), "12345678"), "not a number");
  refused(npy(header_of("<f4", "(2, -1)"), "12345678"), "not a number");
  refused(npy(header_of("<c16", "(1,)"), "12345678"), "have type '<c16'");
  refused(npy(header_of("<f4", "(1, 2)", "True"), "12345678"), "Fortran order");
  refused(npy("{'descr': '<f4', }", ""), "has no 'shape'");
  refused(npy(header_of("<f4", "(2,)"), "").substr(0, 20), "truncated inside its header");
}

}  // namespace
}  // namespace kvik
