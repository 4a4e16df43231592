#include "engine/targets.h"

#include "engine/beam_strategy.h"
#include "engine/sample_strategy.h"

namespace kvik::engine {

std::unique_ptr<Strategy> new_strategy(const std::shared_ptr<const sample::Sampler>& sampler, const TargetOptions& options,
                                       TargetSource source) {
  const sample::BeamOptions& beams = options.beams;
  if (beams.num_beams != 1 || options.always_beams)
    return std::make_unique<BeamStrategy>(sampler, beams, source.prompt_length, std::move(source.tokens), options.constraint);
  return std::make_unique<SampleStrategy>(sampler, SampleOptions{.stop = {beams.eos_token_id, beams.max_length, options.text},
                                                                 .prompt_length = source.prompt_length,
                                                                 .source = std::move(source.tokens),
                                                                 .constraint = options.constraint,
                                                                 .n_samples = beams.num_return_sequences,
                                                                 .length_penalty = beams.length_penalty,
                                                                 .scores = options.scores,
                                                                 .logprobs = options.logprobs,
                                                                 .seed = options.seed,
                                                                 .stream = source.stream});
}

Stream target_stream(const std::shared_ptr<Decoder>& decoder, const std::shared_ptr<const sample::Sampler>& sampler,
                     const EncodedSource& source, const TargetOptions& options) {
  Stream stream(Sequence(decoder, 0, source.encoded), new_strategy(sampler, options, {options.start.size(), source.tokens, source.stream}));
  stream.branches.front().reserve(options.beams.max_length);
  for (const TokenId token : options.start) stream.branches.front().push(token);
  return stream;
}

std::vector<FoundTargets> find_targets(const std::shared_ptr<Decoder>& decoder, const std::shared_ptr<const sample::Sampler>& sampler,
                                       std::span<const EncodedSource> sources, const TargetOptions& options,
                                       const std::function<bool()>& cancelled) {
  std::vector<Stream> streams;
  for (const EncodedSource& source : sources) streams.push_back(target_stream(decoder, sampler, source, options));
  std::vector<Stream*> running;
  for (Stream& stream : streams) running.push_back(&stream);
  decoder->finish(running, cancelled);
  std::vector<FoundTargets> found;
  for (const Stream& stream : streams) {
    const bool done = stream.finish != Finish::kCancelled;
    found.push_back({done ? stream.strategy->targets() : std::vector<Target>(), *stream.finish});
  }
  return found;
}

}  // namespace kvik::engine
