#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backend/embedder.h"
#include "verify/laws.h"

namespace kvik::laws {

// The same model opened in another way.
struct EmbedderPeer {
  std::string law;  // "native = ort", …
  std::shared_ptr<backend::Embedder> embedder;
  double tolerance = 0;      // see LawBook::law
  bool information = false;  // only its distance is reported
};

struct EmbedderLaws {
  std::vector<std::vector<TokenId>> texts;  // of unequal lengths
  double tolerance = 0;                     // of a text in a batch; 0: equal bits
  std::vector<EmbedderPeer> peers;
};

// Hidden states of texts that share a run against those of each text alone, and against other ways to open the model.
std::vector<Law> verify_embedder(backend::Embedder& embedder, const EmbedderLaws& laws, const Watch& watch);

}  // namespace kvik::laws
