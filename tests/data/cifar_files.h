// CIFAR-10's files with a few images.
#pragma once

#include <string>

#include "data/cifar.h"
#include "data/files.h"

namespace crossbow::data {

/// All six in `folder`, each with so many images, one of each class in turn.
inline void write_cifar10(const std::filesystem::path& folder, uint8_t images) {
  FileBytes file;
  for (uint8_t i = 0; i < images; ++i) {
    file.push_back(i % 10);
    file.insert(file.end(), kCifarPixels, static_cast<uint8_t>(60 * i));
  }
  for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"}) {
    write_file(folder / (std::string(name) + ".bin"), file);
  }
}

}  // namespace crossbow::data
