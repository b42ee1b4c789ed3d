#include "train/team.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "comm/world.h"
#include "core/error.h"
#include "core/machine.h"
#include "core/text.h"
#include "graph/cost.h"

namespace crossbow {
namespace {

BatchShape batch_shape(const RunConfig& run, const data::Dataset& dataset) {
  BatchShape shape{run.batch, dataset.train->size() % run.batch, run.splits,
                   dataset.info.batch_format()};
  shape.steps = run.steps;
  return shape;
}
/// Of a worker's steps, if workers are unlike.
BatchShape batch_shape(const RunConfig& run, const TeamConfig& team, size_t worker,
                       const data::Dataset& dataset) {
  BatchShape shape = batch_shape(run, dataset);
  if (!team.workers.empty()) {
    shape.sizes = node_worker(team.workers[worker], *team.async, run.batch).rows;
  }
  return shape;
}

int64_t images_measured(const CompiledModel& model, const RunConfig& run, const TeamConfig& team) {
  return run.bn_images(team, model.parameters()->state_elements > 0);
}

data::PipelineOptions statistics_pipeline(const RunConfig& run, const data::Dataset& dataset,
                                          int workers) {
  data::PipelineOptions p = run.training_batches(/*learners=*/0);
  p.batch = evaluation_rows(batch_shape(run, dataset).part_rows(), dataset.train->size());
  p.least_depth = 2 * workers;
  return p;
}

/// Numbers of rows that are nobody's choice need an explanation where the net refuses them. A last
/// batch of one row is refused before the first step, rather than left out: every epoch is the
/// whole set, and another batch size costs the user nothing.
void expect_rows_fit(const Graph& forward, const RunConfig& run, const BatchShape& batch,
                     const data::Dataset& dataset) {
  for (const int64_t rows : batch.program_rows()) {
    try {
      training_graph(forward, rows);
    } catch (const Error& e) {
      if (rows == run.batch || !batch.sizes.empty()) throw;
      if (rows == batch.part_rows() || rows == batch.rows % batch.part_rows()) {
        fail("{}: `splits` {} cuts batches of {} into parts, one of them of {}; choose fewer",
             e.what(), run.splits, run.batch, count(rows, "row"));
      }
      fail(
          "{}: {} training {}s in batches of {} leave a last batch, or a part of it, with {}; "
          "choose another `batch`",
          e.what(), dataset.train->size(), dataset.info.noun(), run.batch, count(rows, "row"));
    }
  }
}

/// All programs of the run, so that the arenas can be made.
Team::OwnModels compile(const Graph& forward, const RunConfig& run, const TeamConfig& team,
                        const data::Dataset& dataset, Tuner& tuner, const Team::OwnModels& known) {
  if (parameter_count(forward) == 0) {
    fail("the model '{}' has no parameters, so there is nothing to train", forward.name());
  }
  std::vector<CompileOptions> of_workers;
  for (size_t w = 0; w < std::max<size_t>(1, team.workers.size()); ++w) {
    of_workers.push_back(run.compile_options(team, &tuner, w));
  }
  const bool all_known =
      std::equal(of_workers.begin(), of_workers.end(), known.begin(), known.end(),
                 [](const CompileOptions& options, const auto& model) {
                   return options.same_programs(model->options());
                 });
  Team::OwnModels models;
  for (size_t w = 0; w < of_workers.size(); ++w) {
    CompileOptions& options = of_workers[w];
    if (w > 0) options.parameters = models.front()->parameters();
    // oneDNN divides a kernel's work when it is prepared, which this thread does for the workers.
    find_device(run.device.kind).expect_team(options.threads);
    const BatchShape batch = batch_shape(run, team, w, dataset);
    expect_rows_fit(forward, run, batch, dataset);  // before kernels are timed
    models.push_back(all_known ? known[w] : std::make_shared<CompiledModel>(forward, options));
    CompiledModel& model = *models.back();
    for (const int64_t rows : batch.program_rows()) model.training(rows);
    // Whoever has as many threads helps to evaluate.
    const CompileOptions& first = models.front()->options();
    if (options.threads != first.threads || options.device != first.device) continue;
    Evaluator::compile(model, dataset.test->size(),
                       evaluation_rows(batch.part_rows(), dataset.test->size()));
    if (images_measured(model, run, team) > 0) {
      model.statistics(statistics_pipeline(run, dataset, 0).batch);
    }
  }
  return models;
}

std::vector<CompiledModel*> pointers(const Team::OwnModels& models) {
  std::vector<CompiledModel*> all;
  for (const auto& model : models) all.push_back(model.get());
  return all;
}

std::unique_ptr<Statistics> statistics_of(CompiledModel& model, const RunConfig& run,
                                          const TeamConfig& team, Engine& engine,
                                          const data::Dataset& dataset) {
  const int64_t images = images_measured(model, run, team);
  if (images == 0) return nullptr;
  return std::make_unique<Statistics>(
      model, engine.model(), engine.workers(), engine.evaluation_workspaces(), dataset,
      statistics_pipeline(run, dataset, engine.workers().count()), images);
}

/// What a team takes, in MiB, of a memory that has a limit of its own.
struct Share {
  std::string of;  // for messages; empty if there is but one such memory
  double taken, left;
  double needed = taken;  // while the team is made and filled
  double spare = 0;       // for recordings, and what libraries keep, which nobody counts
};

/// Of the host's memory, then of each device's that has its own.
std::vector<Share> shares(const LearnerMemory& m, const RunConfig& run) {
  const bool apart = !find_device(run.device.kind).is_host();
  const double host = apart ? m.host_mb() : m.total_mb();
  // The host also has a replica that the team starts from, and later what it looks at to save it.
  std::vector<Share> all = {{apart ? " of the host's memory" : "", host, free_memory_mb(),
                             host + 2 * (m.evaluated + m.frozen)}};
  const auto add = [&](const std::string& name, double needed, const Device& device) {
    all.push_back({" of the memory of " + name, needed, device.free_memory_mb(), needed,
                   device.memory_mb() / 32});
  };
  for (int d = 0; apart && d < m.devices; ++d) {
    add(device_name(run.device.kind, d), m.device_mb(d), find_device(run.device.kind, d));
  }
  for (const auto& [name, needed] : m.away) add(name, needed, find_device(name));
  return all;
}

/// `batches` has some of its buffers already.
const LearnerMemory& refuse_too_much(const LearnerMemory& memory, const RunConfig& run,
                                     const data::TrainingBatches& batches) {
  malloc_trim(0);  // what another team had is not taken any more
  std::vector<Share> all = shares(memory, run);
  all[0].needed -= mebibytes(static_cast<double>(batches.buffer_bytes()));
  for (const Share& share : all) {
    if (share.needed <= share.left) continue;
    fail_usage(
        "`learners` {}: with a batch of {} they need {:.0f} MiB{}, and this process may take "
        "{:.0f} more; choose fewer, a smaller `batch`, or more `splits`",
        memory.learners / memory.devices, run.batch, share.needed, share.of, share.left);
  }
  return memory;
}

/// `ranges`: bytes of the buffers that unlike workers have for theirs.
LearnerMemory memory_for(Models models, const RunConfig& run, const TeamConfig& team,
                         const data::Dataset& dataset, int64_t ranges = 0) {
  CompiledModel& model = *models[0];
  const BatchShape batch = batch_shape(run, dataset);
  LearnerMemory m = run.memory(models, team, batch);
  const auto add_pipeline = [&](const data::Split& split, const data::PipelineOptions& p) {
    const int64_t bytes =
        data::Pipeline::buffer_bytes(dataset.info.batch_format(), split.size(), p);
    m.batches += mebibytes(static_cast<double>(bytes));
  };
  const auto add_programs = [&](const Program& program) {
    m.bound += m.workers * execution_mb(program);
  };
  if (team.workers.empty()) {
    add_pipeline(*dataset.train, run.training_batches(team.learners_here()));
  } else {
    m.batches += mebibytes(static_cast<double>(ranges));
  }
  const int64_t rows = evaluation_rows(batch.part_rows(), dataset.test->size());
  add_pipeline(*dataset.test, Evaluator::pipeline_options(rows, m.workers));
  add_programs(*model.evaluation(rows));
  add_programs(*model.evaluation(rows));  // of the last batch, about
  if (const int64_t images = images_measured(model, run, team); images > 0) {
    const data::PipelineOptions p = statistics_pipeline(run, dataset, m.workers);
    add_pipeline(*dataset.train, p);
    add_programs(*model.statistics(p.batch));
    const int64_t batches = Statistics::batches(dataset.train->size(), p.batch, images);
    const auto states = static_cast<double>(model.parameters()->state_elements *
                                            static_cast<int64_t>(sizeof(float)));
    m.evaluated += mebibytes(static_cast<double>(m.workers + batches + 1) * states);
  }
  return m;
}

}  // namespace

Team::Team(const Graph& forward, const RunConfig& run, const TeamConfig& team,
           const data::Dataset& dataset, data::TrainingBatches& batches, Tuner& tuner,
           const OwnModels& known)
    : config(team),
      models(compile(forward, run, team, dataset, tuner, known)),
      memory(refuse_too_much(
          memory_for(pointers(models), run, team, dataset, batches.buffer_bytes()), run, batches)),
      engine(run.engine(pointers(models), team, batch_shape(run, dataset), batches.samples())),
      evaluator(*models.front(),
                std::vector(engine->evaluation_workspaces().size(), &engine->model()),
                engine->workers(), engine->evaluation_workspaces(), dataset,
                evaluation_rows(engine->batch().part_rows(), dataset.test->size())),
      statistics(statistics_of(*models.front(), run, team, *engine, dataset)) {
  const int64_t here = team.learners_here();
  batches.serve(run.training_batches(team.learners_here()).least_depth,
                {world_rank() * here, here, team.learners()});
  // For what grows by itself, like the stack, which ends the process where it cannot.
  constexpr double kMargin = 16;
  expect_memory(kMargin);
}

const Replica& Team::model_at(int64_t samples) {
  Replica& replica = engine->snapshot();
  if (statistics) statistics->apply(replica, samples);
  return replica;
}

int Team::affordable(const RunConfig& run, const data::Dataset& dataset, int most) {
  if (!config.workers.empty()) return most;  // there is no other team
  const std::vector<Share> now = shares(memory, run);
  const DeviceKind kind = device_kind(run.device.kind);
  const TeamConfig largest = run.team({most, 1});  // its algorithm takes as much for any number
  const auto fits = [&](int learners) {
    TeamConfig team = largest;
    team.arrangement.learners = learners;
    team.threads = plan_threads(kind, run.device.count, learners, 1);
    const LearnerMemory m = memory_for(pointers(models), run, team, dataset);
    std::vector<Share> then = shares(m, run);
    then[0].needed += m.saved;
    return std::equal(then.begin(), then.end(), now.begin(), [](const Share& a, const Share& b) {
      return a.needed + a.spare <= b.left + b.taken;
    });
  };
  while (most > 1 && !fits(most)) --most;
  return most;
}

}  // namespace crossbow
