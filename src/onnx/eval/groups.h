#pragma once

#include "onnx/eval/kernel.h"

// Each file under ops/ adds its operators to the table through one function, declared here.
namespace kvik::onnx {

void add_movement(KernelTable& table);

}  // namespace kvik::onnx
