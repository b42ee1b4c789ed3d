// crossbow convert
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/reporter.h"
#include "cli/results.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/write_libsvm.h"
#include "data/write_pictures.h"

namespace crossbow::cli {
namespace {

constexpr const char* kConvertExamples =
    R"(FROM is a set as --data takes it. TO is
  tfrecord:DIR, tar:DIR   1,250 pictures a file, which is faster to copy
  imagefolder:DIR         a folder for each class
  libsvm:FILE             rows of numbers as text; the test rows go to FILE.t

Pictures stay as they are unless --short-side shrinks them; images of one size
become PNGs. A conversion that was interrupted goes on when it is called again.

Examples:
  crossbow convert imagenet:ILSVRC tfrecord:small --short-side 320 --skip-bad
  crossbow convert imagefolder:pets tar:pets-tars
  crossbow convert cifar10 imagefolder:cifar10-folders
  crossbow convert like-covtype libsvm:covtype   drawn rows, for another system
)";

struct ConvertArguments {
  std::string from, to;
  std::optional<int64_t> short_side;
  std::optional<int> quality;
  bool skip_bad = false, json = false;
};

/// KIND:PATH.
struct Target {
  std::string kind, path;
};

[[noreturn]] void refuse_target(const std::string& to) {
  fail_usage(
      "TO '{}': sets can be written as tfrecord:DIR, tar:DIR, imagefolder:DIR or libsvm:FILE", to);
}

Target target_of(const std::string& to) {
  const size_t colon = to.find(':');
  Target target{to.substr(0, colon), colon == to.npos ? "" : to.substr(colon + 1)};
  if (target.path.empty()) refuse_target(to);
  return target;
}

int write_rows(const ConvertArguments& arguments, const std::string& path) {
  if (!data::catalogue_entry(arguments.from).rows) {
    fail_usage("FROM '{}': it is a set of images; libsvm:FILE holds rows of numbers",
               arguments.from);
  }
  if (arguments.short_side || arguments.quality || arguments.skip_bad) {
    fail_usage("--short-side, --quality and --skip-bad are for pictures, not for rows of numbers");
  }
  const auto dataset = data::open_dataset(arguments.from);
  data::write_libsvm(*dataset, path);
  const int64_t train = dataset->train->size(), test = dataset->test->size();
  if (arguments.json) {
    print_json({{"train", train}, {"test", test}, {"files", {path, path + ".t"}}});
  } else {
    put("wrote {} rows to {} and {} to {}.t\n", grouped(train), printable(path), grouped(test),
        printable(path));
  }
  return 0;
}

data::Container container_of(const Target& target, const std::string& to) {
  if (target.kind == "tfrecord") return data::Container::tfrecord;
  if (target.kind == "tar") return data::Container::tar;
  if (target.kind == "imagefolder") return data::Container::files;
  refuse_target(to);
}

data::WriteOptions options_of(const ConvertArguments& arguments, const Target& target) {
  data::WriteOptions options;
  options.container = container_of(target, arguments.to);
  if (data::catalogue_entry(arguments.from).rows) {
    fail_usage("FROM '{}': it holds rows of numbers, which can be written as libsvm:FILE",
               arguments.from);
  }
  constexpr int64_t kLongest = 65500;  // of a JPEG
  if (arguments.short_side && (*arguments.short_side < 1 || *arguments.short_side > kLongest)) {
    fail_usage("--short-side {}: it must be in 1 to {}", *arguments.short_side, kLongest);
  }
  options.short_side = arguments.short_side.value_or(0);
  if (arguments.quality) {
    if (options.short_side == 0) {
      fail_usage("--quality {}: pictures stay as they are; give --short-side too",
                 *arguments.quality);
    }
    if (*arguments.quality < 1 || *arguments.quality > 100) {
      fail_usage("--quality {}: it must be in 1 to 100", *arguments.quality);
    }
    options.quality = *arguments.quality;
  }
  options.skip_bad = arguments.skip_bad;
  return options;
}

/// The same from wherever it is called.
std::string full_name(const std::string& set) {
  const size_t colon = set.find(':');
  if (colon == set.npos) return set;
  std::error_code ignored;
  const auto path = std::filesystem::weakly_canonical(set.substr(colon + 1), ignored);
  return set.substr(0, colon + 1) + path.string();
}

int write_pictures(const ConvertArguments& arguments, const Target& target) {
  data::WriteOptions options = options_of(arguments, target);
  data::OpenOptions open;
  open.keep_encoded = true;
  open.skip_bad = arguments.skip_bad;
  open.image_size = {1, 1};  // of which none is made
  Reporter reporter(stderr);
  open.progress = options.progress = [&](std::string_view what, int64_t done, int64_t total) {
    reporter.loading(what, done, total);
  };
  const auto dataset = data::open_dataset(arguments.from, open);
  if (!dataset->info.note.empty()) reporter.note(dataset->info.note);
  if (arguments.short_side && dataset->train->in_memory()) {
    fail_usage("--short-side {}: the images of {} are of one size, and stay so; leave it out",
               *arguments.short_side, arguments.from);
  }
  const data::Written w =
      data::write_pictures(*dataset, full_name(arguments.from), target.path, options);
  reporter.finish();
  for (const std::string& reason : w.skipped) complain("crossbow convert", "left out " + reason);
  if (arguments.json) {
    print_json({{"train", w.train},
                {"test", w.test},
                {"files", w.files},
                {"files_there_before", w.there},
                {"bytes", w.bytes},
                {"skipped", w.skipped}});
    return 0;
  }
  put("{}: {} training and {} test pictures in {}{}\n", printable(target.path), grouped(w.train),
      grouped(w.test), count(w.files, "file"),
      w.there > 0 ? fmt::format(", {} of which were there before", grouped(w.there)) : "");
  if (!w.skipped.empty()) {
    put("{}, named above: what is damaged there is left out\n",
        count(std::ssize(w.skipped), "fault"));
  }
  put("train with --data {}\n", printable(arguments.to));
  return 0;
}

int run(const ConvertArguments& arguments) {
  const Target target = target_of(arguments.to);
  if (target.kind == "libsvm") return write_rows(arguments, target.path);
  return write_pictures(arguments, target);
}

}  // namespace

Run add_convert(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("convert", "write a data set in another format");
  const auto arguments = std::make_shared<ConvertArguments>();
  app.add_option("FROM", arguments->from, "the set, as `crossbow data` lists them")->required();
  app.add_option("TO", arguments->to, "tfrecord:DIR, tar:DIR, imagefolder:DIR or libsvm:FILE")
      ->required();
  app.add_option("--short-side", arguments->short_side,
                 "scale larger pictures to this shorter side, in pixels")
      ->type_name("N");
  app.add_option("--quality", arguments->quality, "of the JPEGs that are scaled [90]")
      ->type_name("Q");
  app.add_flag("--skip-bad", arguments->skip_bad,
               "decode every picture, and leave out those that cannot be");
  app.add_flag("--json", arguments->json, "put one JSON object on standard output");
  app.footer(kConvertExamples);
  return [arguments] { return run(*arguments); };
}

}  // namespace crossbow::cli
