#include "comm/world.h"

#include <sched.h>

#include <cstdlib>
#include <initializer_list>

#include "comm/mpi.h"
#include "core/error.h"

namespace crossbow {
namespace {

std::unique_ptr<World> joined;
thread_local World* of_this_thread = nullptr;

/// What the first of these variables that is set says. Open MPI, MPICH and Slurm have their own.
int of_launcher(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names) {
    if (const char* const value = std::getenv(name)) return std::atoi(value);
  }
  return otherwise;
}

int launched() {
  const int processes = of_launcher({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, 0);
  if (processes > 0) return processes;
  return std::getenv("PMIX_RANK") ? of_launcher({"SLURM_STEP_NUM_TASKS"}, 1) : 1;
}

template <typename T>
void merge_of(std::span<T> values) {
  World* const ranks = world();
  if (!ranks || values.empty()) return;
  const auto all = ranks->all_gather(std::as_bytes(values));
  for (int r = 0; r < ranks->size(); ++r) {
    if (r == ranks->rank()) continue;
    const auto& bytes = all[static_cast<size_t>(r)];
    if (bytes.size() != values.size_bytes()) fail("ranks merge unlike numbers of values");
    std::vector<T> others(values.size());
    std::memcpy(others.data(), bytes.data(), bytes.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] += others[i];
  }
}

/// Kills those that stand still, for which the launcher would wait.
void end_together(World& all) {
  for (;;) {
    try {
      all.agree();
      if (all.rank() == 0) all.dismiss_spares();
      all.end_unheard();
      return;
    } catch (const RankLost&) {
      all.recover(World::Role::done);
    }
  }
}

}  // namespace

void join_world(int spares) {
  if (joined) return;
  if (launched() > 1) {
    joined = join_mpi(spares);
  } else if (spares > 0) {
    fail_usage("--spares {}: this is one process, not several ranks", spares);
  }
}

int launched_rank() {
  return launched() > 1 ? of_launcher({"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"}, 0) : 0;
}

World* world() {
  return of_this_thread ? of_this_thread : joined.get();
}

WorldOfThread::WorldOfThread(World& world) {
  of_this_thread = &world;
}
WorldOfThread::~WorldOfThread() {
  of_this_thread = nullptr;
}

void leave_world() {
  if (!joined) return;
  if (joined->survives()) {
    if (!joined->is_spare()) end_together(*joined);
  } else {
    of_all_ranks('\0');  // the first to end might have the launcher end the others
  }
  joined.reset();
}

std::string agreed(std::string text) {
  text.resize(agreed(text.size()));
  if (World* const all = world()) all->broadcast(std::as_writable_bytes(std::span(text)));
  return text;
}

void merge(std::span<float> values) {
  merge_of(values);
}

void merge(std::span<double> values) {
  merge_of(values);
}

}  // namespace crossbow
