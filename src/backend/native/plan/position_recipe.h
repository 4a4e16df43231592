#pragma once

#include <memory>
#include <vector>

#include "analysis/signature.h"
#include "backend/native/graph/axes.h"
#include "backend/native/plan/owned_graph.h"

// How to compute the rows of a position table, as data: the few nodes of the model's graph that depend only on the position.
namespace kvik::native {

// One input of a recipe's graph. Its contents follow from the sizes of the evaluated call.
struct PositionFeed {
  enum class Kind : uint8_t {
    kPositions,  // [batch, new] (i64), for an operator with built-in positions
    kPort,       // a mask, positions, a length or a flag, as declared by an input of the file
    kTokens,     // token ids; according to probing, any ids
    kShape,      // sizes first … last - 1 of a value with these axes (i64)
    kSize,       // how many elements it has (i64)
  };
  Kind kind = Kind::kPositions;
  analysis::Port port;  // kPort, kTokens; its dims have no symbols
  Axes axes;            // kShape, kSize
  int64_t first = 0, last = 0;
};

struct PositionRecipe {
  std::shared_ptr<const OwnedGraph> graph;  // one output
  std::vector<PositionFeed> feeds;          // by input of the graph
  Axes axes;                                // of the output
  DType dtype = DType::kUndefined;          // of the output
  CallForm form;
  bool encodes = false;
  int64_t vocab = 0;
};

}  // namespace kvik::native
