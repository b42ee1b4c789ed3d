// A net and its solver, for a training loop of one's own: one learner that does what it is told.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"
#include "data/dataset.h"
#include "models/model.h"
#include "train/record.h"

namespace crossbow {

/// An unset rate, momentum or weight decay is what the model's recipe says; of a net of one's own:
/// a rate of 0.01, a momentum of 0.9, no weight decay. Rows of numbers have no momentum by default,
/// and ten times the recipe's rate, as in `crossbow train`.
struct SessionOptions {
  // What the net sees: images of a data set, by its name or as an object, or else of a shape.
  std::optional<std::string> data = {};               // NAME or NAME:DIR, as `crossbow data` lists
  std::shared_ptr<const data::Dataset> dataset = {};  // for example data::from_memory
  Shape image = {};                                   // [channels, height, width]; without a set
  int64_t classes = 0;                                // without a set

  std::string loss = "cross-entropy";          // cross-entropy, sigmoid or mse: see models/loss.h
  std::optional<double> label_smoothing = {};  // in [0, 1), of cross-entropy; unset: 0
  int64_t batch = 16;                          // images of a step
  std::optional<double> lr = {};               // of the first steps; set_lr changes it
  std::optional<double> momentum = {}, weight_decay = {};  // as of TrainOptions
  std::optional<std::string> weight_decay_on = {};         // the same: all or weights
  std::optional<double> clip_norm = {};  // largest norm of the gradient; unset: no limit
  bool nesterov = false;
  uint64_t seed = 1;           // of the first weights, of dropout, of the order of a set's images
  std::string device = "cpu";  // as of TrainOptions, but for several
  std::string precision = "f32";                    // as of TrainOptions
  std::optional<int64_t> threads_per_learner = {};  // unset: one a core
  bool deterministic = false;                       // no timed choice of kernels
};

/// What the session says of a tensor.
struct SessionTensor {
  std::string name;
  Shape shape;
  bool trained = true;  // false: a state that training carries along, for example a running mean
};

/// Owns the net, its weights and all memory that it needs; copies what it is given. Images are
/// row-major floats [n, channels, height, width], as the net is to see them; labels int32 [n], in
/// [0, classes). One thread at a time; it need not always be the same.
///
/// Errors are UsageError for arguments that do not fit, naming what was given and what is needed,
/// and Error for the rest; a call that throws leaves the weights as they were.
class Session {
 public:
  /// A net of one's own, or a model by its name, options after a colon. Compiles the training step.
  Session(const ModelFunction& net, const SessionOptions& options);
  Session(const std::string& model, const SessionOptions& options);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Parameters, then states, in the order of the net; named as in checkpoints: "conv1.weight".
  std::vector<SessionTensor> tensors() const;
  /// Row-major: convolutions [outputs, inputs, height, width], dense layers [outputs, inputs]. The
  /// momentum of a tensor that is set stays as it is.
  std::vector<float> get(std::string_view name) const;
  void set(std::string_view name, std::span<const float> values);

  /// Above 0; from the next step on.
  void set_lr(double lr);
  /// One step on these images, as many as `batch`: forward, backward, update. Returns their mean
  /// loss before the update. Allocates nothing.
  float step(std::span<const float> images, std::span<const int32_t> labels);
  /// One step on the next training images of the data set, which come in another order in each
  /// epoch. The last batch of an epoch may be smaller.
  float step();

  /// With the running statistics, so that an image's result does not depend on the others. Any
  /// number of images; the first call for a number that it has not seen compiles a program.
  Evaluation evaluate(std::span<const float> images, std::span<const int32_t> labels);
  /// On the data set's test images.
  Evaluation evaluate();
  /// Logits, row-major [n, classes].
  std::vector<float> predict(std::span<const float> images);

  /// Writes weights and states as a checkpoint into the folder, which is made if it is not there;
  /// the checkpoint before stays as the previous one. `crossbow eval` and `crossbow predict` read
  /// it if the net is a model by name; `crossbow train --resume` does not.
  void save(const std::filesystem::path& folder) const;
  /// Takes weights and states from a checkpoint file or the folder of save() or of a run, and
  /// begins with zero momentum. `warn` is told if the newest checkpoint is damaged and the one
  /// before was taken. Throws Error, naming the tensor, for the checkpoint of another net.
  void load(const std::filesystem::path& run,
            const std::function<void(std::string_view)>& warn = {});

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace crossbow
