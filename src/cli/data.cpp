// crossbow data
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"
#include "cli/results.h"
#include "core/error.h"
#include "data/dataset.h"

namespace crossbow::cli {
namespace {

constexpr const char* kDataExamples =
    R"(Folders are looked for in $CROSSBOW_DATA, or ./data. The digits, once drawn, and the
choices that were timed on this machine are kept in $XDG_CACHE_HOME/crossbow, or
~/.cache/crossbow; it may be deleted.

Examples:
  crossbow data
  crossbow data --json
  crossbow data fetch mnist            downloads it
  crossbow data check imagenet:ILSVRC  looks for pictures that cannot be decoded
)";

Json to_json(const data::CatalogueEntry& e) {
  return {{"name", e.name},
          {"about", e.about},
          {"image", std::vector<int64_t>(e.image.begin(), e.image.end())},
          {"classes", e.classes},
          {"train", e.train},
          {"test", e.test},
          {"source", e.source},
          {"files", e.files},
          {"folder", e.folder},
          {"found", e.found}};
}

void print_entry(const data::CatalogueEntry& e) {
  put("{}: {}\n", e.name, e.about);
  if (e.image.rank() > 0) {
    const std::string labels =
        e.classes > 1 ? fmt::format("in {} classes", e.classes) : "with a number each";
    put_wrapped(stdout, e.rows ? "  rows    " : "  images  ",
                fmt::format("{} training, {} test, {} {}", grouped(e.train), grouped(e.test),
                            e.image.str(), labels));
  }
  if (!e.files.empty()) {
    put_wrapped(stdout, "  files   ", fmt::format("{}", fmt::join(e.files, ", ")));
  }
  if (!e.source.empty()) put_wrapped(stdout, "  source  ", e.source);
  if (!e.folder.empty()) {
    put_wrapped(stdout, "  folder  ",
                fmt::format("{} ({}), or any other: --data {}:DIR", printable(e.folder),
                            e.found ? "found" : "not there", e.name));
  }
}

int print_catalogue(bool json) {
  Json list = Json::array();
  for (const data::CatalogueEntry& entry : data::catalogue()) {
    if (json) {
      list.push_back(to_json(entry));
    } else {
      print_entry(entry);
    }
  }
  if (json) print_json({{"data", list}});
  return 0;
}

}  // namespace

Run add_data(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("data", "list the data sets and where to get them");
  const auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "put one JSON object on standard output");
  app.footer(kDataExamples);
  const Run fetch = add_fetch(app), check = add_check(app);
  return [&app, json, fetch, check] {
    if (app.get_subcommands().empty()) return print_catalogue(*json);
    const std::string& part = app.get_subcommands().front()->get_name();
    if (*json) fail_usage("--json belongs behind the name of the command: data {} --json", part);
    return part == "fetch" ? fetch() : check();
  };
}

}  // namespace crossbow::cli
