#include <cstdlib>
#include <string_view>

#include "fuzz/target.h"
#include "train/config.h"

FUZZ_TARGET(config, bytes) {
  crossbow::TrainOptions options, again;
  crossbow::apply_config(options, {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
                         "fuzz");
  const std::string text = crossbow::to_config(options);
  crossbow::apply_config(again, text, "resolved");
  if (crossbow::to_config(again) != text) std::abort();
}
