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
                  const std::function<void(const std::string&)>& bad) {
  std::vector<uint8_t> bytes;
  int64_t begin = 0, number = 0;
  const auto read = [&](int64_t offset, int64_t size) {
    if (size > file.size - offset) fail("the file ends within it: get the file again");
    bytes.resize(static_cast<size_t>(size));
    file.read(offset, bytes);
  };
  const auto naming = [&](const Error& e) {
    return fmt::format("record {}, which begins at byte {}: {}", number, begin, e.what());
  };
  for (; begin < file.size; ++number) {
    int64_t size = 0;
    try {
      read(begin, kRecordHead);
      const auto length = number_at<uint64_t>(bytes.data());
      if (masked_crc(std::span(bytes).first(8)) != number_at<uint32_t>(bytes.data() + 8)) {
        fail("this is no length of a record: get the file again, if it holds TFRecords");
      }
      if (length > kLargestPicture) fail("its length of {} bytes is no picture's", length);
      size = static_cast<int64_t>(length);
      read(begin + kRecordHead, size + kRecordTail);
    } catch (const Error& e) {
      fail("{}", naming(e));
    }
    try {
      expect_intact(bytes);
      record(begin, std::span(bytes).first(static_cast<size_t>(size)));
    } catch (const Error& e) {
      bad(naming(e));
    }
    begin += kRecordHead + size + kRecordTail;
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
  Example example;
  example.label = label->int64_list().value(0) - first_label;
  if (example.label < 0) {
    fail("its '{}' is {}, where labels count from {}", label_key, example.label + first_label,
         first_label);
  }
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
