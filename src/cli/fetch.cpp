// crossbow data fetch
#include "data/fetch/fetch.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/reporter.h"
#include "cli/results.h"
#include "core/error.h"
#include "data/dataset.h"
#include "train/interrupt.h"

namespace crossbow::cli {
namespace {

constexpr const char* kFetchExamples =
    R"(What is there already is checked and stays. What comes is kept as NAME.part
until it is whole and its SHA-256 is right; after Ctrl-C or a lost connection
the same command goes on from there. The keys of --json: name, folder, files,
and bytes, which is what has come.

Examples:
  crossbow data fetch mnist                     11 MiB, to data/mnist
  crossbow data fetch cifar10 /data/cifar10     162 MiB
  crossbow data fetch cifar100 --from https://mirror.example.com/cifar
)";

struct FetchArguments {
  std::string name, folder, from;
};

void refuse_other_addresses(const std::string& from) {
  if (from.empty() || from.starts_with("https://") || from.starts_with("http://")) return;
  fail_usage("--from '{}': it must begin with https:// or http://", from);
}

data::Fetched fetch(const data::Published& set, const std::filesystem::path& folder,
                    const std::string& from, std::FILE* out) {
  const InterruptGuard guard;
  std::optional<Reporter> reporter;
  if (isatty(fileno(out))) reporter.emplace(out);
  data::FetchOptions options;
  options.from = from;
  options.progress = [&](std::string_view what, int64_t done, int64_t total) {
    if (InterruptGuard::requested()) {
      throw Interrupted("interrupted; the same command goes on with what has come");
    }
    if (reporter) reporter->loading(what, done, total);
  };
  return data::fetch(set, folder, options);
}

void print(const data::Published& set, const std::filesystem::path& folder, bool is_default,
           const data::Fetched& fetched) {
  const std::string spec = is_default ? set.name : fmt::format("{}:{}", set.name, folder.string());
  const std::string what =
      fetched.bytes == 0 ? "was there already" : grouped(fetched.bytes) + " bytes fetched";
  put_wrapped(stdout, "",
              fmt::format("{} is in {} ({}): crossbow train --data {}", set.name,
                          printable(folder.string()), what, printable(spec)));
}

int run(const FetchArguments& arguments, bool json) {
  const data::Published& set = data::published_set(arguments.name);
  refuse_other_addresses(arguments.from);
  const bool is_default = arguments.folder.empty();
  const std::filesystem::path folder =
      is_default ? data::default_folder(set.name) : std::filesystem::path(arguments.folder);
  data::Fetched fetched;
  try {
    fetched = fetch(set, folder, arguments.from, json ? stderr : stdout);
  } catch (const Interrupted& e) {
    complain("crossbow data fetch", e.what());
    return exit_code_of(InterruptGuard::signal());
  }
  if (!json) {
    print(set, folder, is_default, fetched);
    return 0;
  }
  Json files = Json::array();
  for (const std::filesystem::path& file : fetched.files) files.push_back(file.string());
  print_json({{"name", set.name},
              {"folder", folder.string()},
              {"files", std::move(files)},
              {"bytes", fetched.bytes}});
  return 0;
}

std::string names() {
  std::vector<std::string_view> names;
  for (const data::Published& set : data::published_sets()) names.push_back(set.name);
  return fmt::format("{}", fmt::join(names, "|"));
}

}  // namespace

Run add_fetch(CLI::App& data) {
  CLI::App& app = *data.add_subcommand("fetch", "download a public data set");
  const auto arguments = std::make_shared<FetchArguments>();
  const auto json = std::make_shared<bool>(false);
  app.add_option("name", arguments->name, "the set")->required()->type_name(names());
  app.add_option("folder", arguments->folder, "where to put it [where --data looks for it]")
      ->type_name("DIR");
  app.add_option("--from", arguments->from,
                 "a folder with the set's files, in place of its mirrors")
      ->type_name("URL");
  app.add_flag("--json", *json, "put one JSON object on standard output");
  app.footer(kFetchExamples);
  return [arguments, json] { return run(*arguments, *json); };
}

}  // namespace crossbow::cli
