#include <cstdlib>

#include "data/cifar.h"
#include "fuzz/target.h"

// The first byte chooses the set.
FUZZ_TARGET(cifar, bytes) {
  if (bytes.empty()) return;
  const int64_t classes = bytes[0] % 2 == 0 ? 10 : 100;
  crossbow::data::CifarImages images;
  crossbow::data::parse_cifar(bytes.subspan(1), classes, images);
  if (images.pixels.size() != images.labels.size() * crossbow::data::kCifarPixels) std::abort();
  for (const int32_t label : images.labels) {
    if (label < 0 || label >= classes) std::abort();
  }
}
