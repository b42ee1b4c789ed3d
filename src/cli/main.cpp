// crossbow: one command with a sub-command for each job. Exit codes: 0 success, 1 failure, 2 usage.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <cstdio>
#include <new>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/help.h"
#include "comm/world.h"
#include "core/error.h"
#include "core/nearest.h"
#include "core/planned.h"
#include "train/config.h"

namespace crossbow::cli {
namespace {

constexpr int kFailure = 1, kUsage = 2;

std::vector<CLI::App*> subcommands_of(CLI::App& root) {
  return root.get_subcommands([](CLI::App*) { return true; });
}
std::vector<const CLI::App*> subcommands_of(const CLI::App& root) {
  return root.get_subcommands([](const CLI::App*) { return true; });
}

/// An option without its value, most likely from a variable of the shell that is not set. The
/// parser would take the next argument in its place.
void refuse_empty(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i], before = argv[i - 1];
    if (argument.starts_with("--") && argument.find('=') + 1 == argument.size()) {
      fail_usage("{}: its value is empty; give one, or leave the option out",
                 argument.substr(0, argument.size() - 1));
    }
    if (!argument.empty()) continue;
    if (before.starts_with("--") && before.find('=') == before.npos) {
      fail_usage("{}: its value is empty; give one, or leave the option out", before);
    }
    fail_usage("argument {} is empty; leave it out", i);
  }
}

/// An option that follows one without its value, which the parser would take for the value.
void refuse_missing_values(const CLI::App& command, int argc, char** argv) {
  for (int i = 2; i < argc; ++i) {
    const std::string before = argv[i - 1], argument = argv[i];
    if (!before.starts_with('-') || !argument.starts_with('-')) continue;
    const CLI::Option* option = command.get_option_no_throw(before);
    if (!option || option->get_expected_min() == 0) continue;
    if (!command.get_option_no_throw(argument.substr(0, argument.find('=')))) continue;
    fail_usage("{0}: its value is missing, as {1} is an option; {0}={1} says that it is the value",
               before, argument);
  }
}

/// What the parser did not understand: a mistyped command or option, most likely. `command` is
/// what was called.
void refuse_extras(const CLI::App& app, const std::string& command) {
  std::vector<std::string> extras = app.remaining();
  std::erase(extras, "--");  // after which all are arguments
  if (extras.empty()) return;
  const std::string_view extra = std::string_view(extras[0]).substr(0, extras[0].find('='));
  const bool option = extra.starts_with("--");
  const std::string_view name = option ? extra.substr(2) : extra;
  if (!option) refuse_planned(extra, name);
  std::vector<std::string> names;
  if (option) {
    for (const CLI::Option* known : app.get_options()) {
      for (const std::string& long_name : known->get_lnames()) names.push_back("--" + long_name);
    }
  } else {
    for (const CLI::App* part : subcommands_of(app)) names.push_back(part->get_name());
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (option) fail_unknown_option(extra, views);
  const std::string near = did_you_mean(extra, views);
  fail_usage("'{}' is not understood{}", extra,
             near.empty() ? fmt::format("; see {} --help", command) : near);
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

int run(int argc, char** argv) {
  prepare_streams();
  CLI::App root("Trains neural networks with small batches.", "crossbow");
  root.formatter(std::make_shared<Help>());
  root.set_version_flag("--version", version_text);
  root.footer("`crossbow train` alone trains LeNet on handwritten digits.");
  root.allow_extras();
  root.require_subcommand(0, 1);  // what follows is an argument, whatever its name
  root.option_defaults()->take_last();
  std::string name = "crossbow";
  std::vector<std::pair<CLI::App*, Run>> commands;
  const CLI::App* asked = nullptr;
  for (const auto add :
       {add_train, add_simulate, add_eval, add_predict, add_runs, add_bench, add_models, add_data,
        add_convert, add_export, add_devices, add_graph, add_completion}) {
    Run command = add(root);
    CLI::App* app = subcommands_of(root).back();
    app->allow_extras();
    app->require_subcommand(0, 1);
    if (argc > 1 && app->get_name() == argv[1]) {
      name += ' ' + app->get_name();
      asked = app;
    }
    for (CLI::App* part : subcommands_of(*app)) {
      part->allow_extras();
      if (app != asked || argc < 3 || part->get_name() != argv[2]) continue;
      name += ' ' + part->get_name();
      asked = part;
    }
    commands.emplace_back(app, std::move(command));
  }

  // A rank that fails ends all. Most often all fail alike, and the first one speaks for them.
  const auto failed = [&](int code, const std::string& sentence) {
    const int rank = world() ? world_rank() : launched_rank();
    if (rank > 0) std::this_thread::sleep_for(std::chrono::seconds(3));
    const auto host = [&] { return world() ? world()->host(rank) : host_name(); };
    complain(name, rank == 0 ? sentence : fmt::format("rank {} on {}: {}", rank, host(), sentence));
    if (world()) world()->abort(code);
    return code;
  };
  try {
    refuse_empty(argc, argv);
    if (asked) refuse_missing_values(*asked, argc, argv);
    try {
      root.parse(argc, argv);
    } catch (const CLI::Success& e) {  // --help and --version
      std::ostringstream text;
      root.exit(e, text);
      put("{}", text.str());
      check_standard_output();
      return 0;
    }
    refuse_extras(root, name);
    for (const auto& [app, command] : commands) {
      if (!app->parsed()) continue;
      refuse_extras(*app, name);
      for (const CLI::App* part : app->get_subcommands()) refuse_extras(*part, name);
      const int code = command();
      check_standard_output();  // before another rank's end has the launcher end this one
      leave_world();
      return code;
    }
    put(stderr, "{}", root.help());
    return kUsage;
  } catch (const CLI::ParseError& e) {
    return failed(kUsage, fmt::format("{}; see {} --help", e.what(), name));
  } catch (const UsageError& e) {
    return failed(kUsage, e.what());
  } catch (const std::bad_alloc&) {
    return failed(kFailure, "out of memory: smaller batches, or fewer learners, need less");
  } catch (const std::system_error& e) {
    return failed(kFailure,
                  std::ferror(stdout)
                      ? fmt::format("cannot write to standard output ({})", e.code().message())
                      : e.what());
  } catch (const std::exception& e) {
    return failed(kFailure, e.what());
  }
}

}  // namespace
}  // namespace crossbow::cli

int main(int argc, char** argv) {
  return crossbow::cli::run(argc, argv);
}
