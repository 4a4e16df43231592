#pragma once

#include <map>
#include <string>
#include <vector>

#include "backend/native/execute/weight_choice.h"
#include "backend/native/plan/plan.h"
#include "kernels/cpu/attend.h"

namespace kvik::native {

// What a plan does, for people: `kvik inspect` shows it.
struct PlanReport {
  std::map<std::string, int> operations;   // by kind
  std::map<std::string, int> fused;        // by pass: how many it made
  std::map<std::string, int> unfused;      // operators of the graph that run by their reference kernels
  std::map<std::string, int> attention;    // the rule in words: how many
  std::map<std::string, int64_t> weights;  // bytes by format
  int64_t bytes_per_token = 0;             // of weights, read for one token
  int64_t kv_bytes_per_token = 0;          // kept for one token
  std::vector<std::string> notes;
};
PlanReport report(const Plan& plan, WeightChoice choice, cpu::KvFormat kv);

// The operations that a device has no kernel for, by kind: each is a step on the host.
std::map<std::string, int> host_steps(const Plan& plan, cpu::KvFormat kv);

// The plan itself, one line per position table and per op: what it makes and reads, shapes, formats and bytes.
std::vector<std::string> plan_lines(const Plan& plan, WeightChoice choice, cpu::KvFormat kv);

}  // namespace kvik::native
