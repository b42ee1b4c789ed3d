// README's commands do what they say: each is run as it stands there, in their order, on little
// data. Its C++ is built and run too, see tests/CMakeLists.txt.
#include <fmt/format.h>

#include <fstream>

#include "cli/program.h"
#include "data/cifar_files.h"
#include "data/pictures.h"

namespace crossbow {
namespace {

namespace fs = std::filesystem;

/// The lines of README's indented blocks that call the program.
std::vector<std::string> commands() {
  std::vector<std::string> lines;
  std::ifstream readme(source_folder() + "/README.md");
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("    crossbow ")) lines.push_back(line.substr(4));
  }
  return lines;
}

/// A folder with eight pictures of each class for training, and as many for testing.
void write_pictures(const fs::path& folder, const std::vector<std::string>& classes) {
  for (const char* split : {"train", "test"}) {
    for (const std::string& name : classes) {
      const fs::path place = folder / split / name;
      fs::create_directories(place);
      for (int n = 0; n < 8; ++n) {
        data::write_file(place / (std::to_string(n) + ".png"),
                         data::encode_png(data::gradient(32, 32)));
      }
    }
  }
}

/// Of a page in docs/, the commands that call the program with this in them.
std::vector<std::string> commands_with(const std::string& part, const std::string& page) {
  std::vector<std::string> found;
  std::ifstream text(source_folder() + "/docs/" + page);
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("crossbow ")) continue;
    for (std::string rest; line.ends_with('\\') && std::getline(text, rest);) {
      line.pop_back();
      line += rest;
    }
    if (line.find(part) != line.npos) found.push_back(line);
  }
  return found;
}

void write_script(const fs::path& path, const std::string& text) {
  std::ofstream(path) << "#!/bin/sh\n" << text << '\n';
  fs::permissions(path, fs::perms::owner_all);
}

class Readme : public testing::ProgramTest {};

TEST_F(Readme, CommandsRunAsTheyStandThere) {
  write_pictures(path("DIR"), {"cat", "dog"});
  data::write_cifar10(path("data/cifar10"), 4);
  fs::create_directory(path("pictures"));
  for (const char* picture : {"cat.jpg", "pictures/dog.jpg"}) {
    data::write_file(path(picture), data::encode_jpeg(data::gradient(40, 30)));
  }
  std::string ratings;
  for (int i = 0; i < 60; ++i) ratings += fmt::format("{}\t{}\t{}\t0\n", i % 8, i % 9, i % 5);
  std::ofstream(path("u.data")) << ratings;
  write_script(path("crossbow"), "exec '" + crossbow_binary() + "' \"$@\"");
  write_script(path("dot"), "cat");  // Graphviz is not among what the program needs

  const std::vector<std::string> lines = commands();
  EXPECT_GT(lines.size(), 5u);
  for (const std::string& line : lines) {
    write_script(path("command"), "set -e\n" + line);
    const Outcome o = shell("PATH=$PWD:\"$PATH\" ./command </dev/null");
    EXPECT_EQ(o.code, 0) << line << '\n' << o.out << o.err;
  }
}

/// From weights for two classes, on pictures of three.
TEST_F(Readme, NetsTrainFromWeightsAsThePageOnFineTuningSays) {
  write_script(path("crossbow"), "exec '" + crossbow_binary() + "' \"$@\"");
  const auto output_of = [&](const std::string& command) {
    write_script(path("command"), command);
    const Outcome o = shell("PATH=$PWD:\"$PATH\" ./command </dev/null");
    EXPECT_EQ(o.code, 0) << command << '\n' << o.out << o.err;
    return o.out + o.err;
  };
  write_pictures(path("DIR"), {"cat", "dog"});
  output_of("crossbow train --model resnet-18 --data imagefolder:DIR --epochs 1 --out first");
  output_of("crossbow export first resnet18.safetensors");
  write_pictures(path("DIR"), {"bird"});
  const auto commands = commands_with("--init resnet18.safetensors", "fine-tuning.md");
  EXPECT_EQ(commands.size(), 2u);
  for (const std::string& command : commands) {
    testing::expect_says(output_of(command), "drawn afresh, for other");
  }
}

}  // namespace
}  // namespace crossbow
