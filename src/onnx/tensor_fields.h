#pragma once

#include "base/protobuf.h"

namespace kvik::onnx {

// Field numbers of TensorProto.
enum class TensorField : protobuf::pbf_tag_type {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14,
};

}  // namespace kvik::onnx
