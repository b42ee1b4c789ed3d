// How learners agree that do not wait for each other, called nodes: each takes steps on its own
// weights at its own pace. Before and after a step an asynchronous algorithm may look at what its
// node shares with others. One file an algorithm.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "sync/sync.h"

namespace crossbow {

/// A linear combination of the vectors that an operation works on: the node's weights w, the
/// algorithm's own buffer, and what the other side has.
struct Terms {
  double weights = 0, own = 0, other = 0;
};

/// What these vectors become, each from what all were before, element by element.
struct Mix {
  Terms weights = {.weights = 1}, own = {.own = 1}, other = {.other = 1};
};

/// A node's end of what nodes share, for the hooks of an algorithm. Each operation works on whole
/// vectors. Hooks of all nodes take place one after the other: what they ask for is done later, but
/// as if it were done at once.
///
/// A node's weights w have a mass m, at first 1 (0 if nodes merge): together they stand for the
/// vector m·w, of which a node may send a part to others (push-sum, Kempe, Dobra & Gehrke 2003).
class Peers {
 public:
  virtual ~Peers() = default;

  virtual int node() const = 0;
  virtual int nodes() const = 0;
  /// That the node has taken since the run began.
  virtual int64_t steps() const = 0;
  /// In [0, 1), another one at each call, of which the run's seed and the node's steps decide.
  virtual double draw() = 0;
  /// One of the other nodes, all equally likely; there must be one.
  int draw_peer();

  virtual double mass() const = 0;
  virtual void set_mass(double mass) = 0;

  /// With the server's model z.
  virtual void mix_server(const Mix& mix) = 0;
  /// With the weights of a peer, whose step may be under way, and what waits for it to be taken:
  /// Terms::other is their sum.
  virtual void mix_peer(int peer, const Mix& mix) = 0;
  /// Sends a peer a vector and a mass; Terms::other is as of mix_peer.
  virtual void post(int peer, const Terms& vector, double mass) = 0;

  /// What others have sent since this was last taken.
  struct Inbox {
    int64_t messages = 0;
    double mass = 0;  // of all
  };
  virtual Inbox inbox() const = 0;
  /// With the sum of the messages' vectors; afterwards there is none.
  virtual void take_inbox(const Mix& mix) = 0;
};

/// Updates of a worker in this epoch or round, beside those of others.
struct UpdateCounts {
  double own = 0, least_of_others = 0, most_of_others = 0;
  double mean_of_others = 0;
};

/// Immutable, so thread-safe; what changes lies behind `Peers`.
class AsyncAlgorithm {
 public:
  struct Traits {
    /// Nodes have no weights of their own: they read and change one set while others do, too.
    bool live = false;
    /// There is a server with a model of its own, which is what is evaluated; else the mean of the
    /// nodes by mass, or the one set of weights.
    bool server = false;
    /// Peers change a node's weights, also while its step is under way.
    bool pairs = false;
    bool own_buffer = false;  // shaped as the weights, and equal to them at first
    bool inbox = false;
    bool reads_inboxes = false;  // goes by what waits at a peer, so nodes must share memory
    /// Nodes belong to workers of unlike speed, whose steps differ in size (learner/coordinator.h).
    bool unlike = false;
    /// Of unlike workers, those with a replica put it in the place of the one set of weights,
    /// whatever others have changed there since they took it; else they add what a step changes.
    bool overwrites = false;
    /// Unlike workers' nodes have weights of their own, and masses from 0 on. When a round ends all
    /// wait for each other, go to their mean by mass, equal if none has any, and have none again.
    bool merges = false;
  };

  /// That a hook may ask for.
  static constexpr size_t kMostOperations = 4;

  virtual ~AsyncAlgorithm() = default;
  virtual Traits traits() const = 0;
  virtual void before_step(Peers&) const {}
  virtual void after_step(Peers&) const {}
  /// What the rate of a step is multiplied by, of a node with that mass.
  virtual double rate_factor(double /*mass*/) const { return 1; }
  /// Of unlike workers: by what neighbouring sizes of their steps differ, and the size that a
  /// worker's steps have from now on.
  virtual int64_t step_factor() const { return 2; }
  virtual int64_t next_size(int64_t size, const UpdateCounts&) const { return size; }
  /// Of those that merge: a round has as many rows as so many of the largest steps of every node,
  /// or what an epoch has left. The size of a worker's steps is looked at when it ends.
  virtual int64_t round_steps() const { return 1; }
};

/// Beside SyncOptions.
struct AsyncOptions {
  SyncOptions sync;                          // its learners are the nodes
  std::optional<double> gossip_probability;  // that a step is followed by gossip
  std::string_view merge = {};  // of unlike workers: difference or overwrite; empty: their own
};

struct AsyncUses {
  bool period = false, alpha = false, gossip_probability = false;
  bool workers = false;  // of unlike speed
  bool merge = false;    // a way to merge what replicas have changed
};

struct AsyncEntry {
  std::string_view name, summary;
  AsyncUses uses;
  /// With no option open that `settle` settles.
  std::unique_ptr<const AsyncAlgorithm> (*make)(const AsyncOptions& options);
  void (*settle)(AsyncOptions& options) = nullptr;  // as of SyncEntry
  SolverNeeds needs = {};
};
/// In alphabetical order.
std::vector<AsyncEntry> async_catalogue();
/// Null if there is no such asynchronous algorithm.
const AsyncEntry* find_async(std::string_view name);
/// With the asynchronous algorithm's own values of what is left open.
AsyncOptions settled_options(std::string_view name, AsyncOptions options);
/// By what sizes of unlike workers' steps differ, unless alpha says it.
inline constexpr double kStepFactor = 2;
/// That alpha as a whole number. Throws UsageError if it is none from 2 to 64.
int64_t whole_step_factor(double alpha);
/// Throws UsageError as make_sync does.
std::unique_ptr<const AsyncAlgorithm> make_async(std::string_view name,
                                                 const AsyncOptions& options);

/// `const RegisterAsync k{{"hogwild", "…", {}, make}};`
struct RegisterAsync {
  explicit RegisterAsync(const AsyncEntry& entry);
};

}  // namespace crossbow
