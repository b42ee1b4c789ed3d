// The memory of asynchronous nodes, and what their algorithm does with it.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "comm/mail.h"
#include "learner/engine_place.h"
#include "learner/gradient_clip.h"
#include "learner/ordered_vector.h"
#include "learner/pace.h"
#include "plan/program.h"
#include "sync/async.h"

namespace crossbow {

/// Nodes of other ranks, each of which has as many.
struct OtherNodes {
  Mail* mail;
  int rank, ranks;
};

struct NodesOptions {
  int nodes = 1;  // here
  uint64_t seed = 0;
  double clip_norm = 0;                      // 0: no limit
  bool by_programs = false;                  // the nodes' programs change the one set of weights
  std::optional<NetworkTerms> network = {};  // simulated: what nodes share comes in messages
  std::optional<OtherNodes> others = {};
};

/// Of one device, and of one rank. Between two steps of a node comes its turn: it ends the one
/// step, with the gradient that this has made, and begins the next. A turn is described first,
/// which takes no time and happens under a lock; then the thread that described it gives its work
/// to a queue, while others are at theirs. All comes out as if each turn were done at once, in the
/// order in which they were described.
///
/// What a node shares with one of another rank goes by mail: what it posts, and what it mixes with
/// weights there, or with the server, which is rank 0's. It then asks, with what the other side is
/// to add, and the other side answers with what it had. The node's turn has parts: it goes on when
/// the answer is there, and its peers may change its weights in between.
class Nodes {
 public:
  /// Rooms that a node has for what it sends: one for what it asks, or for letters, of which one
  /// may be under way while the next one is written.
  static constexpr int kRoomsToAsk = 1, kRoomsForLetters = 2;
  /// What each node has to mix vectors with, of a chunk each: of those that change, all but one.
  static int vectors_to_mix(const AsyncAlgorithm::Traits& traits);

  Nodes(std::shared_ptr<const AsyncAlgorithm> algorithm, const ParameterLayout& layout,
        const Optimizer& optimizer, Device& device, const NodesOptions& options);

  /// Nodes that take part in the algorithm; to it they are 0 to n − 1.
  int living() const { return static_cast<int>(living_.size()); }
  std::span<const int> living_nodes() const { return living_; }
  /// With the lock: from now on the node, which is not in a turn, takes no part. Its weights and
  /// its mass, and what others have sent it or it has sent them, count no more.
  void drop(int node) {
    std::erase(living_, node);
    numbers(node).letters = {};
  }
  /// Between segments: zeroes all that is the node's own.
  void clear(Device& device, int node);

  /// Every node, and the server, begins with these weights. All take part.
  void start_from(Device& device, const std::byte* weights);

  /// The weights that the node's programs read while a step is under way, unless they change the
  /// one set of weights and read their own.
  std::byte* read(int node) const;

  /// Whether what the node may send in a turn has room.
  bool may_take_turn(int node) const;
  /// Describe a turn; with the lock, in this order and before the next `do_turn`, either or both of
  /// the last two. The gradient stays where it is. `time` counts on a simulated network only.
  /// `replica`: of an algorithm whose replicas overwrite, the node has one.
  void begin_turn(int node, double time);
  void end_step(int node, const std::byte* gradient, double lr, bool replica = false);
  void begin_step(int node);
  /// Whether what was described ends with a question. Once it is answered, `take_answer` describes
  /// what becomes of the answer, and what may still follow: after end_step begin_step, if it is to
  /// be.
  bool asks(int node) const { return nodes_[static_cast<size_t>(node)].asked.has_value(); }
  bool is_answered(int node) const { return nodes_[static_cast<size_t>(node)].answer->is_free(); }
  void take_answer(int node);
  /// When what the node has asked for in its turn is there.
  double ready(int node) const { return nodes_[static_cast<size_t>(node)].ready; }
  /// Gives the queue the node's turn; it has been told to wait for the gradient. Afterwards
  /// `done(node)` stands for the turn. Any number of nodes' at a time.
  void do_turn(int node, Queue& queue);
  /// Work that waits for its turn fails from now on: somebody's will not be done.
  void give_up() { given_up_.store(true, std::memory_order_relaxed); }
  const Event& done(int node) const { return *nodes_[static_cast<size_t>(node)].done; }

  /// Describes what a message does, with the lock, and does it, by the thread that has received it.
  /// The answer to a question takes the vector's place.
  struct Arrival {
    OrderedVector* vector;
    int64_t place;
    std::byte* message;
    double kept;           // of what was there, beside the message
    bool answers = false;  // with what was there
    bool gives = true;
  };
  Arrival describe_arrival(const Mail::Header& header, std::byte* vector);
  void do_arrival(const Arrival& arrival, Queue& queue);

  /// Between segments: the server's model, if it is here, the one set of weights, or the nodes'
  /// mean by mass, where all nodes of all ranks have so much of it.
  void write_evaluated(Queue& queue, std::byte* to, double mass) const;
  double mass() const;  // of those here
  /// Whether there is one, on rank 0, and its model, which is null elsewhere.
  bool has_server() const { return traits_.server; }
  const std::byte* server() const { return server_.data(); }
  /// Between segments, of an algorithm that merges: the end of a round.
  void merge(Queue& queue);
  bool live() const { return traits_.live; }
  /// A node's own, or what all share.
  std::byte* weights(int node) const { return of(node).weights.data(); }
  std::span<const Buffer> slots(int node) const { return of(node).slots; }
  /// What a run needs beside weights and slots to go on: the server's model, then what else each
  /// node has. Always as many.
  std::vector<std::byte*> state() const;

  /// To be saved.
  NodeNumbers& numbers(int node) { return nodes_[static_cast<size_t>(node)].numbers; }
  const NodeNumbers& numbers(int node) const { return nodes_[static_cast<size_t>(node)].numbers; }
  Card& server_card() { return server_card_; }
  const Card& server_card() const { return server_card_; }

 private:
  class Hook;
  /// What is done with a node's weights and vectors of others.
  struct Operation {
    enum class Kind {
      update,
      mix,
      post,
      snapshot,
      restore,
      send,   // what is `sent`, and asks if the node does
      answer  // a mix with what the room has
    } kind = Kind::update;
    const std::byte* gradient = nullptr;  // of an update
    UpdateStep step;
    Mix mix;
    // Of a post: what is added, and how much stays of what was there.
    Terms sent;
    double kept = 0;
    /// In line for which of these it stands, and its places: the node's weights, Terms::other, and
    /// an inbox or a letter.
    std::array<OrderedVector*, 3> vectors{};
    std::array<int64_t, 3> places{};
    // Of mail:
    Mail::Room* room = nullptr;
    Mail::Header header = {};
    int rank = 0;
  };
  /// A restored snapshot, an update, what the two hooks ask for, and a snapshot; more on a
  /// simulated network, where whoever has a turn puts arrived letters into inboxes.
  static constexpr size_t kMostOperations = 3 + 2 * AsyncAlgorithm::kMostOperations;
  struct Node {
    OrderedVector weights, inbox;
    Buffer own, snapshot;
    std::vector<Buffer> slots;
    GradientClip clip;
    Buffer scratch[2];  // of a chunk
    std::unique_ptr<Event> done;
    NodeNumbers numbers;
    std::array<OrderedVector, NodeNumbers::kMostLetters> letters;
    double now = 0, ready = 0;  // of the turn
    std::vector<Operation> turn;
    std::vector<Mail::Room*> rooms;
    std::vector<int64_t> sent_to;  // messages, by rank
    std::optional<Mix> asked;      // what the answer is for
    Mail::Room* answer = nullptr;
    bool asked_first = false;  // before the step, which then still has to begin
  };

  /// Whose weights are the node's: with one set for all, the first one's.
  Node& of(int node) { return nodes_[traits_.live ? 0 : static_cast<size_t>(node)]; }
  const Node& of(int node) const { return nodes_[traits_.live ? 0 : static_cast<size_t>(node)]; }
  /// Calls the node's hook. A node without peers takes what waits for it, and sends nothing.
  void call_hook(int node, bool after);
  double first_mass() const { return traits_.merges ? 0 : 1; }
  /// Of all ranks' nodes those before these, and how many there are.
  int first() const { return options_.others ? options_.others->rank * options_.nodes : 0; }
  int all() const { return options_.others ? options_.others->ranks * options_.nodes : living(); }
  void do_operation(Node& node, int index, const Operation& operation, Queue& queue);
  /// A message of a whole model, that leaves at a time or later: when it has arrived.
  double send(double now, Card& from, Card& to, double time);
  /// Puts letters that have arrived by then into inboxes: of one node, or of all.
  void deliver(int turn_of, double time, std::optional<int> to = {});
  /// The node's next letter, when it has one free again.
  size_t free_letter(const Node& node) const;
  void wait_for_a_free_letter(Node& node) const;
  bool reads_snapshot() const { return (traits_.live && !options_.by_programs) || traits_.pairs; }
  /// Adds to the node's turn, in line for its weights and these.
  Operation& add(int node, Operation::Kind kind, OrderedVector* other = nullptr,
                 OrderedVector* inbox = nullptr);

  void update(const Node& node, std::span<const Buffer> slots, const Operation& operation,
              const ParameterLayout::Piece& chunk, Queue& queue) const;
  void mix(const Node& node, const Operation& operation, const ParameterLayout::Piece& chunk,
           Queue& queue) const;
  void post(const Node& node, const Operation& operation, const ParameterLayout::Piece& chunk,
            Queue& queue) const;
  void write(const Node& node, const Operation& operation, const ParameterLayout::Piece& chunk,
             Queue& queue) const;

  const std::shared_ptr<const AsyncAlgorithm> algorithm_;
  const AsyncAlgorithm::Traits traits_;
  const Optimizer optimizer_;
  const NodesOptions options_;
  const DType dtype_;
  const int64_t elements_, element_bytes_, message_bytes_;
  const std::vector<ParameterLayout::Piece> chunks_;
  std::vector<Node> nodes_;
  std::vector<int> living_;  // ascending
  OrderedVector server_;
  Card server_card_;
  Buffer arrival_scratch_;  // of a chunk
  std::atomic<bool> given_up_{false};
};

}  // namespace crossbow
