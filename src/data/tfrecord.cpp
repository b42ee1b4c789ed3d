#include "data/tfrecord.h"

#include <cstring>
#include <vector>

#include "core/crc32c.h"
#include "core/error.h"
#include "data/example.pb.h"
#include "data/image.h"

namespace crossbow::data {
namespace {

template <typename T>
T number_at(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

using Features = google::protobuf::Map<std::string, proto::Feature>;

const proto::Feature* find(const Features& features, const char* key) {
  const auto at = features.find(key);
  return at == features.end() ? nullptr : &at->second;
}

const std::string& one_string(const proto::Feature& feature, const char* key) {
  if (feature.bytes_list().value_size() != 1) fail("its '{}' is not one string of bytes", key);
  return feature.bytes_list().value(0);
}

}  // namespace

uint32_t masked_crc(std::span<const uint8_t> bytes) {
  const uint32_t crc = crc32c(bytes);
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

void expect_intact(std::span<const uint8_t> data_and_crc) {
  const auto data = data_and_crc.first(data_and_crc.size() - kRecordTail);
  if (masked_crc(data) != number_at<uint32_t>(data.data() + data.size())) {
    fail("its bytes do not fit its checksum: get the file again");
  }
}

void scan_records(const FileBytes& file,
                  const std::function<void(int64_t, std::span<const uint8_t>)>& record,
                  const std::function<void(int64_t, const std::string&)>& bad) {
  std::vector<uint8_t> bytes;
  const auto read = [&](int64_t offset, uint64_t size) {
    if (size > static_cast<uint64_t>(file.size - offset)) {
      fail("the file ends within it: get the file again");
    }
    bytes.resize(size);
    file.read(offset, bytes);
  };
  const auto read_length = [&](int64_t begin) {
    read(begin, kRecordHead);
    if (masked_crc(std::span(bytes).first(8)) != number_at<uint32_t>(bytes.data() + 8)) {
      fail(
          "this is no length of a record, and what follows cannot be found: get the file again, "
          "if it holds TFRecords");
    }
    return number_at<uint64_t>(bytes.data());
  };
  int64_t begin = 0;
  for (int64_t number = 0; begin < file.size; ++number) {
    uint64_t left = 0;  // of the file, behind the record
    try {
      const uint64_t length = read_length(begin);
      const auto room = static_cast<uint64_t>(file.size - begin - kRecordHead);
      if (length <= room && room - length >= kRecordTail) left = room - length - kRecordTail;
      if (length > kLargestPicture) fail("its length of {} bytes is no picture's", length);
      read(begin + kRecordHead, length + kRecordTail);
      expect_intact(bytes);
      record(begin, std::span(bytes).first(length));
    } catch (const Error& e) {
      bad(begin, fmt::format("record {}, which begins at byte {}: {}", number, begin, e.what()));
    }
    begin = file.size - static_cast<int64_t>(left);
  }
}

Example parse_example(std::span<const uint8_t> data) {
  proto::Example parsed;
  if (!parsed.ParseFromArray(data.data(), static_cast<int>(data.size()))) {
    fail("it is no tf.train.Example");
  }
  const Features& features = parsed.features().feature();
  const bool script = find(features, "image/encoded") != nullptr;
  const char* const picture_key = script ? "image/encoded" : "image";
  const char* const label_key = script ? "image/class/label" : "label";
  const int64_t first_label = script ? 1 : 0;
  const proto::Feature* const picture = find(features, picture_key);
  const proto::Feature* const label = find(features, label_key);
  if (!picture) fail("it has neither 'image/encoded' nor 'image'");
  if (!label || label->int64_list().value_size() != 1) {
    fail("it has no '{}' of one whole number", label_key);
  }
  const int64_t number = label->int64_list().value(0);
  if (number < first_label) {
    fail("its '{}' is {}, where labels count from {}", label_key, number, first_label);
  }
  Example example;
  example.label = number - first_label;
  const std::string& encoded = one_string(*picture, picture_key);
  if (encoded.empty()) fail("its '{}' is empty", picture_key);
  // Any place with these bytes is the picture's.
  const void* const at = memmem(data.data(), data.size(), encoded.data(), encoded.size());
  if (!at) fail("its '{}' lies in pieces", picture_key);
  example.begin = static_cast<const uint8_t*>(at) - data.data();
  example.size = std::ssize(encoded);
  if (const proto::Feature* const text = find(features, "image/class/text")) {
    example.class_name = one_string(*text, "image/class/text");
  }
  return example;
}

}  // namespace crossbow::data
