#include "server/json/api_error.h"

#include <new>

#include "kvik/error.h"

namespace kvik::server {
namespace {

int status_of(Code code) {
  switch (code) {
    case Code::kBadArgument:
    case Code::kTooLarge:
    case Code::kUnsupported: return 400;
    case Code::kBadModel:
    case Code::kIo:
    case Code::kInternal: break;
  }
  return 500;
}

}  // namespace

ApiError current_api_error() {
  try {
    throw;
  } catch (const ApiError& e) { return e; } catch (const Error& e) {
    return {status_of(e.code()), e.code() == Code::kTooLarge ? "context_length_exceeded" : "", e.what()};
  } catch (const std::bad_alloc&) {
    return {503, "out_of_memory", "the server is out of memory; try again with a shorter request"};
  } catch (const std::exception& e) { return {500, "", e.what()}; }
}

}  // namespace kvik::server
