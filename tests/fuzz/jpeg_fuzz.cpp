#include <array>

#include "data/image.h"
#include "fuzz/target.h"

FUZZ_TARGET(jpeg, bytes) {
  // Few pixels, so that many files can be tried; the path is the same for larger pictures.
  const crossbow::data::Image image = crossbow::data::decode_jpeg(bytes, 1 << 16);
  std::array<uint8_t, 3 * 5 * 7> fitted;
  crossbow::data::fit(image, 5, 7, fitted.data());
}
