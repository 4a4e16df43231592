#pragma once

#include <array>
#include <memory>

#include "backend/native/execute/device/device_output.h"

namespace kvik::native {

// Tracks which DeviceOutput has rows in each of a runner's places for kept outputs.
class OutputPlaces {
 public:
  // Assigns a place to the next rows of `output`; its earlier rows are released. `wanted`: this place; negative: any free one. If none is
  // free, the oldest rows are copied and their place is reused. Throws Error(kTooLarge).
  int32_t take(const std::shared_ptr<DeviceOutput>& output, int32_t wanted);
  // A place for the call after the one whose logits are in `current`; frees the oldest one if necessary. Throws Error(kTooLarge).
  int32_t find_next(int32_t current);
  void free(int32_t place) { free(places_[static_cast<size_t>(place)]); }  // copies the rows that are in it
  void lose_all();                                                         // the runner ends

 private:
  struct Place {
    std::weak_ptr<DeviceOutput> reader;
    int64_t taken = 0;  // when
  };
  static void free(Place& place);

  std::array<Place, kOutputPlaces> places_;
  int64_t n_taken_ = 0;
};

}  // namespace kvik::native
