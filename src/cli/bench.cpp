// crossbow bench
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/command.h"
#include "cli/results.h"
#include "core/error.h"
#include "models/model.h"
#include "train/benchmark.h"
#include "train/notes.h"
#include "train/recipe.h"

namespace crossbow::cli {
namespace {

constexpr const char* kBenchExamples = R"(Examples:
  crossbow bench --model resnet-32 --batch 16
  crossbow bench --model lenet --batch 1 --threads-per-learner 1
  crossbow bench --model resnet-32 --precision bf16 --json
)";

struct BenchFlags {
  OptionFlags options;
  double seconds = 5;
  bool json = false;
};

double gflops_per_second(const BenchmarkResult::OpTime& op) {
  return op.ms > 0 ? op.flops / op.ms / 1e6 : 0;
}

Json to_json(const RunConfig& c, const BenchmarkResult& r) {
  Json ops = Json::array();
  for (const auto& op : r.ops) {
    ops.push_back({{"name", op.name},
                   {"kind", op.kind},
                   {"ms", op.ms},
                   {"percent", 100 * op.fraction},
                   {"gflops_per_second", gflops_per_second(op)}});
  }
  Json j;
  j["model"] = c.model;
  j["device"] = c.options.device;
  j["devices"] = c.device.count;
  j["batch"] = c.batch;
  j["sync"] = c.options.sync;
  j["learners"] = r.arrangement.learners;
  j["threads_per_learner"] = r.arrangement.threads;
  j["precision"] = precision_name(c.options);
  j["images_per_second"] = r.images_per_second;
  j["step_ms"] = r.step_ms;
  j["flops_per_image"] = r.flops_per_image;
  j["gflops_per_second"] = r.flops_per_image * r.images_per_second / 1e9;
  j["arena_mb"] = mebibytes(static_cast<double>(r.arena_bytes));
  j["arena_mb_without_reuse"] = mebibytes(static_cast<double>(r.arena_bytes_without_reuse));
  j["parameters"] = r.parameters;
  j["ops"] = std::move(ops);
  return j;
}

/// One line a kind of op, the slowest first.
void print_kinds(const BenchmarkResult& r) {
  struct Kind {
    std::string name;
    int64_t calls = 0;
    double ms = 0, fraction = 0, flops = 0;
  };
  std::vector<Kind> kinds;
  for (const auto& op : r.ops) {
    auto it =
        std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.name == op.kind; });
    if (it == kinds.end()) it = kinds.insert(it, {op.kind});
    ++it->calls;
    it->ms += op.ms;
    it->fraction += op.fraction;
    it->flops += op.flops;
  }
  std::sort(kinds.begin(), kinds.end(), [](const Kind& a, const Kind& b) { return a.ms > b.ms; });
  put("\n{:<28} {:>6} {:>9} {:>7} {:>9}\n", "kind of op", "calls", "ms", "%", "GFLOP/s");
  for (const Kind& k : kinds) {
    put("{:<28} {:>6} {:>9.3f} {:>7.1f} {:>9.1f}\n", k.name, k.calls, k.ms, 100 * k.fraction,
        k.flops / std::max(k.ms, 1e-9) / 1e6);
  }
}

void print_slowest_ops(const BenchmarkResult& r) {
  constexpr size_t kShown = 15;
  auto ops = r.ops;
  std::sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.ms > b.ms; });
  if (ops.size() > kShown) ops.resize(kShown);
  constexpr size_t kName = 32;
  put("\n");
  put_row(stdout, "slowest ops", kName,
          fmt::format(" {:>7} {:>5} {:>7}  {}", "ms", "%", "GFLOP/s", "implementation"));
  for (const auto& op : ops) {
    const std::string name =
        op.name.ends_with(op.kind) ? op.name : fmt::format("{} ({})", op.name, op.kind);
    put_row(stdout, name, kName,
            fmt::format(" {:>7.3f} {:>5.1f} {:>7.1f}  {}", op.ms, 100 * op.fraction,
                        gflops_per_second(op), op.implementation));
  }
}

void print_bound(std::FILE* to, const BenchmarkResult& r) {
  const Roofline& b = r.bound;
  put_wrapped(
      to, "  bound    ",
      fmt::format("{:.0f} % reached of {:.3f} ms a step: products alone {:.3f}, bytes of other "
                  "loops {:.3f} (at {:.1f} GB/s), bytes of the update {:.3f}",
                  100 * r.reached(), b.seconds() * 1e3, b.library * 1e3, b.element_wise * 1e3,
                  b.bandwidth / 1e9, b.update * 1e3));
}

void print_text(const RunConfig& c, const BenchmarkResult& r) {
  const int devices = c.device.count;
  put_wrapped(
      stdout, "",
      fmt::format("{}, batch {}, {}, {} on {}", c.model, c.batch, precision_name(c.options),
                  text_of(r.arrangement),
                  devices == 1 ? c.options.device : fmt::format("each of {} devices", devices)));
  put_wrapped(stdout, "  speed    ",
              fmt::format("{} images/s ({} to {} over five windows), {:.3f} ms a step",
                          grouped(std::llround(r.images_per_second)),
                          grouped(std::llround(r.slowest_window)),
                          grouped(std::llround(r.fastest_window)), r.step_ms));
  if (r.sync_work > 0) {
    put_wrapped(stdout, "  sync     ",
                fmt::format("{}: {:.2f} % of the time computing exchanges, {:.2f} % waiting for "
                            "them",
                            c.options.sync, 100 * r.sync_work, 100 * r.sync_wait));
  }
  put("  work     {:.1f} MFLOP an image, {:.1f} GFLOP/s\n", r.flops_per_image / 1e6,
      r.flops_per_image * r.images_per_second / 1e9);
  put_wrapped(stdout, "  memory   ",
              fmt::format("{:.2f} MiB of activations ({:.2f} without reuse), {} parameters",
                          mebibytes(static_cast<double>(r.arena_bytes)),
                          mebibytes(static_cast<double>(r.arena_bytes_without_reuse)),
                          grouped(r.parameters)));
  print_bound(stdout, r);
  print_kinds(r);
  print_slowest_ops(r);
}

int run(const BenchFlags& flags) {
  TrainOptions options = flags.options.apply();
  options.replay.reset();  // these are of a run's configuration
  options.lease.reset();
  const RunConfig config = resolve(options, find_model(options.model).recipe);
  if (config.splits > 1) {
    fail_usage(
        "--splits {}: bench measures whole batches; say --splits 1, and the size of a part as "
        "--batch",
        config.splits);
  }
  if (!(flags.seconds > 0) || flags.seconds > 3600) {
    fail_usage("--seconds {}: it must be above 0 and at most 3600", flags.seconds);
  }
  if (const auto note = precision_note(config)) cli::note(*note);
  // The shapes come from the data set only if one is named; the recipe's is not wanted here.
  const BenchmarkResult result = benchmark(config, spec_of(options, config), flags.seconds);
  if (flags.json) {
    print_json(to_json(config, result));
    print_bound(stderr, result);
  } else {
    print_text(config, result);
  }
  return 0;
}

}  // namespace

Run add_bench(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("bench", "measure training speed on data in memory");
  const auto flags = std::make_shared<BenchFlags>();
  flags->options.add(app, {"model",
                           "data",
                           "image-size",
                           "device",
                           "batch",
                           "splits",
                           "learners",
                           "threads-per-learner",
                           "sync",
                           "sync-period",
                           "alpha",
                           "central-momentum",
                           "gossip-probability",
                           "staleness",
                           "precision",
                           "loss",
                           "seed",
                           "deterministic",
                           "momentum",
                           "nesterov",
                           "weight-decay",
                           "weight-decay-on",
                           "clip-norm",
                           "freeze"});
  flags->options.add_config(app);
  app.add_option("--seconds", flags->seconds, "how long to measure [5]")->type_name("S");
  app.add_flag("--json", flags->json, "put one JSON object on standard output");
  app.footer(sync_names() + kBenchExamples);
  return [flags] { return run(*flags); };
}

}  // namespace crossbow::cli
