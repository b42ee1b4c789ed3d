// crossbow: one command with a sub-command for each job. Exit codes: 0 success, 1 failure, 2 usage.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "core/error.h"
#include "core/nearest.h"
#include "train/config.h"

namespace crossbow::cli {
namespace {

constexpr int kFailure = 1, kUsage = 2;

int complain(int code, std::string_view command, std::string_view sentence) {
  fmt::print(stderr, "{}: {}\n", command, sentence);
  return code;
}

std::vector<const CLI::App*> commands_of(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App*) { return true; });
}

/// What the parser did not understand: a mistyped command or option, most likely.
void refuse_extras(const CLI::App& app) {
  const std::vector<std::string> extras = app.remaining();
  if (extras.empty()) return;
  const std::string_view extra = std::string_view(extras[0]).substr(0, extras[0].find('='));
  std::vector<std::string> names;
  if (extra.substr(0, 2) == "--") {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    const std::vector<std::string_view> views(names.begin(), names.end());
    fail_unknown_option(extra, views);
  }
  for (const CLI::App* command : commands_of(app)) names.push_back(command->get_name());
  const std::vector<std::string_view> views(names.begin(), names.end());
  fail_usage("'{}' is not understood{}", extra, did_you_mean(extra, views));
}

int run(int argc, char** argv) {
  CLI::App root("Trains neural networks with small batches.", "crossbow");
  root.set_version_flag("--version", version_text);
  root.footer("`crossbow train` alone trains LeNet on handwritten digits.");
  root.allow_extras();
  std::string name = "crossbow";
  std::vector<std::pair<CLI::App*, Run>> commands;
  for (const auto add : {add_train, add_eval, add_predict, add_runs, add_bench, add_models,
                         add_data, add_graph, add_completion}) {
    Run command = add(root);
    CLI::App* app = root.get_subcommands([](CLI::App*) { return true; }).back();
    app->allow_extras();
    if (argc > 1 && app->get_name() == argv[1]) name += ' ' + app->get_name();
    commands.emplace_back(app, std::move(command));
  }

  try {
    root.parse(argc, argv);
    refuse_extras(root);
    for (const auto& [app, command] : commands) {
      if (!app->parsed()) continue;
      refuse_extras(*app);
      const int code = command();
      if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
        fail("cannot write to standard output ({})", std::strerror(errno));
      }
      return code;
    }
    fmt::print(stderr, "{}", root.help());
    return kUsage;
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return root.exit(e);  // --help and --version
    return complain(kUsage, name, fmt::format("{}; see {} --help", e.what(), name));
  } catch (const UsageError& e) {
    return complain(kUsage, name, e.what());
  } catch (const std::bad_alloc&) {
    return complain(kFailure, name, "out of memory: try a smaller --batch or fewer --learners");
  } catch (const std::exception& e) {
    return complain(kFailure, name, e.what());
  }
}

}  // namespace
}  // namespace crossbow::cli

int main(int argc, char** argv) {
  return crossbow::cli::run(argc, argv);
}
