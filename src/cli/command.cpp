#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "sync/async.h"
#include "train/config.h"

namespace crossbow::cli {

void OptionFlags::add(CLI::App& app, std::initializer_list<std::string_view> names) {
  for (const OptionEntry& entry : option_table()) {
    if (names.size() > 0 && std::find(names.begin(), names.end(), entry.name) == names.end()) {
      continue;
    }
    const std::string name(entry.name), default_value = option_text({}, entry);
    if (entry.is_switch()) {
      app.add_flag(fmt::format("--{0},--no-{0}{{false}}", name), given_[name],
                   std::string(entry.help));
      continue;
    }
    const std::string help = default_value == "auto"
                                 ? std::string(entry.help)
                                 : fmt::format("{} [{}]", entry.help, default_value);
    CLI::Option& option =
        *app.add_option_function<std::string>(
                "--" + name, [this, name](const std::string& text) { given_[name] = text; }, help)
             ->type_name(std::string(entry.value));
    if (entry.between) option.join(entry.between);
  }
}

void OptionFlags::add_alias(CLI::App& app, const std::string& flag, const std::string& option,
                            const std::string& help) {
  app.add_option_function<std::string>(
         "--" + flag, [this, option](const std::string& text) { given_[option] = text; }, help)
      ->type_name(std::string(find_option(option)->value));
}

void OptionFlags::add_config(CLI::App& app) {
  app.add_option("--config", config_, "read options from this file; flags win over it")
      ->type_name("FILE.toml");
}

TrainOptions OptionFlags::apply(TrainOptions options) const {
  if (!config_.empty()) apply_config_file(options, config_);
  for (const auto& [name, text] : given_) {
    if (text.empty()) continue;
    try {
      set_option(options, *find_option(name), text);
    } catch (const UsageError& e) {
      fail_usage("--{}", e.what());
    }
  }
  return options;
}

std::string sync_names() {
  std::string text = "How learners can agree, --sync:\n";
  for (const SyncEntry& sync : sync_catalogue()) {
    text += fmt::format("  {:<17} {}\n", sync.name, sync.summary);
  }
  text += "\nAsynchronous algorithms, whose learners (nodes) do not wait for each other:\n";
  for (const AsyncEntry& async : async_catalogue()) {
    text += fmt::format("  {:<17} {}\n", async.name, async.summary);
  }
  return text + '\n';
}

}  // namespace crossbow::cli
