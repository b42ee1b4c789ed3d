#include <algorithm>

#include "data/image.h"
#include "fuzz/target.h"

FUZZ_TARGET(jpeg, bytes) {
  // Few pixels, so that many files can be tried; the path is the same for larger pictures.
  constexpr int64_t kMost = 1 << 16;
  try {
    crossbow::data::decode_jpeg(bytes, kMost);
  } catch (const crossbow::Error&) {  // a part may be read all the same
  }
  // A part, which the file's last bytes choose.
  crossbow::data::JpegReader reader;
  const auto size = reader.open(bytes, kMost);
  const auto draw = [&](size_t from_end, int64_t n) { return bytes[bytes.size() - from_end] % n; };
  const int reduction = 1 << draw(3, 3);
  const int64_t height = (size.height + reduction - 1) / reduction;
  const int64_t width = (size.width + reduction - 1) / reduction;
  crossbow::data::Region part{draw(4, height), draw(5, width), 0, 0};
  part.height = 1 + draw(6, height - part.top);
  part.width = 1 + draw(7, width - part.left);
  reader.read(part, reduction);
}
