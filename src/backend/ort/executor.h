#pragma once

#include "analysis/signature.h"
#include "backend/graph/executor.h"
#include "backend/ort/session.h"

namespace kvik::backend::ort {

// A session on one file. Values stay on the session's device; only what is asked for with to_host() comes back.
std::unique_ptr<Executor> open_executor(std::shared_ptr<const Library> library, const analysis::File& file,
                                        const SessionSettings& settings);

}  // namespace kvik::backend::ort
