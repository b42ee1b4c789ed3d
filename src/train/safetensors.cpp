#include "train/safetensors.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <future>
#include <nlohmann/json.hpp>

#include "core/crc32c.h"
#include "core/dtype.h"
#include "core/error.h"
#include "core/json.h"

namespace crossbow {
namespace {

using nlohmann::json;

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

constexpr int64_t kLengthBytes = 8, kLongestHeader = 100'000'000;
constexpr std::string_view kMetadata = "__metadata__";
constexpr std::string_view kStart = R"({"__metadata__":{"crc32c":")", kNoSum = "00000000";
constexpr int64_t kSumAt = kLengthBytes + static_cast<int64_t>(kStart.size());

/// Of an element; 0 for types that we do not know.
int64_t size_of_type(std::string_view type) {
  if (type == "F64" || type == "I64" || type == "U64") return 8;
  if (type == "F32" || type == "I32" || type == "U32") return 4;
  if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
  const bool one = type == "I8" || type == "U8" || type == "BOOL" || type.starts_with("F8_");
  return one ? 1 : 0;
}

/// IEEE 754 binary16.
float from_half(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
  if (exponent == 0) {  // zero and subnormal
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -value : value;
  }
  constexpr uint32_t kRebias = 127 - 15;
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + kRebias;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

/// Elements of a shape that a file names; -1 for one that cannot be.
int64_t elements_of(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (const int64_t n : shape) {
    if (n < 0 || __builtin_mul_overflow(elements, n, &elements)) return -1;
  }
  return elements;
}

std::vector<int64_t> integers(const json& value) {
  std::vector<int64_t> numbers;
  if (!value.is_array()) fail("an array is missing");
  for (const json& number : value) {
    if (!number.is_number_integer()) fail("whole numbers are missing");
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

SafeTensors::Tensor tensor_of(const std::string& name, const json& entry, int64_t data_begin,
                              int64_t data_bytes) {
  SafeTensors::Tensor t;
  t.name = name;
  t.type = entry.at("dtype").get<std::string>();
  t.shape = integers(entry.at("shape"));
  const std::vector<int64_t> offsets = integers(entry.at("data_offsets"));
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0] || offsets[1] > data_bytes) {
    fail("its values are said to be where the file has none");
  }
  t.first = data_begin + offsets[0];
  t.bytes = offsets[1] - offsets[0];
  const int64_t elements = t.elements(), size = size_of_type(t.type);
  const bool fits = size == 0 || (t.bytes % size == 0 && t.bytes / size == elements);
  if (elements < 0 || !fits) {
    fail("{} bytes are not what its shape and type take", t.bytes);
  }
  return t;
}

uint64_t read_length(const FileBytes& file) {
  std::array<uint8_t, kLengthBytes> bytes{};
  if (file.size < kLengthBytes) fail("it is too short for a file of safetensors");
  file.read(0, bytes);
  return std::bit_cast<uint64_t>(bytes);
}

json read_header(const FileBytes& file, int64_t& data_begin) {
  const uint64_t length = read_length(file);
  if (length < 2 || length > static_cast<uint64_t>(file.size - kLengthBytes)) {
    fail("it is no file of safetensors: its header would have {} bytes", length);
  }
  if (length > kLongestHeader) fail("its header has {} bytes, which are too many", length);
  std::string text(length, ' ');
  file.read(kLengthBytes, {reinterpret_cast<uint8_t*>(text.data()), text.size()});
  constexpr int kDeepest = 3;  // a shape; else memory would grow with every bracket
  if (is_nested_beyond(kDeepest, text)) {
    fail("it is no file of safetensors: its header is nested too deeply");
  }
  json header = json::parse(text, /*cb=*/nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) fail("it is no file of safetensors: its header is no JSON object");
  data_begin = kLengthBytes + static_cast<int64_t>(length);
  return header;
}

std::map<std::string, std::string> metadata_of(const json& header) {
  const auto found = header.find(kMetadata);
  if (found == header.end()) return {};
  try {
    return found->get<std::map<std::string, std::string>>();
  } catch (const json::exception&) {
    fail("its {} is no object of texts", kMetadata);
  }
}

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string header_of(const std::vector<NamedTensor>& tensors, const Metadata& metadata) {
  std::string text(kStart);
  text.append(kNoSum) += '"';
  for (const auto& [key, value] : metadata) {
    text.append(",").append(quoted(key)).append(":").append(quoted(value));
  }
  text += '}';
  int64_t end = 0;
  for (const NamedTensor& t : tensors) {
    const int64_t first = end;
    end += elements_of(t.shape) * static_cast<int64_t>(sizeof(float));
    fmt::format_to(std::back_inserter(text),
                   R"(,{}:{{"dtype":"F32","shape":[{}],"data_offsets":[{},{}]}})", quoted(t.name),
                   fmt::join(t.shape, ","), first, end);
  }
  text += '}';
  text.resize((text.size() + kLengthBytes - 1) / kLengthBytes * kLengthBytes, ' ');
  return text;
}

template <typename T, typename ToFloat>
void convert(const std::vector<uint8_t>& bytes, std::vector<float>& values, ToFloat to_float) {
  for (size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = to_float(value);
  }
}

}  // namespace

int64_t SafeTensors::Tensor::elements() const {
  return elements_of(shape);
}

SafeTensors::SafeTensors(FileBytes file) : file_(std::move(file)) {
  int64_t data_begin = 0;
  const json header = read_header(file_, data_begin);
  metadata_ = metadata_of(header);
  for (const auto& [name, entry] : header.items()) {
    if (name == kMetadata) continue;
    try {
      tensors_.push_back(tensor_of(name, entry, data_begin, file_.size - data_begin));
    } catch (const json::exception&) {
      fail("tensor {}: its type, shape or place is missing", name);
    } catch (const Error& e) {
      fail("tensor {}: {}", name, e.what());
    }
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(a.first, a.bytes) < std::pair(b.first, b.bytes);
  });
  int64_t end = data_begin;
  for (const Tensor& t : tensors_) {
    if (t.first < end) fail("tensor {}: its values overlap another tensor's", t.name);
    if (t.first > end) fail("tensor {}: {} bytes before it are nobody's", t.name, t.first - end);
    end = t.first + t.bytes;
  }
  if (end != file_.size) fail("{} bytes at the end are nobody's", file_.size - end);
}

const SafeTensors::Tensor* SafeTensors::find(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const Tensor& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

std::vector<float> SafeTensors::values(const Tensor& t) const {
  if (size_of_type(t.type) == 0) fail("tensor {}: its type {} is not known", t.name, t.type);
  std::vector<uint8_t> bytes(static_cast<size_t>(t.bytes));
  file_.read(t.first, bytes);
  std::vector<float> values(static_cast<size_t>(t.elements()));
  if (t.type == "F32") {
    convert<float>(bytes, values, [](float x) { return x; });
  } else if (t.type == "F64") {
    convert<double>(bytes, values, [](double x) { return static_cast<float>(x); });
  } else if (t.type == "F16") {
    convert<uint16_t>(bytes, values, from_half);
  } else if (t.type == "BF16") {
    convert<bf16>(bytes, values, [](bf16 x) { return static_cast<float>(x); });
  } else {
    fail("tensor {} has values of type {}, where floating-point numbers are needed", t.name,
         t.type);
  }
  if (!std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); })) {
    fail("tensor {} has values that are infinite or NaN", t.name);
  }
  return values;
}

bool has_checksum(const FileBytes& file) {
  std::array<uint8_t, kSumAt> start{};
  if (file.size < kSumAt + std::ssize(kNoSum)) return false;
  file.read(0, start);
  return std::equal(kStart.begin(), kStart.end(), start.begin() + kLengthBytes);
}

bool is_intact(const FileBytes& file) {
  std::array<char, kNoSum.size()> digits{};
  uint32_t crc = 0;
  read_in_pieces(file, [&](int64_t offset, std::span<uint8_t> bytes) {
    if (offset == 0) {
      std::copy_n(bytes.begin() + kSumAt, digits.size(), digits.begin());
      std::copy(kNoSum.begin(), kNoSum.end(), bytes.begin() + kSumAt);
    }
    crc = crc32c(bytes, crc);
  });
  return std::string_view(digits.data(), digits.size()) == fmt::format("{:08x}", crc);
}

void encode_safetensors(const std::vector<NamedTensor>& tensors, const Metadata& metadata,
                        const FileSink& sink) {
  const std::string header = header_of(tensors, metadata);
  if (std::ssize(header) > kLongestHeader) {
    fail("{} tensors need a header of {} bytes, and a file of safetensors may have {}",
         tensors.size(), header.size(), kLongestHeader);
  }
  uint32_t crc = 0;
  const auto put = [&](std::span<const uint8_t> bytes) {
    crc = crc32c(bytes, crc);
    sink.append(bytes);
  };
  const uint64_t length = header.size();
  put({reinterpret_cast<const uint8_t*>(&length), sizeof length});
  put(bytes_of(header));
  // A piece is written while the next one is read, which takes about as long; before, where the
  // system refuses another thread.
  constexpr int64_t kPiece = 1 << 20;  // values
  std::vector<float> piece, next;
  std::future<void> writing;
  const auto finish = [&] {
    if (writing.valid()) writing.get();
  };
  for (const NamedTensor& t : tensors) {
    const int64_t n = elements_of(t.shape);
    for (int64_t first = 0; first < n; first += kPiece) {
      next.resize(static_cast<size_t>(std::min(kPiece, n - first)));
      t.read(first, next);
      finish();
      std::swap(piece, next);
      writing = std::async([&] {
        put({reinterpret_cast<const uint8_t*>(piece.data()), piece.size() * sizeof(float)});
      });
    }
  }
  finish();
  sink.overwrite(kSumAt, bytes_of(fmt::format("{:08x}", crc)));
}

void write_safetensors(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors,
                       const Metadata& metadata) {
  AtomicFile file(path);
  encode_safetensors(tensors, metadata, file.sink());
  file.commit();
}

}  // namespace crossbow
