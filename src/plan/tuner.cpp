#include "plan/tuner.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/file.h"
#include "core/json.h"

namespace crossbow {
namespace {

/// The processor's name, as a part of a file name: choices hold for one kind of processor.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, name = "unknown";
  while (std::getline(info, line)) {
    if (line.rfind("model name", 0) == 0)
      name = line.substr(std::min(line.size(), line.find(':') + 2));
    if (line.rfind("flags", 0) == 0) break;
  }
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  }
  return name;
}

Choices choices_from(const nlohmann::json& json) {
  if (!json.is_object()) fail("it is not an object");
  Choices choices;
  for (const auto& [key, choice] : json.items()) {
    if (!choice.is_string()) fail("one of its choices is not a name");
    choices[key] = choice.get<std::string>();
  }
  return choices;
}

/// A file that cannot be used is like none.
Choices read_cache(const std::filesystem::path& file) {
  try {
    return read_choices(file);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

Choices read_choices(const std::filesystem::path& file) {
  constexpr size_t kLargestFile = 16 << 20;
  if (type_of(file) == std::filesystem::file_type::not_found) return {};
  const std::string text = read_text_file(file, kLargestFile);
  try {
    return choices_from(parse_json(text));
  } catch (const Error& e) {
    fail("cannot use {}: {}; remove the file, and what it held is measured again", file.string(),
         e.what());
  }
}

void write_choices(const std::filesystem::path& file, const Choices& choices) {
  write_file_atomically(file, nlohmann::json(choices).dump(1) + "\n");
}

std::filesystem::path Tuner::default_file() {
  const std::filesystem::path folder = cache_folder();
  return folder.empty() ? folder : folder / fmt::format("choices-{}.json", processor());
}

Tuner::Tuner(std::filesystem::path file, GiveUp give_up)
    : file_(std::move(file)), give_up_(std::move(give_up)), known_(read_cache(file_)) {}

Tuner::~Tuner() {
  save();
}

bool Tuner::save() {
  const std::scoped_lock lock(mutex_);
  if (found_.empty()) return true;
  if (file_.empty()) return false;
  try {
    make_folder(file_.parent_path());
    Choices all = found_;
    all.merge(read_cache(file_));  // other processes may have written meanwhile
    write_choices(file_, all);
  } catch (const std::exception&) {
    return false;
  }
  found_.clear();
  return true;
}

size_t Tuner::choose(const std::string& key, std::span<const std::string> candidates,
                     const std::function<double(size_t)>& measure) {
  const std::scoped_lock lock(mutex_);
  for (const Choices* choices : {&preset_, &known_}) {
    const auto known = choices->find(key);
    if (known == choices->end()) continue;
    const auto it = std::find(candidates.begin(), candidates.end(), known->second);
    if (it == candidates.end()) continue;
    used_[key] = *it;
    return it - candidates.begin();
  }
  // Two rounds in turn, so that a disturbance of one does not decide; but a second of what is far
  // behind would take most of the time.
  constexpr double kFar = 3, kNone = 1e9;
  std::vector<double> seconds(candidates.size(), kNone);
  bool all_fit = true;
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      const double least = *std::ranges::min_element(seconds);
      // The first one may have found the device asleep.
      if (i > 0 && seconds[i] < kNone && seconds[i] > kFar * least) continue;
      if (give_up_(timed_)) return 0;
      const double measured = measure(i);
      all_fit = all_fit && std::isfinite(measured);
      seconds[i] = std::min(seconds[i], measured);
      ++timed_;
    }
  }
  const size_t best = std::min_element(seconds.begin(), seconds.end()) - seconds.begin();
  used_[key] = candidates[best];
  if (all_fit) known_[key] = found_[key] = candidates[best];  // else memory may be there next time
  return best;
}

std::optional<std::string> Tuner::recall(const std::string& key) {
  const std::scoped_lock lock(mutex_);
  const auto known = known_.find(key);
  if (known == known_.end()) return {};
  used_[key] = known->second;
  return known->second;
}

void Tuner::remember(const std::string& key, const std::string& choice) {
  const std::scoped_lock lock(mutex_);
  known_[key] = found_[key] = used_[key] = choice;
}

Choices Tuner::choices() const {
  const std::scoped_lock lock(mutex_);
  return used_;
}

void Tuner::preset(const Choices& choices) {
  const std::scoped_lock lock(mutex_);
  for (const auto& [key, choice] : choices) preset_[key] = used_[key] = choice;
}

}  // namespace crossbow
