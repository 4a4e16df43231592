#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

#include "kvik/error.h"
#include "tensor/tensor.h"

namespace kvik {
namespace {

TEST(Tensor, WritingToATensorDoesNotChangeItsCopies) {
  Tensor a = Tensor::of<float>({2}, {1.0f, 2.0f});
  const Tensor b = a;
  a.mutable_data<float>()[0] = 9.0f;
  EXPECT_EQ(b.data<float>()[0], 1.0f);
  EXPECT_EQ(a.data<float>()[0], 9.0f);
}

TEST(Tensor, WritingToAViewCopiesItFirst) {
  alignas(8) const float elements[2] = {1.0f, 2.0f};
  Tensor view = Tensor::view(DType::kF32, {2}, reinterpret_cast<const std::byte*>(elements), nullptr);
  view.mutable_data<float>()[0] = 9.0f;
  EXPECT_EQ(elements[0], 1.0f);
}

TEST(Tensor, ReadingAsAnotherTypeIsRefused) {
  const Tensor a = Tensor::scalar<float>(1.0f);
  EXPECT_THAT([&] { a.data<int64_t>(); }, testing::ThrowsMessage<Error>("found a tensor of type f32; expected i64"));
}

TEST(Shape, OverflowingProductsAreRefused) {
  EXPECT_EQ(checked_elements(Dims{2, 3}), 6);
  EXPECT_EQ(checked_elements(Dims{}), 1);
  EXPECT_EQ(checked_elements(Dims{0, 5}), 0);
  EXPECT_EQ(checked_elements(Dims{-1, 5}), std::nullopt);
  EXPECT_EQ(checked_elements(Dims{int64_t{1} << 40, int64_t{1} << 40}), std::nullopt);
  EXPECT_EQ(checked_elements(Dims{std::numeric_limits<int64_t>::max(), 0, 3}), std::nullopt);
}

TEST(DType, PackedTypesRoundUpToWholeBytes) {
  EXPECT_EQ(storage_bytes(DType::kI4, 3), 2u);
  EXPECT_EQ(storage_bytes(DType::kU2, 5), 2u);
  EXPECT_EQ(storage_bytes(DType::kF16, 3), 6u);
  EXPECT_EQ(dtype_name(DType::kBF16), "bf16");
}

}  // namespace
}  // namespace kvik
