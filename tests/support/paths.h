// Where the tests find what the build has put somewhere.
#pragma once

#include <string>

namespace crossbow {

/// The top of the source tree, with README.md.
std::string source_folder();
/// tests/data in the source tree.
std::string test_data_folder();
/// Of the fuzz targets, a folder for each.
std::string fuzz_corpus_folder();
/// The command `crossbow`.
std::string crossbow_binary();

}  // namespace crossbow
