#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "onnx/identity.h"
#include "onnx/reader.h"
#include "support/paths.h"

namespace kvik::onnx {
namespace {

std::string identity_of_form(const std::string& name) {
  return identity_of(read_model(testing_support::fixtures() / "forms" / name / "model.onnx"));
}

TEST(Identity, IsStableAndDiffersBetweenModels) {
  EXPECT_EQ(identity_of_form("plain"), identity_of_form("plain"));
  EXPECT_NE(identity_of_form("plain"), identity_of_form("delta"));
  EXPECT_EQ(identity_of_form("plain").size(), 32u);
}

TEST(Identity, DoesNotDependOnWhereWeightsAreStored) { EXPECT_EQ(identity_of_form("data-one-file"), identity_of_form("data-per-tensor")); }

TEST(Identity, ChangesWithOneBitOfAWeight) {
  const auto file = MappedFile::open(testing_support::fixtures() / "forms" / "plain" / "model.onnx");
  const Model model = read_model(file->bytes());
  ASSERT_FALSE(model.graph->initializers.empty());
  int n_changed = 0;
  for (const TensorData& tensor : model.graph->initializers) {
    if (tensor.form != TensorData::Form::kRaw || tensor.stored.empty()) continue;
    std::vector<std::byte> changed(file->bytes().begin(), file->bytes().end());
    changed[static_cast<size_t>(tensor.stored.data() - file->text().data())] ^= std::byte{1};
    EXPECT_NE(identity_of(read_model(changed)), identity_of(model)) << tensor.name;
    ++n_changed;
  }
  EXPECT_GT(n_changed, 0);
}

}  // namespace
}  // namespace kvik::onnx
