// crossbow predict
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "cli/inference.h"
#include "cli/results.h"
#include "core/error.h"
#include "core/file.h"
#include "core/seconds_since.h"
#include "data/picture.h"

namespace crossbow::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPredictExamples =
    R"(Images are scaled as those of the test: the middle of the model's proportions.
They should look like the training images: MNIST's digits are white on black.

Examples:
  crossbow predict runs/resnet-20-imagefolder-1 cat.jpg dog.png
  crossbow predict runs/resnet-20-imagefolder-1 pictures/ --top 1
  crossbow predict runs/lenet-mnist-1/checkpoint.best digits/ --json
)";

struct PredictFlags {
  InferenceFlags inference;
  std::vector<std::string> paths;
  int64_t top = 3;
  bool json = false;
};

struct Picture {
  std::string path;
  std::string error;                                // empty if it could be read
  std::vector<std::pair<int64_t, double>> classes;  // with probabilities, the likeliest first
};

/// The pictures as they are asked for; one that cannot be read is noted, and black.
class Pictures final : public data::Split {
 public:
  Pictures(std::vector<Picture>& pictures, const data::Info& info)
      : Split(std::vector<int32_t>(pictures.size())), pictures_(pictures), info_(info) {}

  /// Each is asked for once, so that threads write to different ones.
  data::Sample sample(int64_t i, std::vector<uint8_t>* scratch) const override {
    Picture& picture = pictures_[static_cast<size_t>(i)];
    scratch->assign(static_cast<size_t>(info_.image.elements()), 0);
    try {
      const std::string file = read_text_file(picture.path, data::kLargestPicture);
      try {
        cut(file, scratch->data());
      } catch (const Error& e) {
        fail("{}: {}", picture.path, e.what());
      }
    } catch (const Error& e) {
      picture.error = e.what();
    }
    return scratch->data();
  }
  bool in_memory() const override { return false; }

 private:
  void cut(const std::string& file, uint8_t* chw) const {
    const Shape& image = info_.image;
    data::PictureCutter cutter;
    const data::PictureSize size =
        cutter.open({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
    cutter.cut(data::centred(size, image[1], image[2], info_.centre), image, chw);
  }

  std::vector<Picture>& pictures_;
  const data::Info& info_;
};

/// The files in a folder and those below it, in the order of their names; hidden ones are left out.
void add_folder(const fs::path& folder, std::vector<Picture>& pictures) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().filename().native().front() != '.') entries.push_back(it->path());
  }
  if (error) {
    pictures.push_back(
        {folder.string(),
         fmt::format("cannot read the folder {}: {}", folder.string(), error.message()),
         {}});
    return;
  }
  std::sort(entries.begin(), entries.end());
  for (const fs::path& path : entries) {
    std::error_code ignored;
    const bool link = fs::is_symlink(path, ignored);  // of a folder, it may lead in a circle
    if (fs::is_directory(path, ignored)) {
      if (!link) add_folder(path, pictures);
    } else if (fs::is_regular_file(path, ignored)) {
      pictures.push_back({path.string(), {}, {}});
    }
  }
}

/// A file, or a folder's pictures.
std::vector<Picture> list_pictures(const std::string& path) {
  const fs::file_type type = type_of(path.c_str());
  if (type == fs::file_type::regular) return {{path, {}, {}}};
  if (type == fs::file_type::not_found) fail("{} does not exist", path);
  if (type != fs::file_type::directory) fail("{} is neither a file nor a folder", path);
  std::vector<Picture> pictures;
  add_folder(path, pictures);
  if (pictures.empty()) fail("{} holds no images", path);
  return pictures;
}

std::vector<Picture> list_pictures(const std::vector<std::string>& paths) {
  std::vector<Picture> pictures;
  for (const std::string& path : paths) {
    try {
      const std::vector<Picture> there = list_pictures(path);
      pictures.insert(pictures.end(), there.begin(), there.end());
    } catch (const Error& e) {
      pictures.push_back({path, e.what(), {}});
    }
  }
  return pictures;
}

/// Of the net's outputs, as the loss trained them: by cross-entropy the softmax is a probability,
/// of each class alone the sigmoid, and by mean squared error the output itself, but for its error.
struct Probability {
  std::span<const double> outputs;

  double operator()(double x, const CrossEntropyLoss&) const {
    const double most = *std::max_element(outputs.begin(), outputs.end());
    double sum = 0;
    for (const double other : outputs) sum += std::exp(other - most);
    return std::exp(x - most) / sum;
  }
  double operator()(double x, const BCEWithLogitsLoss&) const { return 1 / (1 + std::exp(-x)); }
  double operator()(double x, const MSELoss&) const { return std::clamp(x, 0.0, 1.0); }
};

/// The classes with the largest outputs, and their probabilities.
std::vector<std::pair<int64_t, double>> likeliest(std::span<const double> outputs, int64_t top,
                                                  const Loss& loss) {
  std::vector<std::pair<int64_t, double>> classes;
  for (const double x : outputs) classes.emplace_back(static_cast<int64_t>(classes.size()), x);
  std::stable_sort(classes.begin(), classes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (static_cast<int64_t>(classes.size()) > top) classes.resize(static_cast<size_t>(top));
  for (auto& [c, x] : classes) {
    x = std::visit([&, x = x](const auto& l) { return Probability{outputs}(x, l); }, loss);
  }
  return classes;
}

/// Fills in the classes, and the errors of those that cannot be read.
void predict(const TrainedModel& model, const data::Info& info, int64_t top,
             std::vector<Picture>& pictures) {
  std::vector<Picture> readable;
  std::vector<size_t> places;
  for (size_t i = 0; i < pictures.size(); ++i) {
    if (!pictures[i].error.empty()) continue;
    readable.push_back(pictures[i]);
    places.push_back(i);
  }
  if (readable.empty()) return;
  const Loss& loss = model.config().loss;
  const data::Dataset dataset{info, nullptr, std::make_shared<Pictures>(readable, info)};
  model.run(dataset, [&](int64_t first, std::span<const double> logits) {
    const auto classes = static_cast<size_t>(info.classes);
    for (; !logits.empty(); logits = logits.subspan(classes)) {
      readable[static_cast<size_t>(first++)].classes = likeliest(logits.first(classes), top, loss);
    }
  });
  for (size_t i = 0; i < places.size(); ++i) pictures[places[i]] = std::move(readable[i]);
}

Json to_json(const Picture& picture, const data::Info& info) {
  if (!picture.error.empty()) return {{"path", picture.path}, {"error", picture.error}};
  Json classes = Json::array();
  for (const auto& [c, probability] : picture.classes) {
    classes.push_back(
        {{"class", info.class_names[static_cast<size_t>(c)]}, {"probability", probability}});
  }
  return {{"path", picture.path}, {"classes", classes}};
}

void print_line(const Picture& picture, const data::Info& info) {
  std::string line;
  for (const auto& [c, probability] : picture.classes) {
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ",
                        info.class_names[static_cast<size_t>(c)], percent(probability));
  }
  put_wrapped(stdout, "", printable(fmt::format("{}: {}", picture.path, line)));
}

int run(const PredictFlags& flags) {
  if (flags.top < 1) fail_usage("--top {}: it must be at least 1", flags.top);
  const auto start = std::chrono::steady_clock::now();
  const TrainedModel model = flags.inference.model();
  const data::Info info = model.info();
  const Shape& image = info.image;
  if (image.rank() != 3 || (image[0] != 1 && image[0] != 3)) {
    fail("the model is of inputs of shape {}, which are no images", image.str());
  }
  std::vector<Picture> pictures = list_pictures(flags.paths);
  predict(model, info, flags.top, pictures);
  Json predictions = Json::array();
  bool failed = false;
  for (const Picture& picture : pictures) {
    if (flags.json) predictions.push_back(to_json(picture, info));
    if (!picture.error.empty()) {
      failed = true;
      complain("crossbow predict", picture.error);
    } else if (!flags.json) {
      print_line(picture, info);
    }
  }
  const double seconds = seconds_since(start);
  if (flags.json) {
    print_json({{"model", model.config().model},
                {"predictions", std::move(predictions)},
                {"seconds", seconds}});
  }
  return failed ? 1 : 0;
}

}  // namespace

Run add_predict(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("predict", "classes of images, by a trained model");
  const auto flags = std::make_shared<PredictFlags>();
  flags->inference.add(app, /*data=*/false);
  app.add_option("path", flags->paths, "JPEG or PNG images, or folders of them")
      ->required()
      ->type_name("PATH");
  app.add_option("--top", flags->top, "how many classes to tell of each image [3]")->type_name("N");
  app.add_flag("--json", flags->json, "put one JSON object on standard output");
  app.footer(kPredictExamples);
  return [flags] { return run(*flags); };
}

}  // namespace crossbow::cli
