// crossbow convert
#include "cli/command.h"
#include "core/error.h"
#include "data/dataset.h"
#include "data/write_libsvm.h"

namespace crossbow::cli {
namespace {

constexpr const char* kExamples =
    R"(FROM is a set as --data takes it. TO is libsvm:FILE: the training rows go to FILE and the
test rows to FILE.t, in LIBSVM's text format.

Examples:
  crossbow convert like-covtype libsvm:covtype       the drawn rows, for another system
)";

constexpr std::string_view kLibsvm = "libsvm:";

struct Arguments {
  std::string from, to;
  bool json = false;
};

int run(const Arguments& arguments) {
  const auto& [from, to, json] = arguments;
  if (!to.starts_with(kLibsvm) || to.size() == kLibsvm.size()) {
    fail_usage("TO '{}': sets can be written as libsvm:FILE", to);
  }
  if (!data::catalogue_entry(from).rows) {
    fail_usage("FROM '{}': it is a set of images; libsvm:FILE holds rows of numbers", from);
  }
  const std::string path = to.substr(kLibsvm.size());
  const auto dataset = data::open_dataset(from);
  data::write_libsvm(*dataset, path);
  const int64_t train = dataset->train->size(), test = dataset->test->size();
  if (json) {
    print_json({{"train", train}, {"test", test}, {"files", {path, path + ".t"}}});
  } else {
    put("wrote {} rows to {} and {} to {}.t\n", grouped(train), printable(path), grouped(test),
        printable(path));
  }
  return 0;
}

}  // namespace

Run add_convert(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("convert", "write a data set in another format");
  const auto arguments = std::make_shared<Arguments>();
  app.add_option("FROM", arguments->from, "the set, as `crossbow data` lists them")->required();
  app.add_option("TO", arguments->to, "libsvm:FILE")->required();
  app.add_flag("--json", arguments->json, "put one JSON object on standard output");
  app.footer(kExamples);
  return [arguments] { return run(*arguments); };
}

}  // namespace crossbow::cli
