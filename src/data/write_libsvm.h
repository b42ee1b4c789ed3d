// Sets of rows as text files that other systems read.
#pragma once

#include <filesystem>

#include "data/dataset.h"

namespace crossbow::data {

/// Writes the set in LIBSVM's format (data/libsvm.h): the training rows to `path`, the test rows to
/// `path`.t. Numbers are such that reading them gives the same floats. A 0 is written for the last
/// feature in the first row, so that no feature is lost, and in rows that have nothing. Labels are
/// the names of the classes where all of these are whole numbers, else the numbers of the classes.
/// Throws Error if one of the files is there already, cannot be written, or would belong to a
/// packed file of that name, or if the set is of images; then neither is written.
void write_libsvm(const Dataset& dataset, const std::filesystem::path& path);

}  // namespace crossbow::data
