// Encoded pictures on disk, read when they are asked for.
#pragma once

#include <memory>

#include "data/dataset.h"
#include "data/picture_index.h"
#include "data/source.h"

namespace crossbow::data {

std::shared_ptr<const Split> picture_split(const Path& folder, Container container,
                                           PictureList list);

}  // namespace crossbow::data
