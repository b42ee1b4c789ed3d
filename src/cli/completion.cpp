// crossbow completion: scripts made from the commands and options that are registered.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "cli/command.h"
#include "cli/results.h"
#include "core/error.h"
#include "data/dataset.h"
#include "models/model.h"
#include "sync/async.h"

namespace crossbow::cli {
namespace {

constexpr const char* kCompletionExamples = R"(To install it, for one user:
  crossbow completion bash > ~/.local/share/bash-completion/completions/crossbow
  crossbow completion zsh > "${fpath[1]}/_crossbow"
  crossbow completion fish > ~/.config/fish/completions/crossbow.fish

Examples:
  source <(crossbow completion bash)    for this shell only
)";

using Words = std::vector<std::string>;

/// What stands behind an option, or for an argument.
struct FlagValue {
  bool wanted = false;
  bool path = false;
  Words words;  // that it may be, as far as they are known
};

struct Choice {
  std::string flag;  // with its dashes; empty for an argument
  std::string help;
  FlagValue value;
  bool hidden = false;
};

struct Command {
  std::string name, help;
  std::vector<Choice> options;
  FlagValue argument;
};

/// "N|auto" knows one word, "f32|bf16" two; what a word stands for is in capitals.
Words words_of(std::string_view kind) {
  Words words;
  while (!kind.empty()) {
    const std::string_view item = kind.substr(0, kind.find('|'));
    kind.remove_prefix(std::min(kind.size(), item.size() + 1));
    const auto upper = [](unsigned char c) { return std::isupper(c) || c == '[' || c == '.'; };
    if (std::none_of(item.begin(), item.end(), upper)) words.emplace_back(item);
  }
  return words;
}

Words known_words(const std::string& name, const std::string& kind) {
  Words words;
  if (name == "model") {
    for (const Model* model : all_models()) words.push_back(model->name);
  } else if (name == "data") {
    for (const auto& entry : data::catalogue()) {
      words.push_back(entry.name + (entry.image.rank() > 0 ? "" : ":"));
    }
  } else if (name == "sync") {
    for (const SyncEntry& sync : sync_catalogue()) words.emplace_back(sync.name);
    for (const AsyncEntry& async : async_catalogue()) words.emplace_back(async.name);
    words.emplace_back("none");
  } else if (name == "device") {
    words = {"cpu", "cuda", "ref"};
  } else if (name == "lr-schedule") {
    words = {"fixed", "step", "multistep", "cosine"};
  } else {
    words = words_of(kind);
  }
  return words;
}

FlagValue value_of(const CLI::Option& option, const std::string& name) {
  FlagValue v;
  v.wanted = option.get_expected_min() > 0;
  if (!v.wanted) return v;
  const std::string kind = option.get_type_name();
  for (const char* word : {"DIR", "FILE", "PATH", "RUN"})
    v.path = v.path || kind.rfind(word, 0) == 0;
  if (!v.path) v.words = known_words(name, kind);
  return v;
}

/// Of several arguments, what any of them may be.
void add_argument(FlagValue& all, const FlagValue& one) {
  all.wanted = all.wanted || one.wanted;
  all.path = all.path || one.path;
  all.words.insert(all.words.end(), one.words.begin(), one.words.end());
}

/// A command's own command, as `fetch` of `data`: its name is an argument, and so is what follows.
void add_part(Command& command, const Command& part) {
  command.argument.wanted = true;
  command.argument.words.push_back(part.name);
  const Words& words = part.argument.words;
  command.argument.words.insert(command.argument.words.end(), words.begin(), words.end());
  for (const Choice& option : part.options) {
    const auto same = [&](const Choice& other) { return other.flag == option.flag; };
    if (std::ranges::none_of(command.options, same)) command.options.push_back(option);
  }
}

Command command_of(const CLI::App& app) {
  Command command{app.get_name(), app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) {
      add_argument(command.argument, value_of(*option, option->get_name()));
    }
    for (const std::string& name : option->get_lnames()) {
      command.options.push_back({"--" + name, option->get_description(), value_of(*option, name),
                                 option->get_group().empty() || name.starts_with("no-")});
    }
  }
  for (const CLI::App* part : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_part(command, command_of(*part));
  }
  return command;
}

std::vector<Command> commands_of(const CLI::App& root) {
  std::vector<Command> commands;
  for (const CLI::App* app : root.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(command_of(*app));
  }
  return commands;
}

/// `text` with a backslash before each of `special`.
std::string escaped(std::string_view text, std::string_view special) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != special.npos) out += '\\';
    out += c;
  }
  return out;
}

/// Within a shell's single quotes.
std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + '\'';
}

std::string joined(const Words& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

Words flags_of(const Command& command) {
  Words flags;
  for (const Choice& option : command.options) flags.push_back(option.flag);
  return flags;
}

/// An option means the same in every command.
std::map<std::string, FlagValue> values_of(const std::vector<Command>& commands) {
  std::map<std::string, FlagValue> values;
  for (const Command& command : commands) {
    for (const Choice& option : command.options) {
      if (option.value.wanted) values.emplace(option.flag, option.value);
    }
  }
  return values;
}

std::string bash_reply(const FlagValue& value) {
  if (value.path) return "_crossbow_files";
  return fmt::format("_crossbow_words {}", in_quotes(joined(value.words)));
}

std::string bash_script(const std::vector<Command>& commands) {
  Words names;
  for (const Command& command : commands) names.push_back(command.name);
  std::string script = R"(# bash completion for crossbow
_crossbow_words() { mapfile -t COMPREPLY < <(compgen -W "$1" -- "$cur"); }
_crossbow_files() {
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
  compopt -o filenames 2>/dev/null
}
_crossbow() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
  # The shell has cut words at = and :, as in --model=NAME and --data imagefolder:DIR.
  if [[ $cur == [=:] ]]; then
    [[ $cur == : ]] && prev=:
    cur=
  elif [[ $prev == = ]]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
)";
  script += fmt::format("  if (( COMP_CWORD == 1 )); then _crossbow_words {}; return; fi\n",
                        in_quotes(joined(names) + " --help --version"));
  script += "  case $prev in\n    :) _crossbow_files; return ;;\n";
  for (const auto& [flag, value] : values_of(commands)) {
    script += fmt::format("    {}) {}; return ;;\n", flag, bash_reply(value));
  }
  script += "  esac\n  case ${COMP_WORDS[1]}$cur in\n";
  for (const Command& command : commands) {
    script += fmt::format("    {}-*) _crossbow_words {} ;;\n", command.name,
                          in_quotes(joined(flags_of(command))));
    script += fmt::format("    {}*) {} ;;\n", command.name,
                          command.argument.wanted
                              ? bash_reply(command.argument)
                              : "_crossbow_words " + in_quotes(joined(flags_of(command))));
  }
  return script + "  esac\n}\ncomplete -F _crossbow crossbow\n";
}

std::string zsh_action(const FlagValue& value) {
  if (value.path) return ":path:_files";
  if (value.words.empty()) return ":value: ";
  return fmt::format(":value:({})", escaped(joined(value.words), ":"));
}

std::string zsh_script(const std::vector<Command>& commands) {
  std::string script = "#compdef crossbow\n_crossbow() {\n  local -a commands=(\n";
  for (const Command& c : commands) {
    script += fmt::format("    {}\n", in_quotes(c.name + ':' + escaped(c.help, ":")));
  }
  script +=
      "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n    return\n  fi\n"
      "  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $command in\n";
  for (const Command& c : commands) {
    script += fmt::format("    {})\n      _arguments", c.name);
    for (const Choice& option : c.options) {
      std::string spec = option.flag;
      if (!option.hidden) spec += '[' + escaped(option.help, "[]\\") + ']';
      if (option.value.wanted) spec += zsh_action(option.value);
      script += " \\\n        " + in_quotes(spec);
    }
    if (c.argument.wanted) script += " \\\n        " + in_quotes('*' + zsh_action(c.argument));
    script += " ;;\n";
  }
  return script +
         "  esac\n}\n"
         "if [[ $funcstack[1] == _crossbow ]]; then _crossbow \"$@\"; else compdef _crossbow "
         "crossbow; fi\n";
}

/// In fish both a backslash and a quote are written with a backslash.
std::string fish_quoted(std::string_view text) {
  return '\'' + escaped(text, "\\'") + '\'';
}

std::string fish_value(const FlagValue& value) {
  if (!value.wanted) return "";
  if (value.path) return " -r -F";
  return fmt::format(" -x -a {}", fish_quoted(joined(value.words)));
}

std::string fish_script(const std::vector<Command>& commands) {
  std::string script = "# fish completion for crossbow\ncomplete -c crossbow -f\n";
  for (const Command& c : commands) {
    script += fmt::format("complete -c crossbow -n __fish_use_subcommand -a {} -d {}\n", c.name,
                          fish_quoted(c.help));
    const std::string in = fmt::format("complete -c crossbow -n {}",
                                       fish_quoted("__fish_seen_subcommand_from " + c.name));
    for (const Choice& option : c.options) {
      script += fmt::format("{} -l {}{} -d {}\n", in, option.flag.substr(2),
                            fish_value(option.value), fish_quoted(option.help));
    }
    if (c.argument.path) script += in + " -F\n";
    if (!c.argument.words.empty()) {
      script += fmt::format("{} -a {}\n", in, fish_quoted(joined(c.argument.words)));
    }
  }
  return script;
}

struct CompletionFlags {
  std::string shell;
  bool json = false;
};

int run(const CompletionFlags& flags, const CLI::App& root) {
  const std::vector<Command> commands = commands_of(root);
  std::string script;
  if (flags.shell == "bash") {
    script = bash_script(commands);
  } else if (flags.shell == "zsh") {
    script = zsh_script(commands);
  } else if (flags.shell == "fish") {
    script = fish_script(commands);
  } else {
    fail_usage("there is no completion for '{}': choose bash, zsh or fish", flags.shell);
  }
  if (flags.json) {
    print_json({{"shell", flags.shell}, {"script", script}});
  } else {
    put("{}", script);
  }
  return 0;
}

}  // namespace

Run add_completion(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("completion", "print a script that completes commands");
  const auto flags = std::make_shared<CompletionFlags>();
  app.add_option("shell", flags->shell, "the shell")->required()->type_name("bash|zsh|fish");
  app.add_flag("--json", flags->json, "put one JSON object on standard output");
  app.footer(kCompletionExamples);
  return [flags, &root] { return run(*flags, root); };
}

}  // namespace crossbow::cli
