#include "support/paths.h"

namespace crossbow {

std::string source_folder() {
  return CROSSBOW_SOURCE;
}

std::string test_data_folder() {
  return source_folder() + "/tests/data";
}

std::string fuzz_corpus_folder() {
  return source_folder() + "/tests/fuzz/corpus";
}

std::string crossbow_binary() {
  return CROSSBOW_BINARY;
}

}  // namespace crossbow
