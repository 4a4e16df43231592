#pragma once

#include "analysis/signature.h"
#include "backend/graph/executor.h"
#include "backend/ort/session.h"

namespace kvik::backend::ort {

// Runs one file in a session. Values stay on the session's device until to_host() is called.
std::unique_ptr<Executor> open_executor(std::shared_ptr<const Library> library, const analysis::File& file,
                                        const SessionSettings& settings);

}  // namespace kvik::backend::ort
