#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/native/execute/weight_choice.h"
#include "backend/native/plan/plan.h"
#include "kernels/cpu/attend.h"

namespace kvik::native {

// A summary of a plan for `kvik inspect`.
struct PlanReport {
  std::map<std::string, int> operations;   // by kind
  std::map<std::string, int> fused;        // by pass: number of ops created
  std::map<std::string, int> unfused;      // operators of the graph that run on reference kernels
  std::map<std::string, int> attention;    // count per mask pattern
  std::map<std::string, int64_t> weights;  // bytes by format
  int64_t bytes_per_token = 0;             // bytes of weights, read per token
  int64_t kv_bytes_per_token = 0;          // stored per token
  std::vector<std::string> notes;
};
PlanReport report(const Plan& plan, WeightChoice choice, cpu::KvFormat kv);

// The ops without a kernel on the device, by kind: each is a host step.
std::map<std::string, int> host_steps(const Plan& plan, cpu::KvFormat kv);

// The plan itself, one line per position table and per op: outputs, inputs, shapes, formats and bytes.
std::vector<std::string> plan_lines(const Plan& plan, WeightChoice choice, cpu::KvFormat kv);

}  // namespace kvik::native
