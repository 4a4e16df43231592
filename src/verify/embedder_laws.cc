#include "verify/embedder_laws.h"

#include <algorithm>
#include <fmt/format.h>

namespace kvik::laws {

std::vector<Law> verify_embedder(backend::Embedder& embedder, const EmbedderLaws& laws, const Watch& watch) {
  LawBook book(watch);
  std::vector<Tensor> alone;
  for (const std::vector<TokenId>& text : laws.texts) alone.push_back(embedder.run({&text, 1}).front());
  const auto compare_all = [&](std::span<const Tensor> found, const char* where) {
    for (size_t i = 0; i < alone.size(); ++i)
      book.compare(found[i].data<float>(), alone[i].data<float>(), fmt::format("{}, text {}", where, i + 1));
  };
  book.law("embeddings: batch = alone", laws.tolerance, [&] {
    compare_all(embedder.run(laws.texts), "all in one run");
    std::vector<std::vector<TokenId>> reversed(laws.texts.rbegin(), laws.texts.rend());
    std::vector<Tensor> found = embedder.run(reversed);
    std::ranges::reverse(found);
    compare_all(found, "in the other order");
  });
  for (const EmbedderPeer& peer : laws.peers) {
    const auto compare = [&] { compare_all(peer.embedder->run(laws.texts), peer.law.c_str()); };
    if (peer.information)
      book.measure("embeddings: " + peer.law, compare);
    else
      book.law("embeddings: " + peer.law, peer.tolerance, compare);
  }
  return book.take();
}

}  // namespace kvik::laws
