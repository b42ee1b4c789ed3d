#include "kernels/cpu/panels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

namespace crossbow {
namespace {

struct Example {
  const char* name;
  Layout layout;
};

std::vector<Example> examples() {
  const auto f32 = DType::f32;
  return {{"plain images", Layout::plain({2, 5, 7, 7}, f32)},
          {"large plain images", Layout::plain({3, 4, 64, 64}, f32)},
          {"rows", Layout::plain({6, 19}, f32)},
          {"many rows", Layout::plain({600, 200}, f32)},
          {"channels last, 3 channels", Layout::channels_last({2, 3, 5, 5}, f32)},
          {"channels last, 16 channels", Layout::channels_last({2, 16, 50, 50}, f32)},
          {"channels last, 80 channels", Layout::channels_last({3, 80, 20, 20}, f32)},
          {"blocks of 16, padded", Layout::channel_blocked({2, 17, 3, 5}, f32, 16)},
          {"one block of 16", Layout::channel_blocked({3, 16, 40, 40}, f32, 16)},
          {"three blocks of 16", Layout::channel_blocked({4, 48, 33, 32}, f32, 16)},
          {"blocks of 8, odd sizes", Layout::channel_blocked({3, 20, 41, 21}, f32, 8)},
          {"blocks of 8, one image", Layout::channel_blocked({1, 24, 51, 51}, f32, 8)}};
}

/// The channel of each element of the memory, by the layout's own account; padding is -1.
std::vector<int64_t> channels_of(const Layout& layout) {
  std::vector<int64_t> channels(layout.elements(), -1);
  const Shape& s = layout.shape;
  Shape index = s;
  const auto visit = [&](const auto& self, int dim) -> void {
    if (dim == s.rank()) {
      channels[layout.offset(index)] = index[1];
      return;
    }
    for (index[dim] = 0; index[dim] < s[dim]; ++index[dim]) self(self, dim + 1);
  };
  visit(visit, 0);
  return channels;
}

TEST(Panels, CoverEveryElementOnceUnderItsChannel) {
  for (const Example& example : examples()) {
    for (int threads : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << example.name << ", threads " << threads);
      const Panels panels(channel_view(example.layout), threads);
      const std::vector<int64_t> channels = channels_of(example.layout);
      std::vector<int> visits(channels.size());
      panels.one_pass([&](int64_t panel, int64_t slice) {
        const auto at = panels.extent(panel);
        LaneValues lanes{};
        for (int64_t c = 0; c < kMaxLanes; ++c) {
          lanes[c] = c < at.channels ? static_cast<float>(at.first_channel + c) : -1;
        }
        panels.repeat(lanes);
        panels.for_parts(panel, slice, [&](const Panel& p, int64_t offset) {
          for (int64_t n = 0; n < p.batch; ++n) {
            for (int64_t r = 0; r < p.rows; ++r) {
              for (int64_t l = 0; l < p.lanes; ++l) {
                const int64_t i = offset + n * p.batch_stride + r * p.row_stride + l;
                ++visits.at(i);
                if (static_cast<int64_t>(lanes[l]) != channels[i]) ADD_FAILURE() << "element " << i;
              }
            }
          }
        });
      });
      EXPECT_EQ(visits, std::vector<int>(visits.size(), 1));
    }
  }
}

TEST(Panels, AddSlicesUpByChannel) {
  for (const Example& example : examples()) {
    for (int threads : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << example.name << ", threads " << threads);
      const Panels panels(channel_view(example.layout), threads);
      std::vector<std::byte> scratch(panels.scratch_bytes());
      std::map<int64_t, double> counted;
      std::mutex mutex;
      panels.two_passes(
          [&](int64_t panel, int64_t slice) {
            double* sums = panels.slice_sums(scratch.data(), panel, slice);
            std::fill_n(sums, 2 * kMaxLanes, 0.0);
            panels.for_parts(panel, slice, [&](const Panel& p, int64_t) {
              for (int64_t l = 0; l < p.lanes; ++l)
                sums[l] += static_cast<double>(p.batch * p.rows);
            });
          },
          [&](int64_t panel, int64_t slice) {
            const auto sums = panels.channel_sums(scratch.data(), panel);
            const auto at = panels.extent(panel);
            if (slice != 0) return;
            const std::lock_guard lock(mutex);
            for (int64_t c = 0; c < at.channels; ++c) counted[at.first_channel + c] = sums.first[c];
          });
      EXPECT_EQ(counted.size(), example.layout.shape[1]);
      for (const auto& [channel, count] : counted) {
        EXPECT_EQ(count, panels.values_per_channel()) << "channel " << channel;
      }
    }
  }
}

}  // namespace
}  // namespace crossbow
