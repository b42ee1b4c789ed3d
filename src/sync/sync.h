// How learners agree. Each learner j trains its own replica w_j; a synchronous algorithm keeps a
// central model z, which is what is evaluated and saved. From time to time there is an *exchange*:
// the learners' weights (or gradients) are averaged, and the algorithm makes of the average a new z
// and, if it wants, new weights. One file an algorithm; adding one:
// docs/adding-a-sync-algorithm.md.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/vector_math.h"

namespace crossbow {

/// What a run says of its algorithm. Unset: the algorithm's own default. What an algorithm
/// has no use for is refused.
struct SyncOptions {
  int64_t learners = 1;                    // in all
  std::optional<int64_t> period;           // steps from one exchange to the next (τ)
  std::optional<double> alpha;             // how far an exchange moves weights, see the algorithm
  std::optional<double> central_momentum;  // of z
  std::optional<double> averaging_eta;     // of a mean over time: what its last terms count for
  double momentum = 0;                     // the learners'
  bool nesterov = false;
};

/// One exchange over a range of n elements: every pointer is to the first of them. All buffers are
/// laid out alike.
struct Exchange {
  const VectorMath& math;
  int64_t n;
  int64_t index;                 // from 0, had there always been as many learners
  double lr;                     // of the iteration that it belongs to
  const double* gradient_scale;  // UpdateSpans'
  bool decay;                    // UpdateSpans'
  const void* mean;        // of all learners' weights; or of their gradients, weighted by rows
  const void* z;           // the central model
  const void* previous_z;  // beside the step: the z before, at index 0 as z; else z
  void* next_z;            // where the new one goes, which may be where either of these lies
  std::span<void* const> weights;  // of the learners, after the step
  std::span<void* const> state;    // the algorithm's own buffers, zero before the first exchange
  const Optimizer* optimizer;      // for algorithms that average gradients,
  SlotAddresses slots;             // as are its slots for the shared weights
};

/// Immutable, so thread-safe; what changes is in the buffers that an Exchange names.
class SyncAlgorithm {
 public:
  /// What the exchange of iteration i takes, and who waits for it.
  enum class Timing {
    after_step,     // what the step has made; the next step waits
    beside_step,    // the weights before the step, whose pull towards z needs only the z before
    beside_passes,  // the weights before the step, whose update waits, and pulls towards the mean
  };
  struct Traits {
    /// What is averaged: gradients, which the exchange applies to the one set of weights, with the
    /// optimizer's one set of slots, that all learners share; else each learner's own weights.
    bool averages_gradients = false;
    Timing timing = Timing::after_step;
    /// Where a step or multistep schedule drops the rate to half or less all start again from z.
    bool restarts = false;
    /// z follows from so far behind that the learners' batch-norm statistics are not its own.
    bool lags = false;
    int state_buffers = 0;
  };

  static constexpr int64_t kLongEpoch = std::numeric_limits<int64_t>::max();

  virtual ~SyncAlgorithm() = default;
  virtual Traits traits() const = 0;
  /// τ: exchanges happen at iterations τ−1, 2τ−1, …; before and after the schedule's first drop,
  /// where an epoch is so many of a learner's steps. In a longer one it is not smaller.
  virtual int64_t period(bool after_first_drop, int64_t epoch_steps) const = 0;
  /// Whether some iterations may have no exchange.
  bool may_stay() const { return period(false, kLongEpoch) > 1 || period(true, kLongEpoch) > 1; }
  /// How strongly a step at an exchange pulls its weights (UpdateStep::pull), where it has one
  /// beside it.
  virtual double pull() const { return 0; }
  /// Writes `next_z`, and after the step may write `weights`. Every element on its own.
  virtual void apply(const Exchange& exchange) const = 0;
};

/// Makes the algorithm. Throws UsageError for a name that is not in the catalogue, and for options
/// that it has no use for or that would make it diverge.
std::unique_ptr<const SyncAlgorithm> make_sync(std::string_view name, const SyncOptions& options);

/// What an algorithm needs of the learners' solver: a run's default where the user leaves it open,
/// so that the algorithm's name alone is enough.
struct SolverNeeds {
  enum class Momentum { any, none, nesterov };
  Momentum momentum = Momentum::any;
  bool rate_drops = false;                   // it changes at the schedule's first drop
  std::string_view rate_scaling = "linear";  // of k learners' rate: none, linear, sqrt
};

/// Which of the options an algorithm has a use for; make_sync refuses the others.
struct SyncUses {
  bool period = false, alpha = false, central_momentum = false, averaging_eta = false;
};

/// Gives an option that is left open its value.
template <class T>
void settle(std::optional<T>& option, T value) {
  if (!option) option = value;
}

struct SyncEntry {
  std::string_view name, summary;  // one line, for people to read
  SyncUses uses;
  /// With no option open that `settle` settles.
  std::unique_ptr<const SyncAlgorithm> (*make)(const SyncOptions& options);
  /// The algorithm's own values of what is left open and does not follow from the epoch's length.
  void (*settle)(SyncOptions& options) = nullptr;
  SolverNeeds needs = {};
  /// The same of a learner alone; nothing where it has nobody to agree with, and is trained by
  /// plain SGD.
  std::optional<SyncUses> alone = {};
};
/// In alphabetical order.
std::vector<SyncEntry> sync_catalogue();
/// Of an asynchronous algorithm as well; nothing in particular for a name that there is not.
SolverNeeds sync_needs(std::string_view name);
std::optional<SyncUses> sync_alone(std::string_view name);
/// With the synchronous algorithm's own values of what is left open.
SyncOptions settled_options(std::string_view name, SyncOptions options);

/// `const RegisterSync k{{"sma", "synchronous model averaging", {.alpha = true}, make, settle}};`
struct RegisterSync {
  explicit RegisterSync(const SyncEntry& entry);
};

}  // namespace crossbow
