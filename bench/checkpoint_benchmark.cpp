// Saving a run's state beside writing as many bytes and syncing them, in turns.
//
// usage: checkpoint_benchmark FOLDER [MODEL [LEARNERS [ROUNDS]]]
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "core/file.h"
#include "core/rng.h"
#include "core/seconds_since.h"
#include "device/sgd.h"
#include "models/model.h"
#include "plan/compiled_model.h"
#include "train/checkpoint.h"
#include "train/recipe.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return seconds_since(start);
}

/// In MiB: now ("VmRSS:") or at most since reset_peak ("VmHWM:").
double resident(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    double kib = 0;
    if (word == key && status >> kib) return kib / 1024;
  }
  fail("the system tells no {}", key);
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

/// As training lays parameters out.
std::shared_ptr<const ParameterLayout> layout_of(const Model& model) {
  constexpr int64_t kBatch = 16;
  CompileOptions options;
  options.update = make_sgd();
  CompiledModel compiled(build_model(model.name, model.default_spec(kBatch)), options);
  compiled.training(kBatch);
  return compiled.parameters();
}

/// Of a model whose learners have weights, momentum and running statistics of their own.
class State {
 public:
  State(const Model& model, int learners) : layout_(layout_of(model)), model_(*layout_, false) {
    checkpoint_.options = with_recipe({}, model.recipe);
    checkpoint_.image = model.default_image;
    checkpoint_.classes = model.default_classes;
    checkpoint_.samples = 1'000'000;
    initialise(*layout_, model_, 1);
    for (int j = 0; j < learners; ++j) {
      Replica& replica = learners_.emplace_back(*layout_, false, 1);
      initialise(*layout_, replica, static_cast<uint64_t>(j) + 2);
      add(EngineBuffer::Kind::weights, j, replica.parameters);
      add(EngineBuffer::Kind::slot, j, replica.slots[0], "momentum");
      add(EngineBuffer::Kind::states, j, replica.states);
    }
    store(*layout_, model_, checkpoint_);
    store(*layout_, buffers_, checkpoint_);
  }

  const Checkpoint& checkpoint() const { return checkpoint_; }

 private:
  void add(EngineBuffer::Kind kind, int64_t index, Buffer& buffer, std::string slot = {}) {
    buffers_.push_back({kind, index, buffer.data(), model_.device, std::move(slot)});
  }

  const std::shared_ptr<const ParameterLayout> layout_;
  Replica model_;
  std::deque<Replica> learners_;
  std::vector<EngineBuffer> buffers_;
  Checkpoint checkpoint_;
};

void write_and_sync(const fs::path& path, int64_t size) {
  const std::vector<uint8_t> piece(1 << 20, 1);
  const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  for (int64_t left = size; left > 0;) {
    const ssize_t n =
        ::write(file.get(), piece.data(), std::min(piece.size(), static_cast<size_t>(left)));
    if (n <= 0) fail("cannot write {}", path.string());
    left -= n;
  }
  if (::fsync(file.get()) != 0) fail("cannot sync {}", path.string());
}

struct Cost {
  double seconds, cpu_seconds, mib;  // the last beside the memory that is taken already
};

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

Cost cost_of(const std::function<void()>& f) {
  const double memory = resident("VmRSS:"), cpu = cpu_seconds();
  reset_peak();
  const double seconds = seconds_of(f);
  return {seconds, cpu_seconds() - cpu, resident("VmHWM:") - memory};
}

void run(const fs::path& folder, const std::string& model, int learners, int rounds) {
  const State state(find_model(model), learners);
  const auto save = [&] { save_checkpoint(folder, state.checkpoint()); };
  const Cost first = cost_of(save);
  const auto size = static_cast<int64_t>(fs::file_size(folder / "checkpoint"));
  fmt::print("{}, {} learners: {:.1f} MiB; the first save takes {:.1f} MiB of memory\n", model,
             learners, static_cast<double>(size) / (1 << 20), first.mib);
  for (int round = 0; round < rounds; ++round) {
    std::this_thread::sleep_for(std::chrono::seconds(1));  // a save frees the oldest meanwhile
    const Cost plain = cost_of([&] { write_and_sync(folder / "bytes", size); });
    fs::remove(folder / "bytes");
    const Cost saved = cost_of(save);
    fmt::print("write and sync {:.2f} s (CPUs {:.2f} s), save {:.2f} s ({:.2f} s): {:.2f} times\n",
               plain.seconds, plain.cpu_seconds, saved.seconds, saved.cpu_seconds,
               saved.seconds / plain.seconds);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace crossbow

int main(int argc, char** argv) {
  const auto argument = [&](int i, const char* otherwise) {
    return i < argc ? argv[i] : otherwise;
  };
  try {
    crossbow::run(argument(1, "."), argument(2, "vgg-16-imagenet"), std::atoi(argument(3, "2")),
                  std::atoi(argument(4, "5")));
  } catch (const crossbow::Error& e) {
    fmt::print(stderr, "checkpoint_benchmark: {}\n", e.what());
    return 1;
  }
}
