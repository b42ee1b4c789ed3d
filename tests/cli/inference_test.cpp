// `crossbow eval` and `crossbow predict`.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/program.h"
#include "data/image.h"
#include "data/pictures.h"
#include "train/checkpoints.h"

namespace crossbow {
namespace {

using nlohmann::json;
using testing::expect_says;

class Inference : public testing::ProgramTest {
 protected:
  /// A picture of one colour, darker to the right.
  static data::Image shaded(int64_t height, int64_t width, int red, int green, int blue) {
    data::Image image{height, width, {}};
    for (int64_t i = 0; i < height * width; ++i) {
      const auto dark = static_cast<int>(i % width);
      for (const int c : {red, green, blue}) {
        image.rgb.push_back(static_cast<uint8_t>(std::max(0, c - dark)));
      }
    }
    return image;
  }
  /// Pictures that are wider than high, of three classes, of which two are learned with ease.
  void make_pictures() const {
    for (int i = 0; i < 8; ++i) {
      for (const char* part : {"train", "test"}) {
        const auto add = [&](const char* name, const data::FileBytes& bytes, const char* kind) {
          data::write_file(path("pictures") / part / name / (std::to_string(i) + kind), bytes);
        };
        add("red", data::encode_png(shaded(6, 10, 200 + i, 20, 20)), ".png");
        add("green", data::encode_jpeg(shaded(6, 10, 20, 200 + i, 20)), ".jpg");
        add("redder", data::encode_png(shaded(6, 10, 201 + i, 20, 20)), ".png");
      }
    }
  }
  std::string train_on_pictures(const std::string& more = "") const {
    return "train --model logistic --device ref --learners 1 --threads-per-learner 1 --epochs 3 "
           "--lr 0.05 --batch 4 --out run --data imagefolder:pictures " +
           more;
  }
};

TEST_F(Inference, EvalTakesPicturesThatAreNotSquare) {
  make_pictures();
  const Outcome trained = crossbow(train_on_pictures("--json"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Outcome o = crossbow("eval run --json");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(json::parse(o.out)["test_accuracy"], json::parse(trained.out)["final_test_accuracy"]);
}

/// The net has no normalisation of its own, nor a border in its recipe.
TEST_F(Inference, EvalAndTrainingSeePicturesAlike) {
  make_pictures();
  const Outcome trained = crossbow(train_on_pictures("--json --pad 1"));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto normalisation = testing::load(path("run").string()).normalisation;
  ASSERT_TRUE(normalisation);
  for (const size_t c : {0, 1, 2}) {
    EXPECT_EQ(normalisation->mean[c], 0.5f);
    EXPECT_EQ(normalisation->std[c], 0.5f);
  }
  const Outcome o = crossbow("eval run --json");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NEAR(json::parse(o.out)["test_loss"].get<double>(),
              json::parse(trained.out)["final_test_loss"].get<double>(), 1e-6);
}

/// What is given as another data set is scaled to the model's shape, not to its own first image's.
TEST_F(Inference, EvalScalesOtherPicturesToTheModelsShape) {
  make_pictures();
  ASSERT_EQ(crossbow(train_on_pictures()).code, 0);
  for (const char* part : {"train", "test"}) {
    for (const char* name : {"red", "green", "redder"}) {
      data::write_file(path("larger") / part / name / "1.png",
                       data::encode_png(shaded(30, 31, name[0] == 'r' ? 220 : 20,
                                               name[0] == 'g' ? 220 : 20, 0)));
    }
  }
  const Outcome o = crossbow("eval run --json --data imagefolder:larger");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(json::parse(o.out)["samples"], 3);
  EXPECT_EQ(o.err, "");
  for (const char* part : {"train", "test"}) {
    std::filesystem::rename(path("larger") / part / "red", path("larger") / part / "orange");
  }
  expect_says(crossbow("eval run --data imagefolder:larger").err,
              "class 1 is 'red', that of imagefolder:larger is 'orange'");
}

/// A trained model is judged, and its outputs read, by the loss that it was trained by.
TEST_F(Inference, KeepsTheLossOfTheRun) {
  make_pictures();
  for (const std::string loss : {"--loss sigmoid", "--loss mse", "--label-smoothing 0.2"}) {
    SCOPED_TRACE(loss);
    const Outcome trained = crossbow(train_on_pictures("--json " + loss));
    ASSERT_EQ(trained.code, 0) << trained.err;
    EXPECT_NEAR(json::parse(crossbow("eval run --json").out)["test_loss"].get<double>(),
                json::parse(trained.out)["final_test_loss"].get<double>(), 1e-6);
    const json predicted = json::parse(crossbow("predict run pictures/test --json").out);
    bool sums_to_one = true;
    for (const json& picture : predicted["predictions"]) {
      double sum = 0, before = 1;
      for (const json& c : picture["classes"]) {
        const double probability = c["probability"].get<double>();
        EXPECT_GE(before, probability);
        EXPECT_GE(probability, 0);
        sum += before = probability;
      }
      sums_to_one = sums_to_one && std::abs(sum - 1) < 1e-9;
    }
    EXPECT_EQ(sums_to_one, loss == "--label-smoothing 0.2");
    std::filesystem::remove_all(path("run"));
  }
}

/// As its weights expect, wherever the pictures come from.
TEST_F(Inference, ANetOfImageNetSeesPicturesOfItsMeanAndDeviation) {
  make_pictures();
  const std::string net = "--model resnet-18 --device cpu --image-size 32 --epochs 1 --json ";
  const Outcome trained = crossbow(train_on_pictures(net));
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto normalisation = testing::load(path("run").string()).normalisation;
  ASSERT_TRUE(normalisation);
  EXPECT_FLOAT_EQ(normalisation->mean[2], 0.406f);
  EXPECT_FLOAT_EQ(normalisation->std[0], 0.229f);
  EXPECT_NEAR(json::parse(crossbow("eval run --json").out)["test_loss"].get<double>(),
              json::parse(trained.out)["final_test_loss"].get<double>(), 1e-5);

  EXPECT_EQ(crossbow("export run weights.safetensors --json").code, 0);
  std::filesystem::rename(path("run"), path("first"));
  const std::string start = "--init weights.safetensors --lr 1e-9 --momentum 0 --sync none ";
  const Outcome again = crossbow(train_on_pictures(net + start + "--bn-images 0"));
  EXPECT_EQ(again.code, 0) << again.err;
  expect_says(crossbow("export run weights.onnx").err, "FILE.safetensors");
}

/// Whatever the file claims, in little memory.
TEST_F(Inference, WeightsThatAreNoneAreRefused) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer takes more address space than any limit";
#endif
  make_pictures();
  const auto refused = [&](uint64_t length, const std::string& header,
                           const std::string& sentence) {
    std::string file(reinterpret_cast<const char*>(&length), sizeof length);
    std::ofstream(path("weights.safetensors")) << file << header;
    const Outcome o =
        shell("ulimit -v 1000000; " + crossbow_binary() + ' ' +
              train_on_pictures("--model resnet-18 --device cpu --init weights.safetensors"));
    EXPECT_EQ(o.code, 1);
    expect_says(o.err, "weights.safetensors: " + sentence);
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
  };
  const std::string tensor = R"({"conv1.weight":{"dtype":"F32","shape":[1000000,1000000],)"
                             R"("data_offsets":[0,4]}})";
  refused(uint64_t{1} << 60, "{}", "it is no file of safetensors: its header would have ");
  refused(tensor.size(), tensor,
          "tensor conv1.weight: its values are said to be where the file has none");
  refused(tensor.size(), tensor + "4444",
          "tensor conv1.weight: 4 bytes are not what its shape and type take");
  std::string many = "{";
  for (int i = 0; i < 100'000; ++i) {
    many += fmt::format(R"("{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}},)", i);
  }
  many.back() = '}';
  refused(many.size(), many, "it has no tensor conv1.weight among its 100000, ");
}

TEST_F(Inference, EvalTellsEachClassAndWhatIsTakenForWhat) {
  make_pictures();
  ASSERT_EQ(crossbow(train_on_pictures()).code, 0);
  const json j = json::parse(crossbow("eval run --json").out);
  ASSERT_EQ(j["per_class"].size(), 3u);
  EXPECT_EQ(j["per_class"][0]["class"], "green");
  EXPECT_EQ(j["per_class"][2]["class"], "redder");
  double right = 0;
  for (size_t c = 0; c < 3; ++c) {
    const json& row = j["confusion"][c];
    EXPECT_EQ(j["per_class"][c]["samples"], 8);
    EXPECT_EQ(row[0].get<int>() + row[1].get<int>() + row[2].get<int>(), 8);
    EXPECT_EQ(j["per_class"][c]["accuracy"], row[c].get<double>() / 8);
    right += row[c].get<double>();
  }
  EXPECT_EQ(j["test_accuracy"], right / 24);
  EXPECT_EQ(j["per_class"][0]["accuracy"], 1);

  const Outcome text = crossbow("eval run");
  expect_says(text.out, "predicted as");
  expect_says(text.out, "0 green");
  expect_says(text.out, "100.00 %");
}

TEST_F(Inference, EvalOfManyClassesShowsTheWorst) {
  for (int c = 0; c < 14; ++c) {
    for (const char* part : {"train", "test"}) {
      data::write_file(path("many") / part / ("class" + std::to_string(c)) / "a.png",
                       data::encode_png(shaded(5, 5, 15 * c, 0, 0)));
    }
  }
  ASSERT_EQ(crossbow(train_on_pictures("--data imagefolder:many")).code, 0);
  const Outcome o = crossbow("eval run");
  EXPECT_EQ(o.code, 0) << o.err;
  expect_says(o.out, "least accurate classes");
  expect_says(o.out, "most frequent confusions of");
  EXPECT_EQ(o.out.find("predicted as"), o.out.npos);
}

/// The matrix that predictions of a folder's pictures make.
json confusion_of(const json& predicted, const std::vector<std::string>& classes) {
  std::map<std::string, size_t> index;
  for (const std::string& name : classes) index.emplace(name, index.size());
  std::vector<std::vector<int>> counts(classes.size(), std::vector<int>(classes.size()));
  for (const json& picture : predicted["predictions"]) {
    const std::filesystem::path path(picture["path"].get<std::string>());
    const std::string actual = path.parent_path().filename().string();
    ++counts.at(index.at(actual)).at(index.at(picture["classes"][0]["class"].get<std::string>()));
  }
  return counts;
}

TEST_F(Inference, PredictAgreesWithEval) {
  make_pictures();
  ASSERT_EQ(crossbow(train_on_pictures()).code, 0);
  const Outcome o = crossbow("predict run pictures/test --json");
  ASSERT_EQ(o.code, 0) << o.err;
  const json predicted = json::parse(o.out);
  ASSERT_EQ(predicted["predictions"].size(), 24u);
  EXPECT_EQ(confusion_of(predicted, {"green", "red", "redder"}),
            json::parse(crossbow("eval run --json").out)["confusion"]);
  double sum = 0;
  for (const json& c : predicted["predictions"][0]["classes"])
    sum += c["probability"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);  // three classes are all
}

/// Its training images had one channel: pictures become grey ones, and are normalised as those.
TEST_F(Inference, PredictOfAGreyModelAgreesWithEval) {
  ASSERT_EQ(crossbow(tiny("--out run")).code, 0);
  const auto set = data::open_dataset(data_.spec());
  for (int64_t i = 0; i < set->test->size(); ++i) {
    data::Image image{8, 8, {}};
    const uint8_t* pixels = data::pixels_of(*set->test, i);
    for (int p = 0; p < 64; ++p) image.rgb.insert(image.rgb.end(), 3, pixels[p]);
    data::write_file(
        path("digits") / std::to_string(set->test->label(i)) / (std::to_string(i) + ".png"),
        data::encode_png(image));
  }
  const Outcome o = crossbow("predict run digits --json");
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(confusion_of(json::parse(o.out), set->info.class_names),
            json::parse(crossbow("eval run --json").out)["confusion"]);
}

TEST_F(Inference, PredictNamesABadImageAfterTheOthers) {
  make_pictures();
  ASSERT_EQ(crossbow(train_on_pictures()).code, 0);
  data::write_file(path("bad.png"), {'h', 'i'});
  const Outcome o = crossbow("predict run bad.png pictures/test/green/1.jpg nowhere.png --top 1");
  EXPECT_EQ(o.code, 1);
  expect_says(o.out, "pictures/test/green/1.jpg: green ");
  EXPECT_EQ(o.out.find("red"), o.out.npos) << o.out;
  expect_says(o.err, "bad.png: this is neither a JPEG nor a PNG");
  expect_says(o.err, "nowhere.png does not exist");

  const Outcome all_bad = crossbow("predict run bad.png --json");
  EXPECT_EQ(all_bad.code, 1);
  const json j = json::parse(all_bad.out);
  expect_says(j["predictions"][0]["error"].get<std::string>(), "neither a JPEG");
  EXPECT_EQ(crossbow("predict run bad.png --top 0").code, 2);
  EXPECT_EQ(crossbow("predict run").code, 2);
}

/// A checkpoint from before they were kept tells neither names nor normalisation.
TEST_F(Inference, PredictTakesFromTheDataWhatAnOldCheckpointLacks) {
  make_pictures();
  ASSERT_EQ(crossbow(train_on_pictures()).code, 0);
  const json now = json::parse(crossbow("predict run pictures/test --json").out);
  Checkpoint old = testing::load(path("run").string());
  EXPECT_EQ(old.class_names, (std::vector<std::string>{"green", "red", "redder"}));
  old.class_names.clear();
  old.normalisation.reset();
  save_checkpoint(path("run"), old);
  const Outcome o = crossbow("predict run pictures/test --json");
  EXPECT_EQ(o.code, 0);
  expect_says(o.err, "does not name its classes");
  EXPECT_EQ(json::parse(o.out)["predictions"], now["predictions"]);
  std::filesystem::remove_all(path("pictures/train"));
  EXPECT_EQ(crossbow("predict run pictures/test").code, 1);
}

}  // namespace
}  // namespace crossbow
