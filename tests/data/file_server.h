// A small server of HTTP on the loopback device, for one connection at a time.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/file.h"
#include "data/files.h"

namespace crossbow::data {

/// What is at a path.
struct Page {
  std::string body = {};
  int status = 200;
  bool ranges = true;  // else the whole is sent, whatever is asked for
  bool tells_length = true;
  std::vector<size_t> cuts = {};  // the next answers end after so many bytes
  bool hangs = false;             // after a cut: the connection stays open
  std::string location = {};
  std::string content_range = {};  // in place of the true one
};

class FileServer {
 public:
  FileServer() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* any = reinterpret_cast<sockaddr*>(&address);
    listener_ = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(listener_.get(), any, size) != 0 || listen(listener_.get(), 16) != 0 ||
        getsockname(listener_.get(), any, &size) != 0) {
      throw std::runtime_error("no server");
    }
    port_ = ntohs(address.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }

  std::string url(const std::string& path = "") const {
    return "http://127.0.0.1:" + std::to_string(port_) + '/' + path;
  }
  void put(const std::string& path, Page page) {
    const std::lock_guard lock(mutex_);
    pages_[path] = std::move(page);
  }
  /// "PATH FIRST", where FIRST is the byte from which a part was asked for.
  std::vector<std::string> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      pollfd waits{listener_.get(), POLLIN, 0};
      if (poll(&waits, 1, 10) != 1) continue;
      const Descriptor connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      answer(connection.get(), stop);
    }
  }

  static std::string read_request(int connection) {
    std::string text;
    char piece[1024];
    while (text.find("\r\n\r\n") == text.npos) {
      const ssize_t n = recv(connection, piece, sizeof piece, 0);
      if (n <= 0) break;
      text.append(piece, static_cast<size_t>(n));
    }
    return text;
  }

  static void send_all(int connection, std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = send(connection, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      text.remove_prefix(static_cast<size_t>(n));
    }
  }

  /// The page as it is for this answer; notes the request.
  Page take_page(const std::string& path, const std::string& first) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(path + ' ' + first);
    const auto found = pages_.find(path);
    if (found == pages_.end()) return {.body = "no such page", .status = 404};
    Page page = found->second;
    auto& cuts = found->second.cuts;
    if (!cuts.empty()) cuts.erase(cuts.begin());
    return page;
  }

  void answer(int connection, const std::stop_token& stop) {
    const std::string request = read_request(connection);
    if (!request.starts_with("GET /")) return;
    constexpr std::string_view kRange = "Range: bytes=";
    const std::string path = request.substr(5, request.find(' ', 5) - 5);
    const size_t range = request.find(kRange);
    const std::string first =
        range == request.npos ? "0"
                              : request.substr(range + kRange.size(),
                                               request.find('-', range) - range - kRange.size());
    Page page = take_page(path, first);
    size_t from = page.ranges && page.status == 200 ? std::stoul(first) : 0;
    std::string head;
    if (from > 0 && from >= page.body.size()) {
      page.status = 416;
      from = page.body.size();
    } else if (from > 0) {
      page.status = 206;
      if (page.content_range.empty()) page.content_range = "bytes " + first + "-/*";
      head += "Content-Range: " + page.content_range + "\r\n";
    }
    if (page.tells_length) {
      head += "Content-Length: " + std::to_string(page.body.size() - from) + "\r\n";
    }
    if (!page.location.empty()) head += "Location: " + page.location + "\r\n";
    send_all(connection, "HTTP/1.1 " + std::to_string(page.status) +
                             " Status\r\nConnection: close\r\n" + head + "\r\n");
    std::string_view body = std::string_view(page.body).substr(from);
    if (!page.cuts.empty()) body = body.substr(0, page.cuts[0]);
    send_all(connection, body);
    while (page.hangs && !page.cuts.empty() && !stop.stop_requested()) {
      pollfd closed{connection, POLLIN, 0};
      if (poll(&closed, 1, 10) == 1) break;
    }
  }

  Descriptor listener_{-1};
  int port_ = 0;
  mutable std::mutex mutex_;  // guards what is below
  std::map<std::string, Page> pages_;
  std::vector<std::string> requests_;
  std::jthread thread_;
};

/// Loopback connections go by no proxy.
class NoProxy {
  ScopedVariable small_{"no_proxy", "127.0.0.1"}, large_{"NO_PROXY", "127.0.0.1"};
};

}  // namespace crossbow::data
