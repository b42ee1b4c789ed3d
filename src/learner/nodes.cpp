#include "learner/nodes.h"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "core/rng.h"

namespace crossbow {
namespace {

bool operator==(const Terms& a, const Terms& b) {
  return a.weights == b.weights && a.own == b.own && a.other == b.other;
}

/// Of at most four vectors, without those that count for nothing.
class Sum {
 public:
  void add(double factor, const void* vector) {
    if (factor == 0) return;
    factors_[count_] = factor;
    vectors_[count_++] = vector;
  }
  void write(const VectorMath& math, void* out, int64_t n) const {
    math.combine({factors_.data(), count_}, {vectors_.data(), count_}, out, n);
  }

 private:
  std::array<double, 4> factors_{};
  std::array<const void*, 4> vectors_{};
  size_t count_ = 0;
};

/// Of messages between ranks. Questions are answered with a vector.
enum class MessageKind : int32_t { letter, question };
constexpr int32_t kServer = -1;  // to whom a question is

}  // namespace

/// What an algorithm asks for is added to the node's turn.
class Nodes::Hook : public Peers {
 public:
  Hook(Nodes& all, int node, bool after)
      : all_(all),
        node_(node),
        numbers_(all.numbers(node)),
        rng_(all.options_.seed, Purpose::gossip, static_cast<uint32_t>(all.first() + node),
             static_cast<uint64_t>(numbers_.steps) * 2 + (after ? 0 : 1)) {}

  int node() const override {
    const auto& all = all_.living_;
    return all_.first() +
           static_cast<int>(std::lower_bound(all.begin(), all.end(), node_) - all.begin());
  }
  int nodes() const override { return all_.all(); }
  int64_t steps() const override { return numbers_.steps; }
  double draw() override { return static_cast<double>(rng_.uniform()); }
  double mass() const override { return numbers_.mass; }
  void set_mass(double mass) override { numbers_.mass = mass; }

  void mix_server(const Mix& mix) override {
    if (all_.first() > 0) return ask(0, kServer, mix);
    all_.add(node_, Operation::Kind::mix, &all_.server_).mix = mix;
    meet(all_.server_card_, mix);
  }
  void mix_peer(int peer, const Mix& mix) override {
    assert(all_.traits_.pairs || mix.other == Mix{}.other);
    if (!is_here(peer)) return ask(rank_of(peer), peer, mix);
    Node& to = node_of(peer);
    OrderedVector* const inbox = to.numbers.inbox.messages > 0 ? &to.inbox : nullptr;
    all_.add(node_, Operation::Kind::mix, &weights_of(peer), inbox).mix = mix;
    meet(to.numbers.card, mix);
  }
  void post(int peer, const Terms& vector, double mass) override {
    if (all_.options_.network) return write_letter(peer, vector, mass);
    if (!is_here(peer)) return send(peer, vector, mass);
    Node& to = node_of(peer);
    Peers::Inbox& inbox = to.numbers.inbox;
    OrderedVector* const theirs = vector.other == 0 ? nullptr : &weights_of(peer);
    Operation& operation = all_.add(node_, Operation::Kind::post, theirs, &to.inbox);
    operation.sent = vector;
    operation.kept = inbox.messages == 0 ? 0 : 1 + vector.other;
    ++inbox.messages;
    inbox.mass += mass;
  }
  Peers::Inbox inbox() const override { return numbers_.inbox; }
  void take_inbox(const Mix& mix) override {
    all_.add(node_, Operation::Kind::mix, &all_.nodes_[static_cast<size_t>(node_)].inbox).mix = mix;
    numbers_.inbox = {};
  }

 private:
  /// What both ends may change takes a message there if the other end takes something of the
  /// node's, else only a request, and one back if the node takes something, which then waits for
  /// it.
  void meet(Card& other, const Mix& mix) {
    if (!all_.options_.network) return;
    Node& node = all_.nodes_[static_cast<size_t>(node_)];
    const bool gives = mix.other.weights != 0 || mix.other.own != 0;
    const bool takes = mix.weights.other != 0 || mix.own.other != 0;
    double there = node.ready + all_.options_.network->latency;
    if (gives) there = all_.send(node.now, numbers_.card, other, node.ready);
    if (takes) node.ready = all_.send(node.now, other, numbers_.card, there);
    numbers_.sent += (gives ? 1 : 0) + (takes ? 1 : 0);
  }
  void write_letter(int peer, const Terms& vector, double mass) {
    assert(vector.other == 0);
    Node& node = all_.nodes_[static_cast<size_t>(node_)];
    const size_t free = all_.free_letter(node);
    all_.add(node_, Operation::Kind::post, nullptr, &node.letters[free]).sent = vector;
    const double arrives =
        all_.send(node.now, numbers_.card, node_of(peer).numbers.card, node.ready);
    numbers_.letters[free] = {index(peer), arrives, mass};
    ++numbers_.sent;
    all_.wait_for_a_free_letter(node);
  }

  bool is_here(int peer) const {
    const int here = peer - all_.first();
    return here >= 0 && here < all_.living();
  }
  int rank_of(int peer) const { return peer / all_.options_.nodes; }
  Operation& add_message(int rank, MessageKind kind, int to, const Terms& vector, double number) {
    const auto& rooms = all_.nodes_[static_cast<size_t>(node_)].rooms;
    const auto free = std::ranges::find_if(rooms, &Mail::Room::is_free);
    if (free == rooms.end()) fail("a node sends more in a turn than it has room for");
    (*free)->take();
    Operation& operation = all_.add(node_, Operation::Kind::send);
    operation.sent = vector;
    operation.room = *free;
    operation.rank = rank;
    auto& sent = all_.nodes_[static_cast<size_t>(node_)].sent_to[static_cast<size_t>(rank)];
    operation.header = {static_cast<int32_t>(kind),
                        all_.first() + node_,
                        to,
                        vector.weights != 0 || vector.own != 0,
                        number,
                        sent++};
    ++numbers_.sent;
    return operation;
  }
  void send(int peer, const Terms& vector, double mass) {
    assert(vector.other == 0);
    add_message(rank_of(peer), MessageKind::letter, peer, vector, mass);
  }
  /// The hook's last operation.
  void ask(int rank, int to, const Mix& mix) {
    Node& node = all_.nodes_[static_cast<size_t>(node_)];
    assert(!node.asked);
    const Terms gives{.weights = mix.other.weights, .own = mix.other.own};
    node.answer = add_message(rank, MessageKind::question, to, gives, mix.other.other).room;
    node.asked = mix;
  }

  int index(int peer) const { return all_.living_[static_cast<size_t>(peer - all_.first())]; }
  Node& node_of(int peer) const { return all_.nodes_[static_cast<size_t>(index(peer))]; }
  OrderedVector& weights_of(int peer) const { return all_.of(index(peer)).weights; }

  Nodes& all_;
  const int node_;
  NodeNumbers& numbers_;
  Rng rng_;
};

int Nodes::vectors_to_mix(const AsyncAlgorithm::Traits& traits) {
  return traits.own_buffer ? 2 : 1;
}

Nodes::Nodes(std::shared_ptr<const AsyncAlgorithm> algorithm, const ParameterLayout& layout,
             const Optimizer& optimizer, Device& device, const NodesOptions& options)
    : algorithm_(std::move(algorithm)),
      traits_(algorithm_->traits()),
      optimizer_(optimizer),
      options_(options),
      dtype_(layout.dtype),
      elements_(layout.parameter_elements),
      element_bytes_(static_cast<int64_t>(size_of(dtype_))),
      message_bytes_(layout.trained() * element_bytes_),
      chunks_(layout.pieces(optimizer, device.exchange_piece())),
      nodes_(static_cast<size_t>(options.nodes)) {
  const auto bytes = static_cast<size_t>(elements_ * element_bytes_);
  const int64_t largest = ParameterLayout::largest(chunks_);
  for (size_t j = 0; j < nodes_.size(); ++j) {
    Node& node = nodes_[j];
    node.done = device.make_event();
    if (reads_snapshot()) node.snapshot = device.allocate_zeroed(bytes);
    node.clip = GradientClip(device, options.clip_norm);
    for (int i = 0; !options.by_programs && i < vectors_to_mix(traits_); ++i) {
      node.scratch[i] = device.allocate(static_cast<size_t>(largest * element_bytes_));
    }
    if (traits_.inbox) node.inbox = OrderedVector(device, bytes, chunks_.size());
    for (OrderedVector& letter : node.letters) {
      if (traits_.inbox && options.network) letter = OrderedVector(device, bytes, chunks_.size());
    }
    node.turn.reserve(kMostOperations);
    if (traits_.own_buffer) node.own = device.allocate_zeroed(bytes);
    const int rooms = traits_.inbox ? kRoomsForLetters : kRoomsToAsk;
    if (options.others) node.sent_to.resize(static_cast<size_t>(options.others->ranks));
    for (int r = 0; options.others && r < rooms; ++r) {
      node.rooms.push_back(&options.others->mail->make_room());
    }
    if (traits_.live && j > 0) continue;
    node.weights = OrderedVector(device, bytes, chunks_.size());
    for (size_t i = 0; !options.by_programs && i < optimizer.slots.size(); ++i) {
      node.slots.push_back(device.allocate_zeroed(bytes));
    }
  }
  if (traits_.server && first() == 0) server_ = OrderedVector(device, bytes, chunks_.size());
  if (options.others) {
    arrival_scratch_ = device.allocate(static_cast<size_t>(largest * element_bytes_));
  }
}

void Nodes::start_from(Device& device, const std::byte* weights) {
  const auto fill = [&](std::byte* to) {
    const auto bytes = static_cast<size_t>(elements_ * element_bytes_);
    if (to) device.copy_now(to, weights, bytes);
  };
  for (Node& node : nodes_) {
    fill(node.weights.data());
    fill(node.own.data());
    for (const Buffer& slot : node.slots) device.zero_now(slot.data(), slot.size());
    node.numbers = {};
    node.numbers.mass = first_mass();
  }
  fill(server_.data());
  server_card_ = {};
  living_.resize(nodes_.size());
  std::iota(living_.begin(), living_.end(), 0);
}

void Nodes::clear(Device& device, int index) {
  const auto bytes = static_cast<size_t>(elements_ * element_bytes_);
  const Node& node = nodes_[static_cast<size_t>(index)];
  const auto zero = [&](std::byte* data) {
    if (data) device.zero_now(data, bytes);
  };
  zero(node.own.data());
  zero(node.snapshot.data());
  zero(node.inbox.data());
  for (const OrderedVector& letter : node.letters) zero(letter.data());
  if (traits_.live) return;  // the rest is of all
  zero(node.weights.data());
  for (const Buffer& slot : node.slots) zero(slot.data());
}

std::byte* Nodes::read(int node) const {
  return reads_snapshot() ? nodes_[static_cast<size_t>(node)].snapshot.data() : weights(node);
}

Nodes::Operation& Nodes::add(int index, Operation::Kind kind, OrderedVector* other,
                             OrderedVector* inbox) {
  Node& node = nodes_[static_cast<size_t>(index)];
  assert(options_.network || node.turn.size() < kMostOperations);
  Operation& operation = node.turn.emplace_back();
  operation.kind = kind;
  operation.vectors = {&of(index).weights, other, inbox};
  for (size_t v = 0; v < operation.vectors.size(); ++v) {
    if (operation.vectors[v]) operation.places[v] = operation.vectors[v]->enter();
  }
  return operation;
}

void Nodes::end_step(int index, const std::byte* gradient, double lr, bool replica) {
  NodeNumbers& numbers = this->numbers(index);
  if (!options_.by_programs) {
    if (replica && traits_.overwrites) add(index, Operation::Kind::restore);
    Operation& update = add(index, Operation::Kind::update);
    update.gradient = gradient;
    update.step = optimizer_.at(lr * algorithm_->rate_factor(numbers.mass));
  }
  ++numbers.steps;
  call_hook(index, /*after=*/true);
}

bool Nodes::may_take_turn(int index) const {
  const Node& node = nodes_[static_cast<size_t>(index)];
  return node.rooms.empty() || std::ranges::any_of(node.rooms, &Mail::Room::is_free);
}

void Nodes::begin_turn(int index, double time) {
  Node& node = nodes_[static_cast<size_t>(index)];
  node.now = node.ready = time;
  if (options_.network) deliver(index, time);
}

void Nodes::begin_step(int index) {
  if (options_.network) deliver(index, ready(index), index);
  call_hook(index, /*after=*/false);
  nodes_[static_cast<size_t>(index)].asked_first = asks(index);
  if (reads_snapshot() && !asks(index)) add(index, Operation::Kind::snapshot);
}

void Nodes::take_answer(int index) {
  Node& node = nodes_[static_cast<size_t>(index)];
  Operation& operation = add(index, Operation::Kind::answer);
  operation.mix = *std::exchange(node.asked, {});
  operation.room = node.answer;
  if (std::exchange(node.asked_first, false) && reads_snapshot()) {
    add(index, Operation::Kind::snapshot);
  }
}

void Nodes::call_hook(int index, bool after) {
  const bool alone = all() == 1 && !traits_.server;
  Hook hook(*this, index, after);
  if (after) {
    if (alone) return;
    algorithm_->after_step(hook);
  } else {
    algorithm_->before_step(hook);
  }
}

double Nodes::send(double now, Card& from, Card& to, double time) {
  const double takes = options_.network->transfer(message_bytes_);
  const double leaves = from.out.book(time, takes, now);
  return to.in.book(leaves + options_.network->latency, takes, now) + takes;
}

void Nodes::deliver(int turn_of, double time, std::optional<int> to) {
  struct Arrived {
    double at;
    int from;
    size_t letter;
    auto operator<=>(const Arrived&) const = default;
  };
  if (!traits_.inbox) return;
  std::vector<Arrived> arrived;
  for (int j = 0; j < std::ssize(nodes_); ++j) {
    for (size_t l = 0; l < NodeNumbers::kMostLetters; ++l) {
      const Letter& letter = numbers(j).letters[l];
      const bool wanted = to ? letter.to == *to : letter.to >= 0;
      if (wanted && letter.arrives <= time) arrived.push_back({letter.arrives, j, l});
    }
  }
  std::ranges::sort(arrived);
  for (const Arrived& a : arrived) {
    Node& from = nodes_[static_cast<size_t>(a.from)];
    const Letter letter = std::exchange(from.numbers.letters[a.letter], {});
    if (!std::ranges::binary_search(living_, letter.to)) continue;
    Node& receiver = nodes_[static_cast<size_t>(letter.to)];
    Peers::Inbox& inbox = receiver.numbers.inbox;
    Operation& operation =
        add(turn_of, Operation::Kind::post, &from.letters[a.letter], &receiver.inbox);
    operation.sent = {.other = 1};
    operation.kept = inbox.messages == 0 ? 0 : 1;
    ++inbox.messages;
    inbox.mass += letter.mass;
  }
}

size_t Nodes::free_letter(const Node& node) const {
  const auto& letters = node.numbers.letters;
  const auto free = std::ranges::find_if(letters, [](const Letter& l) { return l.to < 0; });
  assert(free != letters.end());
  return static_cast<size_t>(free - letters.begin());
}

void Nodes::wait_for_a_free_letter(Node& node) const {
  const auto& letters = node.numbers.letters;
  if (!std::ranges::all_of(letters, [](const Letter& l) { return l.to >= 0; })) return;
  node.ready = std::max(node.ready, std::ranges::min(letters, {}, &Letter::arrives).arrives);
}

void Nodes::do_turn(int index, Queue& queue) {
  Node& node = nodes_[static_cast<size_t>(index)];
  queue.wait(*node.done);
  for (const Operation& operation : node.turn) {
    if (operation.gradient) {
      node.clip.find_scale(queue.math(dtype_), operation.gradient, elements_);
    }
    do_operation(node, index, operation, queue);
  }
  node.turn.clear();
  queue.mark(*node.done);
}

void Nodes::do_operation(Node& node, int index, const Operation& operation, Queue& queue) {
  for (size_t c = 0; c < chunks_.size(); ++c) {
    for (size_t v = 0; v < operation.vectors.size(); ++v) {
      if (operation.vectors[v]) {
        operation.vectors[v]->wait(c, operation.places[v], queue, given_up_);
      }
    }
    const ParameterLayout::Piece& chunk = chunks_[c];
    const int64_t at = chunk.first * element_bytes_;
    const auto bytes = static_cast<size_t>(chunk.elements * element_bytes_);
    switch (operation.kind) {
      case Operation::Kind::update:
        update(node, of(index).slots, operation, chunk, queue);
        break;
      case Operation::Kind::mix:
      case Operation::Kind::answer:
        mix(node, operation, chunk, queue);
        break;
      case Operation::Kind::post:
        post(node, operation, chunk, queue);
        break;
      case Operation::Kind::send:
        write(node, operation, chunk, queue);
        break;
      case Operation::Kind::snapshot:
        queue.copy(node.snapshot.data() + at, of(index).weights.data() + at, bytes);
        break;
      case Operation::Kind::restore:
        queue.copy(of(index).weights.data() + at, node.snapshot.data() + at, bytes);
    }
    for (size_t v = 0; v < operation.vectors.size(); ++v) {
      if (operation.vectors[v]) operation.vectors[v]->pass(c, operation.places[v], queue);
    }
  }
  if (operation.kind != Operation::Kind::send) return;
  queue.finish();
  Mail& mail = *options_.others->mail;
  const bool asks = operation.header.kind == static_cast<int32_t>(MessageKind::question);
  (mail.*(asks ? &Mail::ask : &Mail::send))(operation.rank, operation.header, *operation.room);
}

Nodes::Arrival Nodes::describe_arrival(const Mail::Header& header, std::byte* message) {
  if (header.kind == static_cast<int32_t>(MessageKind::question)) {
    OrderedVector& asked = header.to == kServer ? server_ : of(header.to - first()).weights;
    return {&asked, asked.enter(), message, header.number, true, header.has_vector != 0};
  }
  Node& node = of(header.to - first());
  Peers::Inbox& inbox = node.numbers.inbox;
  const double kept = inbox.messages == 0 ? 0 : 1;
  ++inbox.messages;
  inbox.mass += header.number;
  return {&node.inbox, node.inbox.enter(), message, kept};
}

void Nodes::do_arrival(const Arrival& arrival, Queue& queue) {
  const VectorMath& math = queue.math(dtype_);
  for (size_t c = 0; c < chunks_.size(); ++c) {
    const int64_t at = chunks_[c].first * element_bytes_, n = chunks_[c].elements;
    const auto bytes = static_cast<size_t>(n * element_bytes_);
    std::byte* const message = arrival.message + at;
    std::byte* const vector = arrival.vector->data() + at;
    arrival.vector->wait(c, arrival.place, queue, given_up_);
    if (arrival.gives) {
      Sum sum;
      sum.add(1, message);
      sum.add(arrival.kept, vector);
      sum.write(math, arrival_scratch_.data(), n);
    }
    if (arrival.answers) queue.copy(message, vector, bytes);
    if (arrival.gives) queue.copy(vector, arrival_scratch_.data(), bytes);
    arrival.vector->pass(c, arrival.place, queue);
  }
  queue.finish();
}

/// What the node sends. Where others may change its weights before the answer is there, they are
/// remembered as they are now.
void Nodes::write(const Node& node, const Operation& operation, const ParameterLayout::Piece& chunk,
                  Queue& queue) const {
  const int64_t at = chunk.first * element_bytes_;
  const std::byte* const weights = operation.vectors[0]->data() + at;
  if (operation.header.has_vector) {
    Sum sum;
    sum.add(operation.sent.weights, weights);
    if (node.own.data()) sum.add(operation.sent.own, node.own.data() + at);
    sum.write(queue.math(dtype_), operation.room->vector() + at, chunk.elements);
  }
  if (traits_.pairs) {
    queue.copy(node.snapshot.data() + at, weights,
               static_cast<size_t>(chunk.elements * element_bytes_));
  }
}

void Nodes::update(const Node& node, std::span<const Buffer> slots, const Operation& operation,
                   const ParameterLayout::Piece& chunk, Queue& queue) const {
  const int64_t at = chunk.first * element_bytes_;
  std::byte* const weights = operation.vectors[0]->data() + at;
  queue.math(dtype_).update(*optimizer_.rule, operation.step,
                            {weights, operation.gradient + at, addresses_of(slots, at), nullptr,
                             weights, node.clip.scale(), chunk.decay},
                            chunk.elements);
}

void Nodes::post(const Node& node, const Operation& operation, const ParameterLayout::Piece& chunk,
                 Queue& queue) const {
  const int64_t at = chunk.first * element_bytes_;
  const auto& [weights, theirs, inbox] = operation.vectors;
  Sum sum;
  sum.add(operation.sent.weights, weights->data() + at);
  if (node.own.data()) sum.add(operation.sent.own, node.own.data() + at);
  if (theirs) sum.add(operation.sent.other, theirs->data() + at);
  sum.add(operation.kept, inbox->data() + at);
  sum.write(queue.math(dtype_), inbox->data() + at, chunk.elements);
}

/// Of vectors that change each new one is computed before any of the old ones goes.
void Nodes::mix(const Node& node, const Operation& operation, const ParameterLayout::Piece& chunk,
                Queue& queue) const {
  struct Target {
    const Terms* terms;
    std::byte* out;
  };
  const int64_t at = chunk.first * element_bytes_;
  std::byte* const weights = operation.vectors[0]->data() + at;
  const bool answered = operation.kind == Operation::Kind::answer;
  std::byte* const other =
      (answered ? operation.room->vector() : operation.vectors[1]->data()) + at;
  const OrderedVector* const inbox = operation.vectors[2];
  std::byte* const own = node.own.data() ? node.own.data() + at : nullptr;
  std::array<Target, 3> targets;
  size_t count = 0;
  const auto add_target = [&](const Terms& terms, const Terms& unchanged, std::byte* out) {
    if (out && !(terms == unchanged)) targets[count++] = {&terms, out};
  };
  static constexpr Mix kNothing{};
  add_target(operation.mix.weights, kNothing.weights, weights);
  add_target(operation.mix.own, kNothing.own, own);
  if (!answered) add_target(operation.mix.other, kNothing.other, other);
  for (size_t t = 0; t < count; ++t) {
    Sum sum;
    if (answered && traits_.pairs) {  // what has changed since it asked stays
      sum.add(1, weights);
      sum.add(targets[t].terms->weights - 1, node.snapshot.data() + at);
    } else {
      sum.add(targets[t].terms->weights, weights);
    }
    if (own) sum.add(targets[t].terms->own, own);
    sum.add(targets[t].terms->other, other);
    if (inbox) sum.add(targets[t].terms->other, inbox->data() + at);
    const bool last = t + 1 == count;
    sum.write(queue.math(dtype_), last ? targets[t].out : node.scratch[t].data(), chunk.elements);
  }
  for (size_t t = 0; t + 1 < count; ++t) {
    queue.copy(targets[t].out, node.scratch[t].data(),
               static_cast<size_t>(chunk.elements * element_bytes_));
  }
}

double Nodes::mass() const {
  double mass = 0;
  for (const int j : living_) mass += nodes_[static_cast<size_t>(j)].numbers.mass;
  return mass;
}

void Nodes::write_evaluated(Queue& queue, std::byte* to, double mass) const {
  const auto bytes = static_cast<size_t>(elements_ * element_bytes_);
  if (server_.data()) return queue.copy(to, server_.data(), bytes);
  if (traits_.live) return queue.copy(to, weights(0), bytes);
  std::vector<double> shares;
  std::vector<const void*> vectors;
  for (const int j : living_) {
    const Node& node = nodes_[static_cast<size_t>(j)];
    shares.push_back(mass > 0 ? node.numbers.mass / mass : 1.0 / all());
    vectors.push_back(node.weights.data());
  }
  queue.math(dtype_).combine(shares, vectors, to, elements_);
}

void Nodes::merge(Queue& queue) {
  const auto bytes = static_cast<size_t>(elements_ * element_bytes_);
  std::byte* const mean = weights(living_.front());
  write_evaluated(queue, mean, mass());
  for (const int j : living_) {
    if (weights(j) != mean) queue.copy(weights(j), mean, bytes);
    numbers(j).mass = first_mass();
  }
}

std::vector<std::byte*> Nodes::state() const {
  std::vector<std::byte*> all;
  const auto add = [&](std::byte* data) {
    if (data) all.push_back(data);
  };
  add(server_.data());
  for (const Node& node : nodes_) {
    add(node.own.data());
    add(node.snapshot.data());
    add(node.inbox.data());
    for (const OrderedVector& letter : node.letters) add(letter.data());
  }
  return all;
}

}  // namespace crossbow
