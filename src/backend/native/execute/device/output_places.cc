#include "backend/native/execute/device/output_places.h"

#include <algorithm>

namespace kvik::native {

void OutputPlaces::free(Place& place) {
  if (const std::shared_ptr<DeviceOutput> reader = place.reader.lock()) reader->keep();
  place.reader.reset();
}

int32_t OutputPlaces::take(const std::shared_ptr<DeviceOutput>& output, int32_t wanted) {
  for (Place& place : places_)
    if (place.reader.lock() == output) place.reader.reset();
  auto place = places_.begin() + wanted;
  if (wanted < 0) place = std::ranges::find_if(places_, [](const Place& one) { return one.reader.expired(); });
  if (place == places_.end()) place = std::ranges::min_element(places_, {}, &Place::taken);
  free(*place);
  *place = {output, ++n_taken_};
  return static_cast<int32_t>(place - places_.begin());
}

int32_t OutputPlaces::find_next(int32_t current) {
  static_assert(kOutputPlaces == 3);
  int32_t oldest = -1;
  for (int32_t i = 0; i < static_cast<int32_t>(kOutputPlaces); ++i) {
    const Place& place = places_[static_cast<size_t>(i)];
    if (i == current) continue;
    if (place.reader.expired()) return i;
    if (oldest < 0 || place.taken < places_[static_cast<size_t>(oldest)].taken) oldest = i;
  }
  free(places_[static_cast<size_t>(oldest)]);  // the rows of the call before are in the newer one
  return oldest;
}

void OutputPlaces::lose_all() {
  for (const Place& place : places_)
    if (const std::shared_ptr<DeviceOutput> reader = place.reader.lock()) reader->lose();
}

}  // namespace kvik::native
