#include "data/fetch/fetch.h"

#include <archive.h>
#include <archive_entry.h>
#include <sys/stat.h>

#include <random>

#include "core/file.h"
#include "data/fetch/sha256.h"
#include "data/file_server.h"
#include "data/files.h"
#include "support/full_disk.h"
#include "support/text.h"

namespace crossbow::data {
namespace {

namespace fs = std::filesystem;

FileBytes bytes_of(const std::string& text) {
  return {text.begin(), text.end()};
}
std::string text_of_bytes(const FileBytes& bytes) {
  return {bytes.begin(), bytes.end()};
}
Digest digest_of(const std::string& text) {
  return {std::ssize(text), sha256(bytes_of(text))};
}

std::string random_text(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string text(size, 0);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

/// A member of an archive.
struct Packed {
  std::string path, contents = {};
  mode_t type = AE_IFREG;
  std::string symlink = {}, hardlink = {};
};

/// The same bytes at any time of day.
std::string tar_gz(const std::vector<Packed>& members) {
  std::string out(1 << 20, 0);
  size_t used = 0;
  archive* a = archive_write_new();
  archive_write_add_filter_gzip(a);
  archive_write_set_filter_option(a, "gzip", "timestamp", nullptr);
  archive_write_set_format_pax_restricted(a);
  archive_write_open_memory(a, out.data(), out.size(), &used);
  for (const Packed& member : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, member.path.c_str());
    archive_entry_set_filetype(entry, member.type);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, std::ssize(member.contents));
    if (!member.symlink.empty()) archive_entry_set_symlink(entry, member.symlink.c_str());
    if (!member.hardlink.empty()) archive_entry_set_hardlink(entry, member.hardlink.c_str());
    archive_write_header(a, entry);
    archive_write_data(a, member.contents.data(), member.contents.size());
    archive_entry_free(entry);
  }
  archive_write_close(a);
  archive_write_free(a);
  out.resize(used);
  return out;
}

class Fetch : public ::testing::Test {
 protected:
  Fetch() {
    set_.name = "small";
    set_.mirrors = {server_.url("one"), server_.url("two/")};
    set_.downloads = {{"a.gz", digest_of(packed_), {{"a", digest_of(contents_)}}}};
    options_.patience = {.connect = std::chrono::seconds(5), .stall = std::chrono::seconds(1)};
  }

  Fetched run() { return fetch(set_, folder(), options_); }
  std::string error() {
    return error_of([&] { run(); });
  }
  void serve(Page page, const std::string& mirror = "one") {
    if (page.body.empty()) page.body = packed_;
    server_.put(mirror + "/a.gz", std::move(page));
  }
  void expect_whole() const {
    EXPECT_EQ(in_file("a.gz"), packed_);
    expect_alone("a.gz");
  }
  void expect_alone(const std::string& name) const {
    for (const auto& entry : fs::directory_iterator(folder())) {
      EXPECT_EQ(entry.path().filename(), name);
    }
  }
  /// The set is an archive with these members.
  void pack(const std::vector<Packed>& members) {
    const std::string archive = tar_gz(members);
    set_.downloads = {{"s.tar.gz",
                       digest_of(archive),
                       {{"x.bin", digest_of(x_)}, {"y.bin", digest_of(y_)}, {"names.txt", {}}},
                       "inner"}};
    server_.put("one/s.tar.gz", {.body = archive});
  }
  std::vector<Packed> good_members() const {
    return {{"inner", "", AE_IFDIR},
            {"inner/readme.html", "read me"},
            {"inner/x.bin", x_},
            {"inner/names.txt", "cat\ndog\n"},
            {"inner/y.bin", y_}};
  }
  void expect_refused(const std::string& sentence) {
    testing::expect_says(error(), sentence);
    expect_alone("s.tar.gz.part");
    EXPECT_FALSE(fs::exists(work_.path() / "outside"));
  }

  fs::path folder() const { return work_.path() / "sets" / "small"; }
  std::string in_file(const std::string& name) const {
    return read_text_file(folder() / name, 1 << 24);
  }
  void put(const std::string& name, const std::string& text) const {
    write_file(folder() / name, bytes_of(text));
  }

  const NoProxy no_proxy_;
  const TemporaryFolder work_;
  FileServer server_;
  const std::string contents_ = random_text(70'000, 1);
  const std::string packed_ = text_of_bytes(gzip(bytes_of(contents_)));
  const std::string x_ = random_text(5000, 2), y_ = random_text(300, 3);
  Published set_;
  FetchOptions options_;
};

using Requests = std::vector<std::string>;

TEST_F(Fetch, GetsAFileAndThenHasIt) {
  serve({});
  const Fetched first = run();
  EXPECT_EQ(first.bytes, std::ssize(packed_));
  EXPECT_EQ(first.files, std::vector<fs::path>{folder() / "a.gz"});
  expect_whole();
  const Fetched second = run();
  EXPECT_EQ(second.bytes, 0);
  EXPECT_EQ(second.files, first.files);
  EXPECT_EQ(server_.requests(), Requests{"one/a.gz 0"});
}

TEST_F(Fetch, TellsOfItsProgress) {
  serve({});
  int64_t last = 0;
  options_.progress = [&](std::string_view what, int64_t done, int64_t total) {
    EXPECT_EQ(what, "a.gz");
    EXPECT_GE(done, last);
    EXPECT_EQ(total, std::ssize(packed_));
    last = done;
  };
  run();
  EXPECT_EQ(last, std::ssize(packed_));
}

TEST_F(Fetch, WhatProgressThrowsEndsItAndThePartStays) {
  serve({.cuts = {2000}, .hangs = true});
  options_.patience.stall = std::chrono::seconds(60);
  options_.progress = [&](std::string_view, int64_t done, int64_t) {
    if (done == 2000) throw std::runtime_error("enough");
  };
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ(in_file("a.gz.part"), packed_.substr(0, 2000));
  expect_alone("a.gz.part");
}

TEST_F(Fetch, GoesOnAfterACut) {
  serve({.cuts = {1000, 2000}});
  EXPECT_EQ(run().bytes, std::ssize(packed_));
  expect_whole();
  EXPECT_EQ(server_.requests(), (Requests{"one/a.gz 0", "one/a.gz 1000", "one/a.gz 3000"}));
}

TEST_F(Fetch, GoesOnAfterACutOfAnAnswerOfUnknownLength) {
  serve({.tells_length = false, .cuts = {1000}});
  run();
  expect_whole();
}

TEST_F(Fetch, StartsOverWhereTheServerKnowsNoRanges) {
  serve({.ranges = false, .cuts = {1000}});
  EXPECT_EQ(run().bytes, 1000 + std::ssize(packed_));
  expect_whole();
}

TEST_F(Fetch, ALaterCallGoesOn) {
  put("a.gz.part", packed_.substr(0, 1234));
  serve({});
  EXPECT_EQ(run().bytes, std::ssize(packed_) - 1234);
  expect_whole();
  EXPECT_EQ(server_.requests(), Requests{"one/a.gz 1234"});
}

TEST_F(Fetch, APartThatIsWholeNeedsNoServer) {
  put("a.gz.part", packed_);
  EXPECT_EQ(run().bytes, 0);
  expect_whole();
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(Fetch, APartOfAnotherFileIsFetchedAfresh) {
  for (const size_t size : {packed_.size() - 5, packed_.size(), packed_.size() + 5}) {
    fs::remove_all(folder());
    put("a.gz.part", std::string(size, 'x'));
    serve({});
    EXPECT_GE(run().bytes, std::ssize(packed_)) << size;
    expect_whole();
  }
}

TEST_F(Fetch, TheNextMirrorGoesOnWhereOneHasStopped) {
  serve({.cuts = {1000, 0, 0, 0}});
  serve({}, "two");
  run();
  expect_whole();
  EXPECT_EQ(server_.requests(), (Requests{"one/a.gz 0", "one/a.gz 1000", "two/a.gz 1000"}));
}

TEST_F(Fetch, WhatAnotherMirrorHasSentMayBeWrong) {
  serve({.body = std::string(packed_.size(), 'x'), .cuts = {1000, 0}});
  serve({}, "two");
  run();
  expect_whole();
  EXPECT_EQ(server_.requests(),
            (Requests{"one/a.gz 0", "one/a.gz 1000", "two/a.gz 1000", "two/a.gz 0"}));
}

TEST_F(Fetch, AMirrorThatStallsIsLeft) {
  serve({.cuts = {1000}, .hangs = true});
  serve({}, "two");
  run();
  expect_whole();
  EXPECT_EQ(server_.requests(), (Requests{"one/a.gz 0", "two/a.gz 1000"}));
}

TEST_F(Fetch, TriesTheNextMirrorWhereAFileIsMissing) {
  serve({}, "two");
  run();
  expect_whole();
}

TEST_F(Fetch, TriesTheNextMirrorWhereAFileIsWrong) {
  std::string wrong = packed_;
  wrong[2000] = static_cast<char>(wrong[2000] + 1);
  for (const std::string& body :
       {wrong, packed_ + "more", packed_.substr(0, 2000), std::string("sign in first")}) {
    fs::remove_all(folder());
    serve({.body = body});
    serve({}, "two");
    run();
    expect_whole();
  }
}

TEST_F(Fetch, NamesEveryMirrorAndItsFault) {
  std::string wrong = packed_;
  wrong[2000] = static_cast<char>(wrong[2000] + 1);
  serve({.body = wrong}, "two");
  const std::string text = error();
  testing::expect_says(text, "cannot fetch " + server_.url("one/a.gz") + " (HTTP status 404)");
  testing::expect_says(text, server_.url("two/a.gz") + " (its SHA-256 is " +
                                 digest_of(wrong).sha256 + " instead of " +
                                 digest_of(packed_).sha256 + ")");
  EXPECT_TRUE(fs::is_empty(folder()));
}

TEST_F(Fetch, SaysWhatIsWrongWithAnAnswer) {
  options_.from = server_.url("one");
  serve({.body = packed_.substr(0, 2000)});
  testing::expect_says(error(), "(it has 2,000 bytes instead of ");
  serve({.body = packed_ + "more"});
  testing::expect_says(error(), "(it is longer than ");
  serve({.status = 300});
  testing::expect_says(error(), "(HTTP status 300)");
  serve({.status = 500});
  testing::expect_says(error(), "(HTTP status 500)");
  put("a.gz.part", "1234");
  serve({.content_range = "bytes 7-9/10"});
  testing::expect_says(error(), "(the server sends other bytes than those it was asked for)");
  EXPECT_EQ(in_file("a.gz.part"), "1234");
  serve({.body = "a page that asks for a name", .ranges = false});
  testing::expect_says(error(), "(it has 27 bytes instead of ");
  EXPECT_EQ(in_file("a.gz.part"), "1234");
}

TEST_F(Fetch, FollowsRedirectionsButNotForEver) {
  options_.from = server_.url("one");
  server_.put("one/a.gz", {.status = 302, .location = "/two/a.gz"});
  server_.put("two/a.gz", {.status = 302, .location = "/one/a.gz"});
  testing::expect_says(error(), "Maximum (10) redirects followed");
  serve({}, "two");
  run();
  expect_whole();
}

TEST_F(Fetch, FollowsNoRedirectionToAFile) {
  options_.from = server_.url("one");
  server_.put("one/a.gz", {.status = 302, .location = "file:///etc/passwd"});
  testing::expect_says(error(), "cannot fetch " + server_.url("one/a.gz"));
}

TEST_F(Fetch, SaysThatNobodyAnswers) {
  {
    const FileServer gone;
    options_.from = gone.url();
  }
  testing::expect_says(error(), "Failed to connect");
  options_.from = "http://no-such-host.invalid/";
  testing::expect_says(error(), "cannot fetch http://no-such-host.invalid/a.gz (");
}

TEST_F(Fetch, AnotherAddressReplacesTheMirrors) {
  for (const char* path : {"mine", "mine/"}) {
    fs::remove_all(folder());
    options_.from = server_.url(path);
    serve({}, "mine");
    run();
    expect_whole();
  }
  EXPECT_EQ(server_.requests(), (Requests{"mine/a.gz 0", "mine/a.gz 0"}));
}

TEST_F(Fetch, AFullDiskIsASentenceAndThePartStays) {
  serve({});
  {
    const testing::FullDisk full(4096);
    testing::expect_says(error(), "a.gz.part (File too large): make room, then fetch again");
  }
  EXPECT_EQ(in_file("a.gz.part"), packed_.substr(0, 4096));
  EXPECT_EQ(server_.requests().size(), 1u);
  run();
  expect_whole();
}

TEST_F(Fetch, AFullDiskLeavesNothingUnpacked) {
  pack(good_members());
  const std::string archive = tar_gz(good_members());
  put("s.tar.gz.part", archive);
  {
    const testing::FullDisk full(4096);
    expect_refused("x.bin (File too large)");
  }
  run();
  EXPECT_EQ(in_file("x.bin"), x_);
}

TEST_F(Fetch, AFileThatIsThereAndWrongIsNamedAndStays) {
  serve({});
  const auto refused = [&](const std::string& name, const std::string& text,
                           const std::string& fault) {
    fs::remove_all(folder());
    put(name, text);
    const std::string sentence = error();
    testing::expect_says(sentence, name + " is there, but is not the published file (");
    testing::expect_says(sentence, fault);
    testing::expect_says(sentence, "move it away, then fetch again");
    EXPECT_EQ(in_file(name), text);
  };
  refused("a", std::string(contents_.size(), 'x'), "SHA-256 is");
  refused("a", "short", "it holds 5 bytes instead of 70,000");
  refused("a.gz", packed_.substr(0, 2000), "cut short");
  refused("a.gz", text_of_bytes(gzip(bytes_of(contents_ + 'x'))), "more than 70000 bytes");
  EXPECT_TRUE(server_.requests().empty());
}

/// Unpacked, or packed by another program.
TEST_F(Fetch, ContentsCountAndNotHowTheyArePacked) {
  put("a", contents_);
  EXPECT_EQ(run().files, std::vector<fs::path>{folder() / "a"});
  fs::remove(folder() / "a");
  put("a.gz", text_of_bytes(gzip(bytes_of(contents_))));
  EXPECT_EQ(run().bytes, 0);
}

TEST_F(Fetch, FetchesOnlyWhatIsMissing) {
  set_.downloads.push_back({"b.gz", digest_of(packed_), {{"b", digest_of(contents_)}}});
  put("b", contents_);
  serve({});
  EXPECT_EQ(run().bytes, std::ssize(packed_));
  EXPECT_EQ(server_.requests(), Requests{"one/a.gz 0"});
}

TEST_F(Fetch, OneProcessAFolder) {
  serve({});
  fs::create_directories(folder());
  const auto other = lock_folder(folder());
  testing::expect_says(error(), "another process fetches into " + folder().string());
}

TEST_F(Fetch, RefusesWhatIsNoFolderAndNoFile) {
  serve({});
  write_file(work_.path() / "sets", bytes_of("a file"));
  testing::expect_says(error(), "cannot make the folder");
  fs::remove(work_.path() / "sets");
  fs::create_directories(folder());
  mkfifo((folder() / "a.gz.part").c_str(), 0600);
  testing::expect_says(error(), "a.gz.part is no regular file: remove it");
  fs::remove(folder() / "a.gz.part");
  fs::create_symlink(work_.path() / "outside", folder() / "a.gz.part");
  testing::expect_says(error(), "cannot write");
  EXPECT_FALSE(fs::exists(work_.path() / "outside"));
}

TEST_F(Fetch, UnpacksAnArchive) {
  pack(good_members());
  const Fetched fetched = run();
  EXPECT_EQ(fetched.files, (std::vector<fs::path>{folder() / "x.bin", folder() / "y.bin",
                                                  folder() / "names.txt"}));
  EXPECT_EQ(in_file("x.bin"), x_);
  EXPECT_EQ(in_file("y.bin"), y_);
  EXPECT_EQ(in_file("names.txt"), "cat\ndog\n");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder()), {}), 3);
  EXPECT_EQ(run().bytes, 0);
  fs::remove(folder() / "names.txt");
  EXPECT_EQ(run().bytes, 0);
  fs::remove(folder() / "x.bin");
  EXPECT_GT(run().bytes, 0);
  EXPECT_EQ(in_file("x.bin"), x_);
}

TEST_F(Fetch, WhatProgressThrowsLeavesNothingUnpacked) {
  pack(good_members());
  options_.progress = [](std::string_view what, int64_t, int64_t) {
    if (what == "unpacking") throw std::runtime_error("enough");
  };
  EXPECT_THROW(run(), std::runtime_error);
  expect_alone("s.tar.gz.part");
}

TEST_F(Fetch, FindsWhatWasUnpackedByHand) {
  pack(good_members());
  put("inner/x.bin", x_);
  put("inner/y.bin", y_);
  EXPECT_EQ(run().files,
            (std::vector<fs::path>{folder() / "inner/x.bin", folder() / "inner/y.bin"}));
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(Fetch, RefusesArchivesThatReachOutOfTheFolder) {
  for (const Packed& bad : std::vector<Packed>{{"../outside", "bad"},
                                               {"inner/../../outside", "bad"},
                                               {work_.path() / "outside", "bad"},
                                               {"inner/link", "", AE_IFLNK, "../../outside"},
                                               {"inner/x.bin", "", AE_IFLNK, "/etc/passwd"},
                                               {"inner/hard", "", AE_IFREG, "", "../outside"},
                                               {"inner/pipe", "", AE_IFIFO}}) {
    fs::remove_all(folder());
    std::vector<Packed> members = good_members();
    members.push_back(bad);
    pack(members);
    expect_refused("is not the archive it should be: its member '" + bad.path + "' ");
  }
}

TEST_F(Fetch, RefusesArchivesThatLackAFileOrHaveAnother) {
  std::vector<Packed> members = good_members();
  members.pop_back();
  pack(members);
  expect_refused("it has no inner/y.bin");

  fs::remove_all(folder());
  members.push_back({"inner/y.bin", y_ + "more"});
  pack(members);
  expect_refused("inner/y.bin has not 300 bytes");

  fs::remove_all(folder());
  members.back().contents = "less";
  pack(members);
  expect_refused("inner/y.bin has not 300 bytes");

  fs::remove_all(folder());
  members.back() = {"inner/x.bin", x_};
  pack(members);
  expect_refused("has inner/x.bin twice");
}

TEST_F(Fetch, RefusesWhatIsNoArchive) {
  pack(good_members());
  for (const std::string& body :
       {std::string("no archive"), tar_gz(good_members()).substr(0, 900)}) {
    fs::remove_all(folder());
    set_.downloads[0].digest = digest_of(body);
    server_.put("one/s.tar.gz", {.body = body});
    expect_refused("cannot unpack");
  }
}

TEST(Sha256, IsThatOfTheStandard) {
  EXPECT_EQ(sha256(bytes_of("abc")),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  const TemporaryFolder work;
  const std::string text = random_text(600'000, 4);
  write_file(work.path() / "file", bytes_of(text));
  EXPECT_EQ(sha256(bytes_of_file(work.path() / "file")), sha256(bytes_of(text)));
}

TEST(PublishedSets, AreThoseThatCanBeOpened) {
  for (const Published& set : published_sets()) {
    std::vector<std::string> needed;
    for (const Download& download : set.downloads) {
      EXPECT_EQ(download.digest.sha256.size(), 64u);
      for (const SetFile& file : download.gives) {
        if (!file.digest) continue;
        EXPECT_EQ(file.digest->sha256.size(), 64u);
        needed.push_back(file.name);
      }
    }
    EXPECT_EQ(needed, catalogue_entry(set.name).files);
  }
}

/// Whatever program has packed it.
TEST(PublishedSets, KnowMnistWhereItIs) {
  const fs::path folder = real_data("mnist");
  if (folder.empty()) GTEST_SKIP() << "no MNIST here";
  EXPECT_EQ(fetch(published_set("mnist"), folder).bytes, 0);
}

}  // namespace
}  // namespace crossbow::data
