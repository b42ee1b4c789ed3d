// crossbow data check
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/reporter.h"
#include "cli/results.h"
#include "data/check_pictures.h"
#include "data/dataset.h"

namespace crossbow::cli {
namespace {

constexpr const char* kCheckExamples =
    R"(Reads and decodes everything, and lists each picture that cannot be read and
each archive that is damaged or cut short, with its file and place. The exit
status is then 1. `crossbow convert FROM TO --skip-bad` leaves out what is
listed.

Examples:
  crossbow data check imagenet:ILSVRC
  crossbow data check tfrecord:small --json
)";

int run(const std::string& set, bool json) {
  Reporter reporter(stderr);
  data::OpenOptions options;
  options.keep_encoded = options.skip_bad = true;
  options.image_size = {1, 1};  // of which none is made
  options.progress = [&](std::string_view what, int64_t done, int64_t total) {
    reporter.loading(what, done, total);
  };
  const auto dataset = data::open_dataset(set, options);
  const auto [train, test, bad] = data::check_samples(*dataset, options);
  reporter.finish();
  for (const std::string& reason : bad) complain("crossbow data check", reason);
  if (json) {
    print_json({{"data", set}, {"train", train}, {"test", test}, {"bad", bad}});
  } else {
    put("{}: {} training and {} test {}s can be read{}\n", printable(set), grouped(train),
        grouped(test), dataset->info.noun(),
        bad.empty() ? "" : fmt::format("; {}, named above", count(std::ssize(bad), "fault")));
  }
  return bad.empty() ? 0 : 1;
}

}  // namespace

Run add_check(CLI::App& data) {
  CLI::App& app = *data.add_subcommand("check", "look for pictures that cannot be decoded");
  const auto set = std::make_shared<std::string>();
  const auto json = std::make_shared<bool>(false);
  app.add_option("SET", *set, "as --data takes it")->required();
  app.add_flag("--json", *json, "put one JSON object on standard output");
  app.footer(kCheckExamples);
  return [set, json] { return run(*set, *json); };
}

}  // namespace crossbow::cli
