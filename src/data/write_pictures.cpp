#include "data/write_pictures.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "core/crc32c.h"
#include "core/error.h"
#include "core/file.h"
#include "data/archives.h"
#include "data/conversion.h"
#include "data/encode.h"
#include "data/example.pb.h"
#include "data/parallel.h"
#include "data/picture.h"
#include "data/source.h"
#include "data/tfrecord.h"

namespace crossbow::data {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPicturesPerFile = 1250;  // about 128 MiB of ImageNet

/// What stands for the archives of the set in the list of what was left out.
constexpr const char* kArchives = "archives";

/// A range of a part, and the file for it.
struct Piece {
  const Split* split = nullptr;
  std::string part;  // train, validation or val
  std::string name;  // of the file; or, in class folders, what stands for a range of files
  int64_t first = 0, count = 0;
};

std::string name_of_piece(Container container, std::string_view part, int64_t number, int64_t all) {
  switch (container) {
    case Container::tfrecord:
      return fmt::format("{}-{:05}-of-{:05}", part, number, all);
    case Container::tar:
      return fmt::format("{}-{:06}.tar", part, number);
    case Container::files:
      break;
  }
  return fmt::format("{}-{:06}", part, number);
}

std::vector<Piece> pieces_of(const Dataset& dataset, Container container) {
  std::vector<Piece> pieces;
  const auto add = [&](const Split& split, const char* part) {
    const int64_t all = (split.size() + kPicturesPerFile - 1) / kPicturesPerFile;
    for (int64_t number = 0; number < all; ++number) {
      const int64_t first = number * kPicturesPerFile;
      pieces.push_back({&split, part, name_of_piece(container, part, number, all), first,
                        std::min(kPicturesPerFile, split.size() - first)});
    }
  };
  add(*dataset.train, "train");
  add(*dataset.test, container == Container::tfrecord ? "validation" : "val");
  return pieces;
}

std::string_view extension_of(std::span<const uint8_t> file) {
  return is_jpeg(file) ? "jpg" : "png";
}

/// Makes the files of pictures. One thread.
class Encoder {
 public:
  Encoder(const Info& info, const WriteOptions& options) : info_(info), options_(options) {}

  /// Valid until the next call.
  std::span<const uint8_t> encode(const Split& split, int64_t i) {
    const Sample sample = split.sample(i, &file_);
    if (const auto* const pixels = std::get_if<const uint8_t*>(&sample)) {
      own_ = encode_png(*pixels, info_.image[0], info_.image[1], info_.image[2]);
      return own_;
    }
    return naming_sample(split, i, [&] { return scaled(std::get<EncodedPicture>(sample).file); });
  }

 private:
  std::span<const uint8_t> scaled(std::span<const uint8_t> file) {
    const PictureSize size = cutter_.open(file);
    const int64_t side = options_.short_side, now = std::min(size.height, size.width);
    if (side == 0 || now <= side) {
      if (options_.skip_bad) decode_image(file);
      return file;
    }
    const auto fitted = [&](int64_t n) {
      return std::max<int64_t>(side, (n * side + now / 2) / now);
    };
    const int64_t height = fitted(size.height), width = fitted(size.width);
    pixels_.resize(static_cast<size_t>(3 * height * width));
    const Window whole{0, 0, static_cast<double>(size.height), static_cast<double>(size.width)};
    cutter_.cut(whole, {3, height, width}, pixels_.data());
    Image image{height, width, std::vector<uint8_t>(pixels_.size())};
    const auto plane = static_cast<size_t>(height * width);
    for (size_t c = 0; c < 3; ++c) {
      for (size_t k = 0; k < plane; ++k) image.rgb[3 * k + c] = pixels_[c * plane + k];
    }
    own_ = encode_jpeg(image, options_.quality);
    return own_;
  }

  const Info& info_;
  const WriteOptions& options_;
  PictureCutter cutter_;
  std::vector<uint8_t> file_, own_, pixels_;
};

using Put = std::function<void(int64_t i, std::span<const uint8_t> picture)>;

int64_t to_records(const fs::path& path, const Piece& piece, const Info& info,
                   const std::function<void(const Put&)>& pictures) {
  AtomicFile file(path);
  int64_t bytes = 0;
  std::string data;
  std::vector<uint8_t> record;
  const auto number = [&](const auto& n) {
    const auto* const begin = reinterpret_cast<const uint8_t*>(&n);
    record.insert(record.end(), begin, begin + sizeof n);
  };
  pictures([&](int64_t i, std::span<const uint8_t> picture) {
    proto::Example example;
    auto& features = *example.mutable_features()->mutable_feature();
    const auto set_bytes = [&](const char* key, std::string_view value) {
      features[key].mutable_bytes_list()->add_value(value.data(), value.size());
    };
    const int32_t label = piece.split->label(i);
    set_bytes("image/encoded", {reinterpret_cast<const char*>(picture.data()), picture.size()});
    set_bytes("image/format", is_jpeg(picture) ? "JPEG" : "PNG");
    features["image/class/label"].mutable_int64_list()->add_value(label + 1);
    set_bytes("image/class/text", info.class_names[static_cast<size_t>(label)]);
    if (!example.SerializeToString(&data)) fail("a record cannot be written");
    record.clear();
    number(uint64_t{data.size()});
    number(masked_crc(record));
    record.insert(record.end(), data.begin(), data.end());
    number(masked_crc(std::span(record).subspan(static_cast<size_t>(kRecordHead))));
    file.write(record);
    bytes += std::ssize(record);
  });
  file.commit();
  return bytes;
}

/// Into a tar, by libarchive.
class TarWriter {
 public:
  explicit TarWriter(AtomicFile& file)
      : file_(file), archive_(archive_write_new(), archive_write_free) {
    if (!archive_) throw std::bad_alloc();
    archive_write_set_format_ustar(archive_.get());
    archive_write_set_bytes_per_block(archive_.get(), 0);
    check(archive_write_open(archive_.get(), this, nullptr, write, nullptr));
  }
  void add(const std::string& name, std::span<const uint8_t> contents) {
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(),
                                                                         archive_entry_free);
    if (!entry) throw std::bad_alloc();
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), std::ssize(contents));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    check(archive_write_header(archive_.get(), entry.get()));
    if (archive_write_data(archive_.get(), contents.data(), contents.size()) < 0)
      check(ARCHIVE_FATAL);
  }
  void close() { check(archive_write_close(archive_.get())); }
  int64_t bytes() const { return bytes_; }

 private:
  /// What the file throws must not cross the library.
  static la_ssize_t write(archive*, void* self, const void* data, size_t size) {
    auto& writer = *static_cast<TarWriter*>(self);
    try {
      writer.file_.write({static_cast<const uint8_t*>(data), size});
    } catch (...) {
      writer.error_ = std::current_exception();
      return -1;
    }
    writer.bytes_ += static_cast<int64_t>(size);
    return static_cast<la_ssize_t>(size);
  }
  void check(int result) {
    if (error_) std::rethrow_exception(error_);
    if (result < ARCHIVE_WARN) fail("libarchive: {}", archive_error_string(archive_.get()));
  }

  AtomicFile& file_;
  int64_t bytes_ = 0;
  std::exception_ptr error_;
  std::unique_ptr<archive, int (*)(archive*)> archive_;
};

int64_t to_tar(const fs::path& path, const Piece& piece,
               const std::function<void(const Put&)>& pictures) {
  AtomicFile file(path);
  TarWriter tar(file);
  pictures([&](int64_t i, std::span<const uint8_t> picture) {
    const std::string label = std::to_string(piece.split->label(i));
    tar.add(fmt::format("{:08}.{}", i, extension_of(picture)), picture);
    tar.add(fmt::format("{:08}.cls", i),
            {reinterpret_cast<const uint8_t*>(label.data()), label.size()});
  });
  tar.close();
  file.commit();
  return tar.bytes();
}

/// Those of the classes, where as folders they keep their order; else with their numbers.
std::vector<std::string> class_folder_names(const std::vector<std::string>& classes) {
  const bool ascending =
      std::ranges::adjacent_find(classes, std::ranges::greater_equal{}) == classes.end();
  const bool plain = std::ranges::all_of(classes, [](const std::string& name) {
    return !name.empty() && name.front() != '.' && name.find('/') == name.npos;
  });
  if (ascending && plain) return classes;
  std::vector<std::string> names;
  for (const std::string& name : classes) {
    names.push_back(fmt::format("{:06} {}", names.size(), name));
    std::ranges::replace(names.back(), '/', ' ');
  }
  return names;
}

/// Writes one set. Pieces are written on several threads.
class Writer {
 public:
  Writer(const Dataset& dataset, fs::path folder, const WriteOptions& options,
         const Conversion& conversion)
      : dataset_(dataset),
        folder_(std::move(folder)),
        options_(options),
        conversion_(conversion),
        folders_(class_folder_names(dataset.info.class_names)) {}

  /// Of all classes, so that one without pictures keeps its number.
  void make_folders(const std::string& part) const {
    for (const std::string& name : folders_) make_folder(folder_ / part / name);
  }

  void write(const Piece& piece) {
    if (options_.container == Container::files) return write_files(piece);
    const bool tar = options_.container == Container::tar;
    const fs::path path = folder_ / piece.name;
    if (type_of(path) != fs::file_type::not_found) return count_there(1);
    const auto pictures = [&](const Put& put) { each(piece, put); };
    const int64_t bytes =
        tar ? to_tar(path, piece, pictures) : to_records(path, piece, dataset_.info, pictures);
    count_written(1, bytes);
  }

  Written result() const { return written_; }

 private:
  void each(const Piece& piece, const Put& put) {
    Encoder encoder(dataset_.info, options_);
    std::vector<std::string> left_out;
    for (int64_t i = piece.first; i < piece.first + piece.count; ++i) {
      if (const auto picture = encoded(encoder, *piece.split, i, left_out)) put(i, *picture);
    }
    conversion_.set_left_out(piece.name, left_out);
  }

  std::optional<std::span<const uint8_t>> encoded(Encoder& encoder, const Split& split, int64_t i,
                                                  std::vector<std::string>& left_out) const {
    try {
      return encoder.encode(split, i);
    } catch (const Error& e) {
      if (!options_.skip_bad) throw;
      left_out.emplace_back(e.what());
      return std::nullopt;
    }
  }

  void write_files(const Piece& piece) {
    Encoder encoder(dataset_.info, options_);
    std::vector<std::string> left_out;
    for (int64_t i = piece.first; i < piece.first + piece.count; ++i) {
      const fs::path folder =
          folder_ / piece.part / folders_[static_cast<size_t>(piece.split->label(i))];
      const fs::path stem = folder / fmt::format("{:08}", i);
      const bool there = std::ranges::any_of(std::array{".jpg", ".png"}, [&](const char* ending) {
        return type_of(stem.string() + ending) != fs::file_type::not_found;
      });
      if (there) {
        count_there(1);
        continue;
      }
      const auto picture = encoded(encoder, *piece.split, i, left_out);
      if (!picture) continue;
      write_file_atomically(fmt::format("{}.{}", stem.string(), extension_of(*picture)),
                            {*picture});
      count_written(1, std::ssize(*picture));
    }
    conversion_.set_left_out(piece.name, left_out);
  }

  void count_there(int64_t files) {
    const std::lock_guard lock(mutex_);
    written_.files += files;
    written_.there += files;
  }
  void count_written(int64_t files, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    written_.files += files;
    written_.bytes += bytes;
  }

  const Dataset& dataset_;
  const fs::path folder_;
  const WriteOptions& options_;
  const Conversion& conversion_;
  const std::vector<std::string> folders_;  // of the classes
  std::mutex mutex_;
  Written written_;  // guarded
};

/// Of the classes' names and of which pictures are of each.
uint32_t checksum_of_labels(const Dataset& dataset) {
  uint32_t sum = 0;
  const auto add = [&](const void* bytes, size_t size) {
    sum = crc32c({static_cast<const uint8_t*>(bytes), size}, sum);
  };
  for (const std::string& name : dataset.info.class_names) add(name.c_str(), name.size() + 1);
  for (const Split* split : {dataset.train.get(), dataset.test.get()}) {
    for (int64_t i = 0; i < split->size(); ++i) {
      const int32_t label = split->label(i);
      add(&label, sizeof label);
    }
  }
  return sum;
}

/// What makes two conversions the same.
std::string job_text(const Dataset& dataset, const std::string& source, const WriteOptions& o) {
  return fmt::format("{}\n{} {} {} {} {} {} {:08x}\n", source, dataset.train->size(),
                     dataset.test->size(), static_cast<int>(o.container), o.short_side,
                     o.short_side > 0 ? o.quality : 0, o.skip_bad, checksum_of_labels(dataset));
}

/// An empty part cannot be opened again.
void expect_pictures(const Written& written) {
  for (const auto& [left, part] :
       {std::pair{written.train, "training"}, std::pair{written.test, "test"}}) {
    if (left > 0) continue;
    fail("none of the {} pictures can be used: `crossbow data check` says what is wrong", part);
  }
}

}  // namespace

Written write_pictures(const Dataset& dataset, const std::string& source, const fs::path& folder,
                       const WriteOptions& options) {
  const Conversion conversion(folder, job_text(dataset, source, options));
  conversion.set_left_out(kArchives, dataset.bad);
  const std::vector<Piece> pieces = pieces_of(dataset, options.container);
  Writer writer(dataset, folder, options, conversion);
  if (options.container == Container::files) {
    for (const char* part : {"train", "val"}) writer.make_folders(part);
  }
  OpenOptions loop;
  loop.threads = options.threads;
  loop.progress = options.progress;
  parallel_for(std::ssize(pieces), loop, "writing pictures",
               [&](int64_t i) { writer.write(pieces[static_cast<size_t>(i)]); });
  if (options.container != Container::files) {
    std::string names;
    for (std::string name : dataset.info.class_names) {
      std::ranges::replace(name, '\n', ' ');
      names += name + '\n';
    }
    write_file_atomically(folder / kClassNames, names);
  }
  Written written = writer.result();
  written.skipped = conversion.left_out(kArchives);
  for (const Piece& piece : pieces) {
    const std::vector<std::string> left_out = conversion.left_out(piece.name);
    (piece.split == dataset.train.get() ? written.train : written.test) +=
        piece.count - std::ssize(left_out);
    std::ranges::copy(left_out, std::back_inserter(written.skipped));
  }
  expect_pictures(written);
  conversion.finish();
  return written;
}

}  // namespace crossbow::data
