// A run's state on disk: enough to go on bit for bit, or to evaluate.
//
// The file is one of safetensors, with the checksum that train/safetensors.h describes, so Python
// opens it too. Parameters and states of the model to be evaluated are under their own names, and
// before the others' names is whose they are:
//
//   learner.0.weights/conv1.weight         a learner's, where it differs from the model's
//   learner.0.slot.momentum/conv1.weight   the optimizer's
//   learner.0.state/bn1.running_mean       a learner's running statistics
//   central.0/conv1.weight                 a buffer of the synchronisation algorithm's
//
// Metadata: `crossbow_checkpoint` is the format's version, 6; `run` is all else, as JSON. Values
// are row-major f32; the layouts that a device prefers never reach the disk. Files of versions 3
// to 5 (train/older_checkpoint.h) are read too.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/file.h"
#include "core/shape.h"
#include "data/dataset.h"
#include "learner/engine.h"
#include "train/options.h"
#include "train/record.h"

namespace crossbow {

struct Checkpoint {
  /// Of the model to be evaluated: parameter, state. Of each learner, where it differs: weights,
  /// slot, learner_state. Of the central model: whatever its algorithm keeps.
  enum class Role { parameter, state, weights, slot, learner_state, central };
  struct StoredTensor {
    std::string name;
    Role role = Role::parameter;
    int64_t index = 0;  // of the learner, 0 where all share it; of the central model's buffer
    Shape shape;
    /// Gives the row-major values from `first` on, which lie in the run's memory, in a file or in a
    /// copy; a whole run's state is too large to be copied for each use. Throws Error if a file
    /// cannot be read.
    std::function<void(int64_t first, std::span<float> values)> read;
    std::string slot = {};  // which of the optimizer's

    std::vector<float> values() const;
  };

  TrainOptions options;  // resolved
  Shape image;           // of the data set
  int64_t classes = 0;
  /// One a class, and how its images became numbers; older checkpoints have neither.
  std::vector<std::string> class_names;
  LabelKind label = LabelKind::one_class;  // these three as data::Info has them
  std::vector<int64_t> groups;
  uint32_t group_names = 0;
  std::optional<Normalisation> normalisation;
  int64_t samples = 0;  // training images
  Position position;
  std::vector<EpochRecord> history;
  std::map<std::string, std::string> plan;  // the kernels chosen: AlgorithmChooser's keys, answers
  int64_t metrics_bytes = 0;                // length of metrics.jsonl at this position
  int64_t turns_bytes = 0;                  // the same of an asynchronous run's turns
  std::vector<StoredTensor> tensors;
  std::string source = "the checkpoint";  // the file that it was read from, for errors

  /// Whether the set's samples and labels are of the kind that the run was trained on.
  bool fits(const data::Info& info) const {
    return image == info.image && classes == info.classes && label == info.label &&
           groups == info.groups &&
           (group_names == 0 || info.group_names == 0 || group_names == info.group_names);
  }
};

/// Puts the file into `sink`, tensor by tensor and piece by piece. Throws Error for a tensor with a
/// name that would be taken for another's.
void encode(const Checkpoint& checkpoint, const FileSink& sink);

/// Keeps `file` for the tensors' values, which it leaves where they are. Throws Error for anything
/// that encode has not written, using memory in proportion to the header.
Checkpoint decode(const FileBytes& file);
/// The same without a look at the tensors, whose damage goes unnoticed.
Checkpoint decode_header(const FileBytes& file);

/// Adds a model's parameters and states. Their values stay where they are: the checkpoint is of use
/// until `model` changes.
void store(const ParameterLayout& layout, const Replica& model, Checkpoint& checkpoint);
/// Adds what a run needs beside them to go on; as above.
void store(const ParameterLayout& layout, std::span<const EngineBuffer> buffers,
           Checkpoint& checkpoint);
/// Whether all that a checkpoint would hold are finite numbers. One pass over memory.
bool all_finite(const ParameterLayout& layout, const Replica& model,
                std::span<const EngineBuffer> buffers);
/// Copies all values, so that the checkpoint outlives what it was made from: for a state that goes
/// from one team of learners to the next.
void copy_values(Checkpoint& checkpoint);
/// Whether the checkpoint has what that buffer needs.
bool holds(const Checkpoint& checkpoint, const EngineBuffer& buffer);
/// The reverse. Throws Error naming the file and the tensor if the checkpoint is not of a net with
/// this layout.
void restore(const Checkpoint& checkpoint, const ParameterLayout& layout, const Replica& model);
void restore(const Checkpoint& checkpoint, const ParameterLayout& layout,
             std::span<const EngineBuffer> buffers);

/// `folder`/checkpoint, and the one before as `folder`/checkpoint.previous. At every moment, also
/// of a crash or on a full disk, at least one of them is whole: a damaged one is replaced, and
/// never becomes the one before.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint);
/// From a run's folder, or a checkpoint file itself, which stays open for the values. A folder
/// whose newest checkpoint is damaged gives the one before, after a call of `warn`. Throws Error if
/// there is none.
Checkpoint load_checkpoint(const std::filesystem::path& folder_or_file,
                           const std::function<void(std::string_view)>& warn);
/// The same without reading the tensors: quick, also for a large model.
Checkpoint load_checkpoint_header(const std::filesystem::path& folder_or_file,
                                  const std::function<void(std::string_view)>& warn);

}  // namespace crossbow
