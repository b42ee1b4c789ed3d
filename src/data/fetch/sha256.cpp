#include "data/fetch/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

namespace crossbow::data {
namespace {

void expect(int done) {
  if (done != 1) throw std::bad_alloc();  // it has no other way to fail
}

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    if (!context_) throw std::bad_alloc();
    expect(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
  }
  void add(std::span<const uint8_t> bytes) {
    expect(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
  }
  std::string finish() {
    uint8_t sum[EVP_MAX_MD_SIZE];
    unsigned size = 0;
    expect(EVP_DigestFinal_ex(context_.get(), sum, &size));
    std::string text;
    for (const uint8_t byte : std::span(sum).first(size)) text += fmt::format("{:02x}", byte);
    return text;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

}  // namespace

std::string sha256(std::span<const uint8_t> bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.finish();
}

std::string sha256(const crossbow::FileBytes& file) {
  constexpr int64_t kPiece = 1 << 18;
  Sha256 sum;
  std::vector<uint8_t> piece(kPiece);
  for (int64_t at = 0; at < file.size; at += kPiece) {
    const auto bytes =
        std::span(piece).first(static_cast<size_t>(std::min(kPiece, file.size - at)));
    file.read(at, bytes);
    sum.add(bytes);
  }
  return sum.finish();
}

}  // namespace crossbow::data
