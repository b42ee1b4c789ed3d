// TensorFlow's files of records, and the labelled pictures in them. A record is its length (8
// bytes), the length's checksum (4), as many bytes of data and their checksum (4), little-endian:
// https://www.tensorflow.org/tutorials/load_data/tfrecord.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/file.h"

namespace crossbow::data {

constexpr int64_t kRecordHead = 12, kRecordTail = 4;

/// CRC-32C, rotated by 15 bits and moved.
uint32_t masked_crc(std::span<const uint8_t> bytes);

/// Calls `record` with the data of each record and where the record begins; and `bad`, with that
/// place and "record N, which begins at byte B: reason", for one that is damaged, or for which
/// `record` throws Error. That call is the last one where the next record cannot be found.
void scan_records(const FileBytes& file,
                  const std::function<void(int64_t begin, std::span<const uint8_t> data)>& record,
                  const std::function<void(int64_t begin, const std::string& reason)>& bad);

/// Throws Error if these are not the data and the checksum behind them, as the file had them.
void expect_intact(std::span<const uint8_t> data_and_crc);

/// A sample of an image set.
struct Example {
  int64_t begin = 0, size = 0;  // of the encoded picture, in the record's data
  int64_t label = 0;            // counted from 0
  std::string class_name;       // empty if the record has none
};

/// Of a record as TensorFlow's script for ImageNet writes it (`image/encoded`, and
/// `image/class/label`, which counts from 1), or as TensorFlow Datasets does (`image` and `label`,
/// from 0). Throws Error for anything else.
Example parse_example(std::span<const uint8_t> data);

}  // namespace crossbow::data
