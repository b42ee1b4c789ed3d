#include "data/fetch/transfer.h"

#include <curl/curl.h>

#include <charconv>
#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include "core/error.h"

namespace crossbow::data {
namespace {

using End = Transfer::End;

constexpr long kOk = 200, kPartialContent = 206, kRangeNotSatisfiable = 416;

class Request {
 public:
  Request(const std::string& url, int64_t from, const Patience& patience, Sink& sink);
  Transfer run();

 private:
  static size_t on_body(char* bytes, size_t size, size_t count, void* request);
  static int on_progress(void* request, curl_off_t, curl_off_t, curl_off_t, curl_off_t);

  template <typename Value>
  void set(CURLoption option, Value value) {
    const CURLcode code = curl_easy_setopt(curl_.get(), option, value);
    if (code != CURLE_OK) fail("libcurl refuses a setting ({})", curl_easy_strerror(code));
  }
  long status() const {
    long status = 0;
    curl_easy_getinfo(curl_.get(), CURLINFO_RESPONSE_CODE, &status);
    return status;
  }
  bool knows_its_length() const {
    curl_off_t length = -1;
    curl_easy_getinfo(curl_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    return length >= 0;
  }
  /// Of the answer's first byte; less than 0 if it is none that was asked for.
  int64_t offset() const;
  bool begin();
  std::string reason_of(CURLcode code) const;

  /// False if the call has thrown, which `run` then does.
  template <typename Call>
  bool guarded(const Call& call) {
    try {
      call();
      return true;
    } catch (...) {
      thrown_ = std::current_exception();
      return false;
    }
  }

  const int64_t from_;
  Sink& sink_;
  std::unique_ptr<CURL, void (*)(CURL*)> curl_{nullptr, curl_easy_cleanup};
  char message_[CURL_ERROR_SIZE] = {};
  bool begun_ = false;
  std::string unfit_;  // why the answer is of no use
  std::exception_ptr thrown_;
};

Request::Request(const std::string& url, int64_t from, const Patience& patience, Sink& sink)
    : from_(from), sink_(sink) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (ready == CURLE_OK) curl_.reset(curl_easy_init());
  if (!curl_) throw std::bad_alloc();
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_ERRORBUFFER, message_);
  set(CURLOPT_USERAGENT, "crossbow");
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_REDIR_PROTOCOLS_STR, url.starts_with("https:") ? "https" : "http,https");
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 10L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(patience.connect.count()));
  set(CURLOPT_LOW_SPEED_LIMIT, 1000L);
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(patience.stall.count()));
  if (from > 0) set(CURLOPT_RANGE, fmt::format("{}-", from).c_str());
  set(CURLOPT_WRITEFUNCTION, &Request::on_body);
  set(CURLOPT_WRITEDATA, this);
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &Request::on_progress);
  set(CURLOPT_XFERINFODATA, this);
}

int64_t Request::offset() const {
  if (status() == kOk) return 0;
  curl_header* header = nullptr;
  if (curl_easy_header(curl_.get(), "Content-Range", 0, CURLH_HEADER, -1, &header) != CURLHE_OK) {
    return -1;
  }
  constexpr std::string_view kUnit = "bytes ";
  const std::string_view range(header->value);
  int64_t first = -1;
  if (range.starts_with(kUnit)) {
    std::from_chars(range.data() + kUnit.size(), range.data() + range.size(), first);
  }
  return first == from_ ? first : -1;
}

bool Request::begin() {
  if (status() != kOk && status() != kPartialContent) {
    unfit_ = fmt::format("HTTP status {}", status());
  } else if (offset() < 0) {
    unfit_ = "the server sends other bytes than those it was asked for";
  }
  begun_ = unfit_.empty();
  curl_off_t bytes = -1;
  curl_easy_getinfo(curl_.get(), CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &bytes);
  return begun_ && guarded([&] { sink_.begin(offset(), bytes); });
}

size_t Request::on_body(char* bytes, size_t, size_t count, void* request) {
  Request& self = *static_cast<Request*>(request);
  if (!self.begun_ && !self.begin()) return CURL_WRITEFUNC_ERROR;
  const bool taken = self.guarded([&] {
    self.sink_.take({reinterpret_cast<const uint8_t*>(bytes), count});
  });
  return taken ? count : CURL_WRITEFUNC_ERROR;
}

int Request::on_progress(void* request, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Request& self = *static_cast<Request*>(request);
  return self.guarded([&] { self.sink_.tick(); }) ? 0 : 1;
}

std::string Request::reason_of(CURLcode code) const {
  if (!unfit_.empty()) return unfit_;
  if (code == CURLE_HTTP_RETURNED_ERROR) return fmt::format("HTTP status {}", status());
  return message_[0] ? message_ : curl_easy_strerror(code);
}

Transfer Request::run() {
  const CURLcode code = curl_easy_perform(curl_.get());
  if (thrown_) std::rethrow_exception(thrown_);
  switch (code) {
    case CURLE_OK:
      if (knows_its_length()) return {End::whole};
      return {End::cut, "the server has ended the connection"};
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return {End::cut, reason_of(code)};
    default:
      return {status() == kRangeNotSatisfiable ? End::no_range : End::failed, reason_of(code)};
  }
}

}  // namespace

Transfer transfer(const std::string& url, int64_t from, const Patience& patience, Sink& sink) {
  return Request(url, from, patience, sink).run();
}

}  // namespace crossbow::data
