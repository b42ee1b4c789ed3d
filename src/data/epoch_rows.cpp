#include "data/epoch_rows.h"

#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/rng.h"
#include "data/source.h"

namespace crossbow::data {
namespace {

/// Of pixels that batches are to have as floats; else empty.
NormalisationTable normalisation_table(const Split& split, const Info& info) {
  const bool stay_pixels = info.sample_type == DType::u8;
  if (!has_pixels(split)) {
    if (stay_pixels) fail("the samples of {} are no pixels", info.name);
    return {};
  }
  const int64_t channels = info.image[0];
  if (channels < 1 || channels > 3) fail("images have 1 to 3 channels, not {}", channels);
  return stay_pixels ? NormalisationTable{} : table_of(info.normalisation, channels);
}

/// Fisher-Yates.
void shuffle(std::span<uint32_t> numbers, Rng& rng) {
  for (size_t n = numbers.size(); n > 1; --n) {
    std::swap(numbers[n - 1], numbers[rng.below(static_cast<uint32_t>(n))]);
  }
}

}  // namespace

EpochRows::EpochRows(const Dataset& dataset, std::shared_ptr<const Split> split,
                     const RowOptions& options)
    : image_(dataset.info.image),
      centre_(dataset.info.centre),
      label_(dataset.info.label),
      format_(dataset.info.batch_format()),
      split_(std::move(split)),
      options_(options),
      normalisation_(dataset.info.normalisation),
      normalised_(normalisation_table(*split_, dataset.info)) {
  if (options.augment.pad < 0) fail_usage("a pad of {} pixels is negative", options.augment.pad);
  if (size() > std::numeric_limits<uint32_t>::max()) {
    fail("{} holds more samples than can be put in order", dataset.info.name);
  }
  order_.resize(static_cast<size_t>(size()));
}

/// From the identity, so that an epoch's order does not depend on the one before.
void EpochRows::start(int64_t epoch) {
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0);
  if (!options_.shuffle) return;
  Rng rng(options_.seed, Purpose::shuffle, static_cast<uint32_t>(epoch_));
  if (options_.shuffle_block > 0) {
    shuffle_blocks(rng);
  } else {
    shuffle(order_, rng);
  }
}

/// Each part of the split has a block under way. A random order of all samples says from which part
/// the next one comes, so that what is alike and lies together is spread over the epoch.
void EpochRows::shuffle_blocks(Rng& rng) {
  const int64_t block = std::min(options_.shuffle_block, size());
  const int64_t all = (size() + block - 1) / block;
  const int64_t parts = std::min<int64_t>(RowOptions::kParts, all);
  std::vector<uint32_t> blocks(static_cast<size_t>(all));
  std::iota(blocks.begin(), blocks.end(), 0);
  struct Part {
    const uint32_t* block;  // under way
    int64_t done = 0;       // of its samples
  };
  std::vector<Part> under_way;
  for (int64_t part = 0; part < parts; ++part) {
    const auto first = static_cast<size_t>(part * all / parts);
    const auto end = static_cast<size_t>((part + 1) * all / parts);
    shuffle(std::span(blocks).subspan(first, end - first), rng);
    under_way.push_back({&blocks[first]});
  }
  shuffle(order_, rng);
  for (uint32_t& place : order_) {
    const int64_t part = ((place / block + 1) * parts - 1) / all;
    Part& from = under_way[static_cast<size_t>(part)];
    const int64_t first = *from.block * block;
    place = static_cast<uint32_t>(first + from.done++);
    if (from.done == std::min(block, size() - first)) from = {from.block + 1};
  }
}

void EpochRows::write(int64_t first, int64_t begin, int64_t end, RowScratch& scratch,
                      const std::array<std::byte*, kFields>& fields) const {
  for (int64_t at = begin; at < end; ++at) {
    const int64_t index = order_[static_cast<size_t>(first + at)];
    write_label(index, fields[kLabels] + format_.fields[kLabels].bytes(at));
    if (format_.is_sparse()) continue;
    write_sample(index, scratch, fields[kSamples] + format_.fields[kSamples].bytes(at));
  }
  if (!format_.is_sparse()) return;
  assert(begin == 0);
  write_sparse(first, end, fields);
}

void EpochRows::clear(int64_t rows, int64_t room,
                      const std::array<std::byte*, kFields>& fields) const {
  for (size_t i = 0; i < kFields; ++i) {
    const Field& field = format_.fields[i];
    if (field.room) continue;  // no row reaches beyond what is written
    std::fill(fields[i] + field.bytes(rows), fields[i] + field.bytes(room), std::byte{0});
  }
}

SparseRow EpochRows::sparse_row(int64_t place) const {
  const Sample sample = split_->sample(order_[static_cast<size_t>(place)], nullptr);
  const auto& row = std::get<SparseRow>(sample);
  // Rows that follow each other in an epoch lie anywhere in memory.
  constexpr size_t kLine = 64 / sizeof(float);
  for (size_t i = 0; i < row.columns.size(); i += kLine) {
    __builtin_prefetch(&row.columns[i]);
    __builtin_prefetch(&row.values[i]);
  }
  return row;
}

void EpochRows::write_sparse(int64_t first, int64_t rows,
                             const std::array<std::byte*, kFields>& fields) const {
  auto* const values = reinterpret_cast<float*>(fields[kValues]);
  auto* const columns = reinterpret_cast<int32_t*>(fields[kColumns]);
  auto* const extents = reinterpret_cast<int32_t*>(fields[kExtents]);
  int32_t end = 0;
  constexpr int64_t kAhead = 4;
  std::array<SparseRow, kAhead> next;
  for (int64_t i = 0; i < std::min(rows, kAhead); ++i) {
    next[static_cast<size_t>(i)] = sparse_row(first + i);
  }
  for (int64_t i = 0; i < rows; ++i) {
    SparseRow& place = next[static_cast<size_t>(i % kAhead)];
    const SparseRow row = place;
    if (i + kAhead < rows) place = sparse_row(first + i + kAhead);
    std::copy(row.values.begin(), row.values.end(), values + end);
    std::copy(row.columns.begin(), row.columns.end(), columns + end);
    extents[2 * i] = end;
    end += static_cast<int32_t>(row.columns.size());
    extents[2 * i + 1] = end;
  }
}

void EpochRows::write_label(int64_t index, std::byte* out) const {
  const Field& field = format_.fields[kLabels];
  if (field.dtype == DType::i32) {
    *reinterpret_cast<int32_t*>(out) = split_->label(index);
    return;
  }
  auto* const targets = reinterpret_cast<float*>(out);
  if (label_ == LabelKind::number) {
    *targets = split_->number(index);
    return;
  }
  std::fill_n(targets, field.row_elements, 0.0f);
  for (const int32_t label : split_->label_set(index)) targets[label] = 1;
}

void EpochRows::write_sample(int64_t index, RowScratch& scratch, std::byte* out) const {
  const Sample sample = split_->sample(index, &scratch.file);
  auto* const numbers = reinterpret_cast<float*>(out);
  if (const auto* const row = std::get_if<SparseRow>(&sample)) {
    std::fill_n(numbers, image_.elements(), 0.0f);
    for (size_t i = 0; i < row->columns.size(); ++i) numbers[row->columns[i]] = row->values[i];
  } else if (const auto* const given = std::get_if<const float*>(&sample)) {
    if (image_.rank() == 1) {
      std::copy_n(*given, image_.elements(), numbers);
    } else {
      augment(
          *given, index, [](int64_t) { return 0.0f; }, numbers);
    }
  } else if (const auto* const encoded = std::get_if<EncodedPicture>(&sample)) {
    write_pixels(index, cut(index, encoded->file, scratch), scratch, out);
  } else {
    write_pixels(index, std::get<const uint8_t*>(sample), scratch, out);
  }
}

void EpochRows::write_pixels(int64_t index, const uint8_t* pixels, RowScratch& scratch,
                             std::byte* out) const {
  const auto border = [this](int64_t c) {
    return normalisation_.nearest_to_mean(static_cast<size_t>(c));
  };
  if (format_.fields[kSamples].dtype == DType::u8) {
    augment(pixels, index, border, reinterpret_cast<uint8_t*>(out));
    return;
  }
  scratch.augmented.resize(static_cast<size_t>(image_.elements()));
  augment(pixels, index, border, scratch.augmented.data());
  auto* numbers = reinterpret_cast<float*>(out);
  const uint8_t* from = scratch.augmented.data();
  for (const std::array<float, 256>& values : normalised_) {
    for (int64_t i = 0; i < image_[1] * image_[2]; ++i) *numbers++ = values[*from++];
  }
}

const uint8_t* EpochRows::cut(int64_t index, std::span<const uint8_t> file,
                              RowScratch& scratch) const {
  scratch.pixels.resize(static_cast<size_t>(image_.elements()));
  naming_sample(*split_, index, [&] {
    const PictureSize size = scratch.cutter.open(file);
    Rng rng(options_.seed, Purpose::window, static_cast<uint32_t>(epoch_),
            static_cast<uint64_t>(index));
    const double least = options_.augment.least_area;
    const Window window =
        least > 0 ? random_window(size, least, rng) : centred(size, image_[1], image_[2], centre_);
    scratch.cutter.cut(window, image_, scratch.pixels.data());
  });
  return scratch.pixels.data();
}

void EpochRows::expect(int64_t first, int64_t rows) const {
  if (split_->in_memory()) return;
  for (int64_t row = first; row < std::min(first + rows, size()); ++row) {
    split_->expect(order_[static_cast<size_t>(row)]);
  }
}

template <typename T, typename Border>
void EpochRows::augment(const T* image, int64_t sample, const Border& border, T* out) const {
  const int64_t height = image_[1], width = image_[2];
  Rng rng(options_.seed, Purpose::augment, static_cast<uint32_t>(epoch_),
          static_cast<uint64_t>(sample));
  const auto draw_shift = [&]() -> int64_t {
    const int pad = options_.augment.pad;
    return pad > 0 ? int64_t{rng.below(2 * static_cast<uint32_t>(pad) + 1)} - pad : 0;
  };
  const int64_t down = draw_shift(), right = draw_shift();
  const bool mirror = options_.augment.mirror && rng.below(2) == 1;
  const int64_t begin = std::clamp<int64_t>(-right, 0, width);
  const int64_t end = std::clamp<int64_t>(width - right, begin, width);
  for (int64_t c = 0; c < image_[0]; ++c) {
    for (int64_t y = 0; y < height; ++y, out += width) {
      const int64_t from = y + down;
      if (from < 0 || from >= height) {
        std::fill_n(out, width, border(c));
        continue;
      }
      const T* const in = image + (c * height + from) * width + right;
      std::fill_n(out, begin, border(c));
      std::copy(in + begin, in + end, out + begin);
      std::fill(out + end, out + width, border(c));
      if (mirror) std::reverse(out, out + width);
    }
  }
}

}  // namespace crossbow::data
