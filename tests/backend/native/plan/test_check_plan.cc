// A plan that is not well-formed is refused with a message that states what was found and what was expected.
#include <gmock/gmock.h>

#include "backend/native/fuse/support.h"
#include "backend/native/plan/check_plan.h"
#include "kvik/error.h"

namespace kvik::native {
namespace {

// %0 is given, %1 is a product of it, %2 the negative of that.
Plan small_plan() {
  testing_support::PlanBuilder b(4);
  return b.done(b.unary(Unary::kNeg, b.matmul(b.x(), 3)));
}

std::string message(const Plan& plan) {
  try {
    check_plan(plan);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kBadArgument);
    return error.what();
  }
  return "";
}

template <class Change>
std::string message_after(Change change) {
  Plan plan = small_plan();
  change(plan);
  return message(plan);
}

TEST(CheckPlan, AWellFormedPlanPasses) { EXPECT_EQ(message(small_plan()), ""); }

TEST(CheckPlan, AnErrorAboutAnInputNamesTheOp) {
  EXPECT_THAT(message_after([](Plan& plan) { plan.ops[1].in[0].size = 2; }),
              testing::HasSubstr("op 1 (unary): input 0 has 2 elements; expected 3"));
  EXPECT_THAT(message_after([](Plan& plan) { plan.ops[0].in[0].index = 77; }),
              testing::HasSubstr("op 0 (matmul): %77 is read; the plan has 3 values"));
  EXPECT_THAT(message_after([](Plan& plan) { plan.ops[1].in[0].offset = 2; }),
              testing::HasSubstr("op 1 (unary): 3 elements from 2 on are read of %1, which has 3"));
  EXPECT_THAT(message_after([](Plan& plan) { std::swap(plan.ops[0], plan.ops[1]); }),
              testing::HasSubstr("op 0 (unary): %1 is read before it is computed"));
  EXPECT_THAT(message_after([](Plan& plan) { plan.ops[0].section = Op::Section::kTail; }),
              testing::HasSubstr("op 1 (unary): %1 is read; it is made in the tail section, this is the body section"));
}

TEST(CheckPlan, AnErrorAboutAnOutputNamesTheOp) {
  EXPECT_THAT(message_after([](Plan& plan) { plan.values[1].size = 5; }),
              testing::HasSubstr("op 0 (matmul): output 0 has 5 elements; expected 3"));
  EXPECT_THAT(message_after([](Plan& plan) { plan.ops[1].out[0] = 1; }),
              testing::HasSubstr("op 1 (unary): it computes %1, which was computed before"));
  EXPECT_THAT(message_after([](Plan& plan) { plan.ops[1].out.clear(); }),
              testing::HasSubstr("op 1 (unary): it has 1 inputs and 0 outputs; expected 1 and 1"));
}

TEST(CheckPlan, AnErrorAboutAGivenValueNamesIt) {
  EXPECT_THAT(message_after([](Plan& plan) { plan.values[0].dtype = DType::kI64; }),
              testing::HasSubstr("the embedding is %0, i64[4]; expected f32 with at least one element"));
  EXPECT_THAT(message_after([](Plan& plan) { plan.embedding = 9; }), testing::HasSubstr("the embedding is %9; the plan has 3 values"));
  EXPECT_THAT(message_after([](Plan& plan) { plan.values[0].size = -1; }), testing::HasSubstr("value %0 is f32[-1]; expected"));
}

TEST(CheckPlan, AnErrorAboutAWeightNamesItsTensors) {
  EXPECT_THAT(message_after([](Plan& plan) { plan.weights[0].parts[0].value = 9; }),
              testing::HasSubstr("weight 0 is made of tensor 9 with scales -1 and zero points -1; the plan has 1 tensors"));
  EXPECT_THAT(message_after([](Plan& plan) { plan.weights[0].n = 8; }),
              testing::HasSubstr("the parts of weight 0 have 3 columns; expected 8"));
}

}  // namespace
}  // namespace kvik::native
