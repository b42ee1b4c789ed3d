#include "support/paths.h"

namespace crossbow {

std::string test_data_folder() {
  return CROSSBOW_TEST_DATA;
}

std::string crossbow_binary() {
  return CROSSBOW_BINARY;
}

}  // namespace crossbow
