#include "cli/train_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "cli/output.h"
#include "core/machine.h"
#include "core/text.h"
#include "train/record_json.h"
#include "train/run_config.h"

namespace crossbow::cli {
namespace {

std::string best_checkpoint(const TrainResult& r) {
  return (std::filesystem::path(*r.options.out) / "checkpoint.best").string();
}

void print_test(std::FILE* out, const TrainResult& r) {
  if (!r.final_test_loss) return;
  const std::string epochs = count(static_cast<int64_t>(r.history.size()), "epoch");
  if (r.final_test_rmse) {
    put_wrapped(out, "  RMSE      ",
                fmt::format("{:.4f} after {}, best {:.4f}, test loss {:.4f}", *r.final_test_rmse,
                            epochs, *r.best_test_rmse, *r.final_test_loss));
  } else {
    put_wrapped(
        out, "  accuracy  ",
        fmt::format(
            "{}{} after {}, best {}, test loss {:.4f}{}{}", percent(*r.final_test_accuracy),
            top5_text(r.final_test_top5), epochs, percent(*r.best_test_accuracy),
            *r.final_test_loss, auc_text(r.final_test_auc),
            r.label == LabelKind::class_set ? " (of the likeliest class: precision@1)" : ""));
  }
  if (r.best_epoch_kept) {
    put_wrapped(
        out, "  best      ",
        fmt::format("epoch {}, kept as {}", *r.best_epoch_kept, printable(best_checkpoint(r))));
  }
  if (r.stopped_early) {
    put_wrapped(out, "  stopped   ",
                fmt::format("after {} without a better test {} (--patience)",
                            count(evaluations_since_best(r.history), "evaluation"),
                            r.final_test_rmse ? "loss" : "accuracy"));
  }
  const TrainOptions& o = r.options;
  if (!o.target_accuracy && !o.target_loss) return;
  const std::string target =
      o.target_accuracy
          ? percent(*o.target_accuracy)
          : fmt::format("a {} loss of {}", o.target_on.value_or("test"), *o.target_loss);
  if (r.epochs_to_target) {
    put_wrapped(out, "  target    ",
                fmt::format("{} reached after {} and {:.1f} s of training", target,
                            count(*r.epochs_to_target, "epoch"), *r.seconds_to_target));
  } else {
    put_wrapped(out, "  target    ", fmt::format("{} not reached", target));
  }
}

void print_memory(std::FILE* out, const TrainResult& r) {
  put_wrapped(out, "  memory    ",
              fmt::format("{:.0f} MiB at most; {} took {:.0f} of it", peak_memory_mb(),
                          count(r.memory.learners, "learner"), r.memory.total_mb()));
}

/// What several learners cost or save: of the last epoch, how many there were before, and what was
/// tried.
void print_goodput(std::FILE* out, const TrainResult& r) {
  if (r.history.empty()) return;
  const EpochRecord& last = r.history.back();
  if (r.memory.learners > 1 && last.goodput) {
    const std::string noise =
        last.noise_scale
            ? fmt::format("noise scale {} images", grouped(std::llround(*last.noise_scale)))
            : "noise beyond measure";
    put_wrapped(
        out, "  goodput   ",
        fmt::format("{} images/s of one learner's worth: {} of the images count ({})",
                    grouped(std::llround(*last.goodput)), percent(*last.efficiency), noise));
  }
  std::string numbers;
  int64_t before = 0;
  for (const EpochRecord& epoch : r.history) {
    if (epoch.learners == before) continue;
    numbers += before == 0 ? fmt::format("{}", epoch.learners)
                           : fmt::format(", {} from epoch {} on", epoch.learners, epoch.epoch);
    before = epoch.learners;
  }
  if (numbers.find(',') != std::string::npos) put_wrapped(out, "  learners  ", numbers);
  if (r.tried.size() < 2) return;
  std::vector<std::string> tried;
  for (const LearnerTrial& trial : r.tried) {
    tried.push_back(
        fmt::format("{}: {}", text_of(trial.arrangement), grouped(std::llround(trial.goodput))));
  }
  const LearnerTrial& first = r.tried.front();
  const double best = std::ranges::max(r.tried, {}, &LearnerTrial::goodput).goodput;
  const std::string gain =
      first.arrangement.learners == 1 && best > first.goodput
          ? fmt::format(", {:.2f} times those of one learner{}", best / first.goodput,
                        r.memory.devices > 1 ? " a device" : "")
          : "";
  put_wrapped(out, "  tried     ",
              fmt::format("{} images/s{}{}", fmt::join(tried, "; "),
                          r.options.tune_for == "goodput" ? " that count" : "", gain));
}

constexpr size_t kFirstNodes = 8;

void print_more(std::FILE* out, size_t others) {
  if (others == 0) return;
  put_wrapped(out, "            ", fmt::format("and {} more: --json lists all", others));
}

/// The first ones, and the number of others.
void print_lost_nodes(std::FILE* out, std::span<const LostNode> lost) {
  const size_t first = std::min(kFirstNodes, lost.size());
  for (const LostNode& node : lost.first(first)) {
    put_wrapped(out, "  lost      ",
                fmt::format("node {} after {:.4g} s on that clock", node.node, node.seconds));
  }
  print_more(out, lost.size() - first);
}

/// Of the first nodes and of those that failed, and the number of others.
void print_nodes(std::FILE* out, const TrainResult& r) {
  size_t others = 0;
  for (size_t j = 0; j < r.nodes.size(); ++j) {
    if (j >= kFirstNodes && !r.nodes[j].failed) {
      ++others;
      continue;
    }
    const NodeReport& n = r.nodes[j].report;
    put_wrapped(out, j == 0 ? "  nodes     " : "            ",
                fmt::format("{}: {}, {} images, {:.1f} s busy, {:.1f} s waiting, staleness {:.1f} "
                            "(at most {}){}",
                            j, count(n.updates, "update"), grouped(n.rows), n.busy, n.waiting,
                            n.mean_staleness(), n.largest_staleness,
                            r.nodes[j].failed ? "; it failed" : ""));
  }
  print_more(out, others);
  int64_t messages = 0;
  for (const NodeState& node : r.nodes) messages += node.numbers.sent;
  if (messages > 0) {
    put_wrapped(out, "  messages  ",
                fmt::format("{} of {} bytes", grouped(messages), grouped(4 * r.parameters)));
  }
  if (!r.nodes.empty() && !r.history.empty() && r.history.back().distance) {
    put_wrapped(out, "  spread    ",
                fmt::format("{:.4g}, the nodes' distance from what is evaluated",
                            *r.history.back().distance));
  }
}

void print_workers(std::FILE* out, const TrainResult& r) {
  int64_t updates = 0, rows = 0;
  for (const WorkerReport& w : r.workers) {
    updates += w.updates;
    rows += w.rows;
  }
  const auto share = [](int64_t part, int64_t all) {
    return fmt::format(
        "{:.1f} %", all > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(all) : 0.0);
  };
  for (size_t i = 0; i < r.workers.size(); ++i) {
    const WorkerReport& w = r.workers[i];
    put_wrapped(
        out, i == 0 ? "  workers   " : "            ",
        fmt::format("{}{}: {} ({}), {} rows ({}), batches of {} to {}, {:.1f} % busy{}{}", w.kind,
                    w.device == r.options.device ? "" : " on " + w.device,
                    count(w.updates, "update"), share(w.updates, updates), grouped(w.rows),
                    share(w.rows, rows), w.batch_min, w.batch_max, 100 * w.busy_fraction,
                    w.repeated_rows > 0
                        ? fmt::format(", {} rows perhaps twice", grouped(w.repeated_rows))
                        : "",
                    w.failed_nodes == 0 ? ""
                    : w.failed()        ? "; it failed"
                                 : fmt::format("; {} of its threads failed", w.failed_nodes)));
  }
}

}  // namespace

Json to_json(const TrainResult& r) {
  const TrainOptions& o = r.options;
  const EpochRecord last = r.history.empty() ? EpochRecord{} : r.history.back();
  Json j;
  j["model"] = o.model;
  j["data"] = *o.data;
  j["device"] = o.device;
  j["devices"] = r.memory.devices;
  j["sync"] = o.sync;
  j["batch"] = o.batch;
  j["learners"] = r.arrangement.learners;
  j["threads_per_learner"] = r.arrangement.threads;
  if (r.ranks) j["ranks"] = *r.ranks;
  for (const RankLoss& lost : r.lost_ranks) {
    j["lost_ranks"].push_back({{"rank", lost.rank},
                               {"host", lost.host},
                               {"epoch", lost.epoch},
                               {"seconds", lost.seconds},
                               {"pause_seconds", lost.pause},
                               {"repeated_samples", lost.repeated_samples}});
  }
  j["precision"] = precision_name(o);
  j["seed"] = o.seed;
  j["epochs"] = r.history.size();
  j["seconds"] = r.seconds;
  j["train_seconds"] = r.train_seconds;
  j["images_per_second"] = r.images_per_second;
  j["final_test_accuracy"] = crossbow::to_json(r.final_test_accuracy);
  j["best_test_accuracy"] = crossbow::to_json(r.best_test_accuracy);
  j["final_test_loss"] = crossbow::to_json(r.final_test_loss);
  if (r.final_test_top5) j["final_test_top5"] = *r.final_test_top5;
  if (r.final_test_auc) j["final_test_auc"] = *r.final_test_auc;
  if (r.label == LabelKind::class_set) {
    j["final_test_precision_at_1"] = crossbow::to_json(r.final_test_accuracy);
  }
  if (r.final_test_rmse) j["final_test_rmse"] = *r.final_test_rmse;
  if (r.best_test_rmse) j["best_test_rmse"] = *r.best_test_rmse;
  j["reached_target"] = r.epochs_to_target.has_value();
  j["epochs_to_target"] = r.epochs_to_target ? Json(*r.epochs_to_target) : Json(nullptr);
  j["seconds_to_target"] = crossbow::to_json(r.seconds_to_target);
  j["peak_rss_mb"] = peak_memory_mb();
  j["parameters"] = r.parameters;
  j["frozen"] = r.frozen;
  j["lr_factor"] = r.lr_factor;
  j["noise_scale"] = crossbow::to_json(last.noise_scale);
  j["efficiency"] = crossbow::to_json(last.efficiency);
  j["goodput"] = crossbow::to_json(last.goodput);
  for (const LearnerTrial& trial : r.tried) {
    j["tried"].push_back({{"learners", trial.arrangement.learners},
                          {"threads_per_learner", trial.arrangement.threads},
                          {"goodput", trial.goodput}});
  }
  if (r.virtual_seconds) j["virtual_seconds"] = *r.virtual_seconds;
  if (!r.workers.empty()) j["workers"] = crossbow::to_json(r.workers);
  if (!r.lost_nodes.empty()) j["lost_nodes"] = crossbow::to_json(r.lost_nodes);
  if (!r.nodes.empty()) j["nodes"] = crossbow::to_json(r.nodes);
  j["history"] = crossbow::to_json(r.history);
  j["out"] = *o.out;
  j["interrupted"] = r.interrupted;
  j["stopped_early"] = r.stopped_early;
  j["best_epoch_kept"] = r.best_epoch_kept ? Json(*r.best_epoch_kept) : Json(nullptr);
  j["best_checkpoint"] = r.best_epoch_kept ? Json(best_checkpoint(r)) : Json(nullptr);
  return j;
}

void print_summary(std::FILE* out, const TrainResult& r) {
  const TrainOptions& o = r.options;
  put(out, "\n{} on {}{}\n", printable(o.model), printable(*o.data),
      r.interrupted ? ", interrupted" : "");
  print_test(out, r);
  put_wrapped(out, "  speed     ",
              fmt::format("{} images/s over {:.1f} s of training, {:.1f} s in all",
                          grouped(std::llround(r.images_per_second)), r.train_seconds, r.seconds));
  if (r.virtual_seconds) {
    put_wrapped(out, "  virtual   ",
                fmt::format("{:.4g} s on the virtual clock, of learners on a processor each",
                            *r.virtual_seconds));
  }
  print_lost_nodes(out, r.lost_nodes);
  print_goodput(out, r);
  r.workers.empty() ? print_nodes(out, r) : print_workers(out, r);
  put_wrapped(out, "  waiting   ",
              fmt::format("{:.1f} % of the training, for data",
                          100 * r.waiting_seconds / std::max(r.train_seconds, 1e-9)));
  const std::string frozen =
      r.frozen == 0 ? "" : fmt::format(", and {} of them frozen", grouped(r.frozen));
  put_wrapped(out, "  model     ",
              fmt::format("{}{}", count(r.parameters + r.frozen, "parameter"), frozen));
  const int devices = r.memory.devices;
  put_wrapped(
      out, "  trained   ",
      fmt::format("by {}{}{}, batch {}, {}", text_of(r.arrangement),
                  devices == 1 ? "" : fmt::format(" on each of {} devices", devices),
                  r.ranks.value_or(1) > 1 ? fmt::format(" on each of {} ranks", *r.ranks) : "",
                  o.batch, precision_name(o)));
  for (const RankLoss& lost : r.lost_ranks) {
    put_wrapped(
        out, "  lost      ",
        fmt::format("rank {} on {} after {:.1f} s, in epoch {}; the others went on {:.2f} s "
                    "later, left no sample out, and trained again on {} of them",
                    lost.rank, lost.host, lost.seconds, lost.epoch, lost.pause,
                    grouped(lost.repeated_samples)));
  }
  print_memory(out, r);
  const std::string folder = printable(*o.out);
  put_wrapped(out, "  run       ", folder);
  if (!r.interrupted) put_wrapped(out, "  next      ", fmt::format("crossbow eval {}", folder));
}

}  // namespace crossbow::cli
