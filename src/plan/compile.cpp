#include <algorithm>
#include <array>
#include <deque>
#include <list>
#include <set>

#include "core/error.h"
#include "graph/source.h"
#include "kernels/precision.h"
#include "passes/autodiff.h"
#include "plan/memory_plan.h"
#include "plan/program.h"

namespace crossbow {

/// Compiles one graph: prepare every node, settle the parameters' layouts, schedule kernels with
/// the conversions between them, place the temporaries.
class Compiler {
 public:
  Compiler(const Graph& graph, const CompileOptions& options)
      : graph_(graph),
        options_(options),
        device_(find_device(options.device)),
        kernels_(device_.kernels()),
        crowded_(options.crowded()),
        precision_(computed_precision(kernels_, options.precision)),
        program_(std::make_shared<Program>()) {}

  std::shared_ptr<const Program> run() {
    find_gradients();
    find_last_readers();
    prepare_nodes();
    settle_inputs();
    settle_parameters();
    find_own_updates();
    for (size_t id = 0; id < graph_.nodes().size(); ++id) place_source(static_cast<int32_t>(id));
    cast_parameters();
    for (size_t id = 0; id < graph_.nodes().size(); ++id) schedule(static_cast<int32_t>(id));
    join_lagging();
    cast_all("gradients", cast_gradients_, true);
    place_results();
    place_temporaries();
    if (!updates_) program_->first_update_ = program_->kernels_.size();
    program_->threads_ = options_.threads;
    find_input_bytes();
    return program_;
  }

 private:
  using Location = Program::Location;
  using Memory = Program::Memory;

  /// A tensor in memory: a node's output or a conversion of one. Those in the arena share a
  /// storage (an index into lifetimes_) where one is computed in place of another.
  struct Stored {
    Layout layout;
    Location location;
    int storage = -1;
  };

  DType master_dtype() const { return precision_ == DType::f64 ? DType::f64 : DType::f32; }
  static bool is_parameter(const Node& n) { return n.op->name == "parameter"; }
  static bool is_frozen(const Node& n) {
    return is_parameter(n) ? n.attrs<ParameterAttributes>().frozen
                           : n.attrs<StateAttributes>().frozen;
  }
  static bool is_source(const Node& n) { return is_parameter(n) || n.op->name == "state"; }

  void find_gradients() {
    for (int32_t id : graph_.find("parameter")) parameter_ids_[graph_.nodes()[id].name] = id;
    for (const auto& [name, value] : graph_.outputs()) {
      constexpr std::string_view kPrefix = "gradient:";
      if (name.rfind(kPrefix, 0) == 0) gradients_[value].push_back(name.substr(kPrefix.size()));
    }
  }

  void find_input_bytes() {
    for (const int32_t id : graph_.find("input")) {
      const Node& node = graph_.nodes()[id];
      const TensorType& type = node.outputs[0];
      const auto& a = node.attrs<InputAttributes>();
      program_->input_bytes_[static_cast<size_t>(a.slot)] =
          static_cast<size_t>(type.shape.elements()) * size_of(a.fed(type.dtype));
    }
    for (const int32_t id : graph_.find("sparse_rows")) {
      const std::vector<TensorType>& types = graph_.nodes()[id].outputs;
      for (size_t i = 0; i < types.size(); ++i) {
        program_->input_bytes_[kValues + i] =
            static_cast<size_t>(types[i].shape.elements()) * size_of(types[i].dtype);
      }
    }
  }

  std::optional<Layout> offered_layout(Value v) const {
    if (!v) return {};
    const Node& node = graph_.node(v);
    if (!is_source(node)) return prepared_[v.node].outputs[v.output];
    if (options_.parameters) {
      const auto* slot = options_.parameters->find(node.name);
      if (!slot || slot->layout.shape != graph_.type(v).shape) {
        fail("the programs of a model must have the same parameters, but {} {} is not in the first",
             node.name, graph_.type(v).shape.str());
      }
      return slot->layout;
    }
    if (is_parameter(node)) return {};
    return Layout::plain(node.outputs[0].shape, master_dtype());
  }

  void prepare_nodes() {
    prepared_.resize(graph_.nodes().size());
    for (size_t id = 0; id < prepared_.size(); ++id) {
      const Node& node = graph_.nodes()[id];
      if (is_source(node)) continue;
      std::vector<std::optional<Layout>> required(node.outputs.size());
      for (size_t i = 0; i < required.size() && options_.parameters; ++i) {
        const auto it = gradients_.find({static_cast<int32_t>(id), static_cast<int32_t>(i)});
        if (it != gradients_.end()) {
          required[i] = options_.parameters->find(it->second[0])->layout;
        }
      }
      prepared_[id] = prepare(node, required);
    }
  }

  PreparedKernel prepare(const Node& node, std::span<const std::optional<Layout>> required) const {
    const PrepareFn prepare = KernelRegistry::of(kernels_).find(node.op->name);
    if (!prepare) {
      fail("layer {}: device '{}' has no kernel for the op '{}'", node.name, options_.device,
           node.op->name);
    }
    std::vector<std::optional<Layout>> offered;
    for (Value v : node.inputs) offered.push_back(offered_layout(v));
    return prepare({graph_, node, offered, required, device_, precision_, options_.tf32,
                    options_.threads, crowded_, options_.chooser});
  }

  /// A batch may be written at once as all its readers want it.
  void settle_inputs() {
    for (const int32_t id : graph_.find("input")) {
      const std::optional<Layout> wish = common_wish({id, 0});
      if (!wish || *wish == prepared_[id].outputs[0]) continue;
      prepared_[id] = prepare(graph_.nodes()[id], std::array{wish});
    }
  }

  std::optional<Layout> common_wish(Value v) const {
    std::optional<Layout> common;
    for (size_t user = 0; user < prepared_.size(); ++user) {
      const std::vector<Value>& inputs = graph_.nodes()[user].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] != v) continue;
        if (common && *common != prepared_[user].inputs[i]) return {};
        common = prepared_[user].inputs[i];
      }
    }
    return common;
  }

  /// A parameter lies as the kernel that writes its gradient wants; without a gradient, as its
  /// first reader wants. Where that needs another element type the host's libraries have layouts
  /// that only this type has, and elsewhere the conversion is one of the type alone.
  Layout parameter_layout(int32_t id) const {
    const Node& node = graph_.nodes()[id];
    const Layout plain = Layout::plain(node.outputs[0].shape, master_dtype());
    const auto gradient = graph_.outputs().find("gradient:" + node.name);
    if (gradient != graph_.outputs().end()) {
      const Value v = gradient->second;
      const Layout& layout = prepared_[v.node].outputs[v.output];
      return in_masters(layout, plain);
    }
    for (size_t user = 0; user < prepared_.size(); ++user) {
      const auto& inputs = graph_.nodes()[user].inputs;
      const auto it = std::find(inputs.begin(), inputs.end(), Value{id, 0});
      if (it == inputs.end()) continue;
      const Layout& wish = prepared_[user].inputs[it - inputs.begin()];
      return in_masters(wish, plain);
    }
    return plain;
  }
  Layout in_masters(const Layout& wish, const Layout& plain) const {
    if (wish.dtype == master_dtype()) return wish;
    return device_.is_host() ? plain : wish.with_dtype(master_dtype());
  }

  void settle_parameters() {
    if (options_.parameters) {
      program_->parameters_ = options_.parameters;
      return;
    }
    auto layout = std::make_shared<ParameterLayout>();
    layout->dtype = master_dtype();
    for (size_t id = 0; id < graph_.nodes().size(); ++id) {
      const Node& node = graph_.nodes()[id];
      if (is_parameter(node)) {
        layout->add_parameter(node.name, parameter_layout(static_cast<int32_t>(id)),
                              node.attrs<ParameterAttributes>().initialiser, is_frozen(node));
      } else if (node.op->name == "state") {
        layout->add_state(node.name, Layout::plain(node.outputs[0].shape, master_dtype()),
                          node.attrs<StateAttributes>().value, is_frozen(node));
      }
    }
    program_->parameters_ = std::move(layout);
  }

  /// Parameters that the kernel of their gradient updates by itself.
  void find_own_updates() {
    if (!options_.update) return;
    for (const auto& [gradient, names] : gradients_) {
      const PreparedKernel& kernel = prepared_[gradient.node];
      if (!kernel.update || gradient.output != 0 || names.size() != 1) continue;
      const Value parameter{parameter_ids_.at(names[0]), 0};
      const bool last = last_reader(gradient) < 0 && last_reader(parameter) < gradient.node;
      if (!last || program_->parameters_->find(names[0])->layout != kernel.outputs[0]) continue;
      if (kernel.updates_few && !may_update_few(parameter, kernel.outputs[0])) continue;
      if (auto bind = kernel.update(*options_.update)) own_updates_[gradient.node] = bind;
    }
  }

  bool may_update_few(Value parameter, const Layout& layout) const {
    return options_.updates_in_place &&
           (!options_.update->rule->live || reads_live(parameter, layout));
  }

  /// Whether all that reads the parameter, as it is, may do so while others write it.
  bool reads_live(Value parameter, const Layout& layout) const {
    for (size_t id = 0; id < prepared_.size(); ++id) {
      const std::vector<Value>& inputs = graph_.nodes()[id].inputs;
      for (size_t i = 0; i < inputs.size(); ++i) {
        if (inputs[i] != parameter) continue;
        if (!prepared_[id].reads_live || prepared_[id].inputs[i] != layout) return false;
      }
    }
    return true;
  }

  /// Where a parameter is read: with a live rule and without a pass over all, where it is shared.
  Location location_of(const Node& node, const ParameterLayout::Slot& slot) const {
    if (is_frozen(node)) return location(Memory::frozen, slot);
    if (!is_parameter(node)) return location(Memory::state, slot);
    const auto gradient = graph_.outputs().find("gradient:" + node.name);
    const bool shared =
        options_.update && options_.update->rule->live && gradient != graph_.outputs().end() &&
        own_updates_.count(gradient->second.node) && prepared_[gradient->second.node].updates_few;
    return location(shared ? Memory::slot : Memory::parameter, slot);
  }

  int now() const { return static_cast<int>(program_->kernels_.size()); }

  Stored in_arena(const Layout& layout) {
    lifetimes_.push_back({layout.bytes(), now(), now()});
    return {layout, {Memory::arena, 0}, static_cast<int>(lifetimes_.size()) - 1};
  }

  void use(const Stored& stored) {
    if (stored.storage >= 0) lifetimes_[stored.storage].last = now();
  }

  const Stored& stored_as(Value v, const Layout& wanted) {
    const Stored& original = stored_.at(v);
    if (original.layout == wanted) return original;
    if (const Stored* const known = known_conversion(v, wanted)) return *known;
    return conversions_[v].emplace_back(
        convert(graph_.node(v).name, original, in_arena(wanted), false));
  }

  const Stored* known_conversion(Value v, const Layout& wanted) const {
    const auto of_value = conversions_.find(v);
    if (of_value == conversions_.end()) return nullptr;
    const auto it = std::ranges::find(of_value->second, wanted, &Stored::layout);
    return it == of_value->second.end() ? nullptr : &*it;
  }

  Stored convert(const std::string& name, const Stored& from, Stored to, bool backward) {
    use(from);
    use(to);
    emit({name, "reorder", {}, 0, backward},
         KernelRegistry::of(kernels_).reorder(from.layout, to.layout, options_.threads), {from},
         {to});
    return to;
  }

  void emit(Program::KernelInfo info, PreparedKernel kernel, const std::vector<Stored>& inputs,
            const std::vector<Stored>& outputs) {
    info.implementation = kernel.implementation;
    for (const auto* operands : {&inputs, &outputs}) {
      for (const Stored& s : *operands) {
        if (s.location.memory != Memory::absent) info.bytes += s.layout.bytes();
      }
    }
    Program::Kernel entry;
    for (const Stored& s : inputs) entry.inputs.push_back(s.location);
    for (const Stored& s : outputs) entry.outputs.push_back(s.location);
    std::vector<int> in, out;
    for (const Stored& s : inputs) in.push_back(s.storage);
    for (const Stored& s : outputs) out.push_back(s.storage);
    int scratch = -1;
    if (kernel.scratch_bytes > 0) {
      scratch = static_cast<int>(lifetimes_.size());
      lifetimes_.push_back({kernel.scratch_bytes, now(), now()});
      entry.scratch.memory = Memory::arena;
    }
    storages_.push_back({std::move(in), std::move(out), scratch});
    entry.prepared = std::move(kernel);
    program_->kernels_.push_back(std::move(entry));
    program_->kernel_infos_.push_back(std::move(info));
  }

  /// Where a node's output goes: a gradient's place in the replica (unless the program updates),
  /// its input's memory, or the arena.
  Stored place_output(int32_t id, int index, const std::vector<Stored>& inputs) {
    const Node& node = graph_.nodes()[id];
    const Layout& layout = prepared_[id].outputs[index];
    if (index == 0 && own_updates_.count(id)) {
      return in_replica(Memory::next_parameter, gradient_slot(id));
    }
    const auto gradient = gradients_.find({id, index});
    if (gradient != gradients_.end() && !options_.update) {
      const auto* slot = program_->parameters_->find(gradient->second[0]);
      if (slot->layout == layout) return {layout, location(Memory::gradient, *slot), -1};
    }
    for (const auto& [from, to] : node.op->in_place) {
      if (to != index || !options_.reuse_memory || static_cast<size_t>(from) >= inputs.size())
        continue;
      const Stored& input = inputs[from];
      if (input.storage < 0 || input.layout.bytes() != layout.bytes()) continue;
      // Named outputs live to the end.
      if (last_reader(node.inputs[from]) > id || named_.count(node.inputs[from])) continue;
      if (taken_.count(input.storage) || is_lagging(input.storage)) continue;
      // A second operand in the same memory would be overwritten while it is read.
      const auto same = [&](const Stored& s) { return s.storage == input.storage; };
      if (std::count_if(inputs.begin(), inputs.end(), same) != 1) continue;
      taken_.insert(input.storage);
      in_place_.push_back({layout.bytes(), now(), now()});
      return {layout, input.location, input.storage};
    }
    return in_arena(layout);
  }

  Location location(Memory memory, const ParameterLayout::Slot& slot) const {
    return {memory, slot.offset * size_of(master_dtype())};
  }

  void place_source(int32_t id) {
    const Node& node = graph_.nodes()[id];
    if (!is_source(node)) return;
    const auto* slot = program_->parameters_->find(node.name);
    stored_[{id, 0}] = {slot->layout, location_of(node, *slot), -1};
  }

  using Casts = std::vector<std::pair<Stored, Stored>>;  // from, to

  bool is_cast(const Layout& from, const Layout& to) const {
    return KernelRegistry::of(kernels_).casts() && from.dtype != to.dtype &&
           from.with_dtype(to.dtype) == to;
  }

  /// Where a kernel costs more to launch than to run: all of a program's by one, at its beginning
  /// or its end.
  void cast_all(const char* name, const Casts& casts, bool backward) {
    if (casts.empty()) return;
    std::vector<Stored> from, to;
    std::vector<Layout> from_layouts, to_layouts;
    for (const auto& [f, t] : casts) {
      use(f);
      from.push_back(f);
      to.push_back(t);
      from_layouts.push_back(f.layout);
      to_layouts.push_back(t.layout);
    }
    emit({name, "reorder", {}, 0, backward},
         KernelRegistry::of(kernels_).casts()(std::move(from_layouts), std::move(to_layouts)), from,
         to);
  }

  void cast_parameters() {
    Casts casts;
    for (size_t id = 0; id < graph_.nodes().size(); ++id) {
      const Node& node = graph_.nodes()[id];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Value v = node.inputs[i];
        if (!v || !is_source(graph_.node(v))) continue;
        const Stored& original = stored_.at(v);
        const Layout& wanted = prepared_[id].inputs[i];
        if (known_conversion(v, wanted) || !is_cast(original.layout, wanted)) continue;
        casts.emplace_back(original, conversions_[v].emplace_back(in_arena(wanted)));
      }
    }
    cast_all("parameters", casts, false);
  }

  void schedule(int32_t id) {
    const Node& node = graph_.nodes()[id];
    if (is_source(node)) return;
    std::vector<Stored> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const Value v = node.inputs[i];
      inputs.push_back(v ? stored_as(v, prepared_[id].inputs[i]) : Stored{});
    }
    for (const Stored& s : inputs) use(s);
    taken_.clear();
    std::vector<Stored> outputs;
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      outputs.push_back(place_output(id, static_cast<int>(i), inputs));
      use(outputs.back());
      stored_[{id, static_cast<int32_t>(i)}] = outputs.back();
    }
    const auto types = graph_.input_types(node);
    const double flops = node.op->flops ? node.op->flops(node, types) : 0;
    PreparedKernel kernel = prepared_[id];
    const auto own_update = own_updates_.find(id);
    const bool updates = own_update != own_updates_.end();
    if (updates) {
      for (const Stored& stored : read_by_update(gradient_slot(id))) inputs.push_back(stored);
      begin_updates();
      program_->in_place_ |= kernel.updates_few;
    }
    emit({node.name, std::string(node.op->name), {}, flops, is_backward(id), updates},
         std::move(kernel), inputs, outputs);
    if (updates) program_->kernels_.back().update = own_update->second;
    if (may_lag(id)) let_lag();
    for (size_t i = 0; i < node.outputs.size() && !options_.update; ++i) {
      deliver_gradient({id, static_cast<int32_t>(i)});
    }
    if (options_.update) update_finished(id);
  }

  /// Whether a queue may do the node beside what follows: it computes gradients of parameters, and
  /// nobody reads them until they are all there. On a crowded device that would gain nothing, and
  /// memory is needed longer.
  bool may_lag(int32_t id) const {
    if (!device_.works_aside() || crowded_ || options_.update) return false;
    for (int32_t i = 0; i < static_cast<int32_t>(graph_.nodes()[id].outputs.size()); ++i) {
      const auto gradient = gradients_.find({id, i});
      if (gradient == gradients_.end() || gradient->second.size() != 1) return false;
      const Layout& wanted = program_->parameters_->find(gradient->second[0])->layout;
      const Layout& written = prepared_[id].outputs[i];
      if (last_reader({id, i}) >= 0 || (written != wanted && !is_cast(written, wanted)))
        return false;
    }
    return true;
  }

  void let_lag() {
    const size_t kernel = program_->kernels_.size() - 1;
    program_->kernels_[kernel].lag = Queue::kMostAside;
    lagging_.push_back(kernel);
    if (lagging_.size() <= Queue::kMostAside) return;
    keep_until(kernel, lagging_.front());
    lagging_.pop_front();
  }
  /// All of them end with the last.
  void join_lagging() {
    if (lagging_.empty()) return;
    program_->kernels_[lagging_.back()].lag = 0;
    for (const size_t kernel : lagging_) keep_until(lagging_.back(), kernel);
    lagging_.clear();
  }
  void keep_until(size_t end, size_t kernel) {
    for (const int storage : storages_[kernel].all()) {
      int& last = lifetimes_[storage].last;
      last = std::max(last, static_cast<int>(end));
    }
  }
  bool is_lagging(int storage) const {
    return std::ranges::any_of(lagging_, [&](size_t kernel) {
      const std::vector<int> used = storages_[kernel].all();
      return std::ranges::find(used, storage) != used.end();
    });
  }

  bool is_backward(int32_t id) const {
    if (!graph_.outputs().contains("loss")) return false;
    return id > objective(graph_).node;
  }

  /// A gradient that its kernel could not write in the parameter's layout is converted into place.
  void deliver_gradient(Value v) {
    const auto it = gradients_.find(v);
    if (it == gradients_.end()) return;
    for (const std::string& name : it->second) {
      const auto* slot = program_->parameters_->find(name);
      const Location gradient = location(Memory::gradient, *slot);
      const Stored& written = stored_.at(v);
      if (written.location.memory == gradient.memory && written.location.offset == gradient.offset)
        continue;
      const Stored to{slot->layout, gradient, -1};
      if (is_cast(written.layout, to.layout)) {
        cast_gradients_.emplace_back(written, to);
      } else {
        convert(name, written, to, true);
      }
    }
  }

  /// Updates the parameters whose gradient and last reader have both run once node `id` has.
  void update_finished(int32_t id) {
    for (const auto& [gradient, names] : gradients_) {
      if (gradient.node > id || (gradient.output == 0 && own_updates_.count(gradient.node)))
        continue;
      for (const std::string& name : names) {
        const int32_t parameter = parameter_ids_.at(name);
        if (std::max(gradient.node, last_reader({parameter, 0})) != id) continue;
        const auto* slot = program_->parameters_->find(name);
        update(*slot, stored_as(gradient, slot->layout));
      }
    }
  }

  void update(const ParameterLayout::Slot& slot, const Stored& gradient) {
    use(gradient);
    const UpdateRule& rule = *options_.update->rule;
    std::vector<Stored> inputs{gradient};
    for (const Stored& stored : read_by_update(slot)) inputs.push_back(stored);
    begin_updates();
    PreparedKernel kernel{std::vector<Layout>(inputs.size(), slot.layout), {slot.layout}};
    kernel.implementation = fmt::format("loops:{}", rule.name);
    kernel.bind = [&rule, math = &vector_math(kernels_, master_dtype()), n = slot.layout.elements(),
                   decay = slot.decays(options_.update->weight_decay)](Operands o) -> Call {
      UpdateSpans spans = update_spans(o, 1);
      spans.gradient = o.inputs[0];
      spans.decay = decay;
      return [=, &rule](const Step& step) { math->update(rule, step.update, spans, n); };
    };
    emit({slot.name, std::string(rule.name), {}, 0, true, true}, std::move(kernel), inputs,
         {in_replica(Memory::next_parameter, slot)});
  }

  /// Besides the gradient: the parameter, what it is pulled towards, and the optimizer's slots.
  std::vector<Stored> read_by_update(const ParameterLayout::Slot& slot) const {
    std::vector<Stored> read{in_replica(Memory::parameter, slot),
                             in_replica(Memory::central, slot)};
    for (size_t i = 0; i < options_.update->slots.size(); ++i)
      read.push_back(in_replica(Memory::slot, slot, i));
    return read;
  }

  Stored in_replica(Memory memory, const ParameterLayout::Slot& slot, size_t index = 0) const {
    Location to = location(memory, slot);
    to.slot = index;
    return {slot.layout, to, -1};
  }

  /// Of the parameter whose gradient is the node's first output.
  const ParameterLayout::Slot& gradient_slot(int32_t id) const {
    return *program_->parameters_->find(gradients_.at({id, 0})[0]);
  }

  /// From the kernel that follows.
  void begin_updates() {
    if (!updates_) program_->first_update_ = program_->kernels_.size();
    updates_ = true;
  }

  void find_last_readers() {
    for (size_t id = 0; id < graph_.nodes().size(); ++id) {
      for (Value v : graph_.nodes()[id].inputs) {
        if (v) last_readers_[v] = static_cast<int32_t>(id);
      }
    }
    for (const auto& [name, v] : graph_.outputs()) named_.insert(v);
  }

  /// The last node that reads the value; −1 if none does.
  int32_t last_reader(Value v) const {
    const auto it = last_readers_.find(v);
    return it == last_readers_.end() ? -1 : it->second;
  }

  void place_results() {
    for (const auto& [name, v] : graph_.outputs()) {
      if (gradients_.count(v)) continue;
      const Stored& s = stored_.at(v);
      if (s.storage >= 0) lifetimes_[s.storage].last = now();
      results_.push_back({name, s});
    }
  }

  void place_temporaries() {
    const MemoryPlan plan = plan_memory(lifetimes_, options_.reuse_memory);
    const auto place = [&](Location& location, int storage) {
      if (storage >= 0) location.offset = plan.offsets[storage];
    };
    for (size_t k = 0; k < storages_.size(); ++k) {
      Program::Kernel& kernel = program_->kernels_[k];
      for (size_t i = 0; i < kernel.inputs.size(); ++i)
        place(kernel.inputs[i], storages_[k].inputs[i]);
      for (size_t i = 0; i < kernel.outputs.size(); ++i)
        place(kernel.outputs[i], storages_[k].outputs[i]);
      place(kernel.scratch, storages_[k].scratch);
    }
    for (auto& [name, stored] : results_) {
      place(stored.location, stored.storage);
      program_->results_[name] = {stored.location, stored.layout};
    }
    program_->arena_bytes_ = plan.bytes;
    program_->arena_bytes_without_reuse_ =
        plan_memory(lifetimes_, false).bytes + plan_memory(in_place_, false).bytes;
  }

  struct Storages {
    std::vector<int> inputs, outputs;
    int scratch;

    std::vector<int> all() const {
      std::vector<int> all{scratch};
      all.insert(all.end(), inputs.begin(), inputs.end());
      all.insert(all.end(), outputs.begin(), outputs.end());
      std::erase(all, -1);
      return all;
    }
  };

  const Graph& graph_;
  const CompileOptions& options_;
  Device& device_;
  const std::string_view kernels_;
  const bool crowded_;
  const DType precision_;
  std::shared_ptr<Program> program_;
  std::vector<PreparedKernel> prepared_;                          // by node
  std::map<Value, std::vector<std::string>> gradients_;           // parameters whose gradient it is
  std::map<std::string, int32_t> parameter_ids_;                  // nodes by name
  std::map<int32_t, std::function<Call(Operands)>> own_updates_;  // by the gradient's node
  std::map<Value, Stored> stored_;
  std::map<Value, std::list<Stored>> conversions_;
  std::map<Value, int32_t> last_readers_;
  std::set<Value> named_;  // outputs of the graph
  bool updates_ = false;   // some parameter is updated by a kernel
  std::vector<Lifetime> lifetimes_;
  std::vector<Lifetime> in_place_;  // what would need memory of its own without reuse
  std::vector<Storages> storages_;  // by kernel
  std::deque<size_t> lagging_;      // kernels given aside that may be under way now
  Casts cast_gradients_;            // at the program's end
  std::set<int> taken_;             // storages that the current node computes in place of
  std::vector<std::pair<std::string, Stored>> results_;
};

std::shared_ptr<const Program> Program::compile(const Graph& graph, const CompileOptions& options) {
  return Compiler(graph, options).run();
}

bool CompileOptions::same_programs(CompileOptions other) const {
  if (crowded() != other.crowded()) return false;
  other.programs = programs;
  other.parameters = parameters;
  return *this == other;
}

}  // namespace crossbow
