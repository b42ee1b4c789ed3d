#include "cli/output.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "train/config.h"

namespace crossbow::cli {
namespace {

std::atomic<int> g_output_error{0};  // the first of standard output

}  // namespace

size_t columns(std::FILE* to) {
  constexpr size_t kUsual = 80;
  winsize size{};
  const bool known = ioctl(fileno(to), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

void put_wrapped(std::FILE* to, std::string_view label, std::string_view text) {
  put(to, "{}\n", wrapped(fmt::format("{}{}", label, text), columns(to), columns_of(label)));
}

void put_row(std::FILE* to, std::string_view first, size_t width, std::string_view rest) {
  const size_t used = columns_of(first);
  if (used > width) {
    put(to, "{}\n{:{}}{}\n", first, "", width, rest);
  } else {
    put(to, "{}{:{}}{}\n", first, "", width - used, rest);
  }
}

void write(std::FILE* to, std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), to) == text.size();
  if (!written && to == stdout && g_output_error == 0) g_output_error = errno;
}

std::string with_flags(std::string_view message) {
  std::string text;
  while (!message.empty()) {
    const size_t mark = std::min(message.find('`'), message.size());
    text += message.substr(0, mark);
    message.remove_prefix(mark);
    if (message.empty()) break;
    const size_t end = std::min(message.find('`', 1), message.size());
    const std::string_view name = message.substr(1, end - 1);
    const bool is_flag = end < message.size() && (find_option(name) || name == "resume");
    text += is_flag ? fmt::format("--{}", name) : "`";
    message.remove_prefix(is_flag ? name.size() + 2 : 1);
  }
  return text;
}

void complain(std::string_view command, std::string_view sentence) {
  put(stderr, "{}: {}\n", command, printable(with_flags(sentence)));
}

void note(std::string_view sentence) {
  put_wrapped(stderr, kNote, printable(with_flags(sentence)));
}

void check_standard_output() {
  if (std::fflush(stdout) != 0 && g_output_error == 0) g_output_error = errno;
  if (g_output_error == 0 && !std::ferror(stdout)) return;
  fail("cannot write to standard output ({})",
       g_output_error == 0 ? "it failed" : std::strerror(g_output_error));
}

void prepare_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is that of the stream.
    if (fcntl(stream, F_GETFD) == -1) [[maybe_unused]]
      const int opened = open("/dev/null", O_RDWR);
  }
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace crossbow::cli
