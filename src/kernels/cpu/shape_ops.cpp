#include "ops/shape_ops.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/prepare.h"

namespace crossbow {
namespace {

/// Whether the elements lie in row-major order, by whatever name.
bool is_row_major(const Layout& layout) {
  return layout.is_plain() || (layout.shape.rank() == 4 && layout.shape.elements_from(2) == 1 &&
                               layout.elements() == layout.shape.elements());
}

PreparedKernel prepare_reshape(const PrepareContext& context) {
  Layout x = context.offered_or_plain(0);
  if (!is_row_major(x)) x = Layout::plain(x.shape, x.dtype);
  PreparedKernel kernel{{x}, {Layout::plain(context.node.outputs[0].shape, x.dtype)}};
  kernel.implementation = "loops:copy";
  kernel.bind = [bytes = x.bytes(), threads = context.threads](Operands o) -> Call {
    const auto from = as<std::byte>(o.inputs[0]), to = as<std::byte>(o.outputs[0]);
    if (from == to) return [](const Step&) {};
    return [=](const Step&) {
      parallel_ranges(threads, static_cast<int64_t>(bytes), [&](int64_t begin, int64_t end) {
        std::memcpy(to + begin, from + begin, end - begin);
      });
    };
  };
  return kernel;
}

/// Tensors that are joined along dimension 1 lie in memory as `count` runs each, a run of the whole
/// being one of each part in turn.
struct Runs {
  int64_t count;
  size_t bytes_per_channel;  // of a run

  explicit Runs(const Layout& layout) {
    const ChannelView v = channel_view(layout);
    const bool channels_last = v.blocks == 1 && v.block > 1;
    count = channels_last ? v.batch * v.positions : v.batch;
    bytes_per_channel = (channels_last ? 1 : v.positions) * size_of(layout.dtype);
  }
};

/// The offered layout of input 0 if every one of `parts` channels is whole blocks of it, else
/// row-major.
Layout divisible_layout(const PrepareContext& context, std::span<const int64_t> parts) {
  const Layout x = channelwise_layout(context, 0);
  if (x.blocks.empty()) return x;
  const bool whole =
      std::all_of(parts.begin(), parts.end(), [&](int64_t c) { return c % x.blocks[0].size == 0; });
  return whole ? x : Layout::plain(x.shape, x.dtype);
}

Layout with_channels(const Layout& like, int64_t channels) {
  Shape shape = like.shape;
  shape[1] = channels;
  return arranged_like(like, shape, like.dtype);
}

PreparedKernel prepare_concat(const PrepareContext& context) {
  std::vector<int64_t> channels;
  for (size_t i = 0; i < context.node.inputs.size(); ++i) {
    channels.push_back(context.input_type(i).shape[1]);
  }
  const Layout first = divisible_layout(context, channels);
  const Layout joined = with_channels(first, context.node.outputs[0].shape[1]);
  PreparedKernel kernel{{}, {joined}};
  for (int64_t c : channels) kernel.inputs.push_back(with_channels(first, c));
  kernel.implementation = "loops:copy";
  kernel.bind = [=, runs = Runs(joined), threads = context.threads](Operands o) -> Call {
    const size_t stride = joined.shape[1] * runs.bytes_per_channel;
    return [=](const Step&) {
      parallel_for(useful_threads(threads, joined.elements()), runs.count, [&](int64_t run) {
        std::byte* to = as<std::byte>(o.outputs[0]) + run * stride;
        for (size_t i = 0; i < channels.size(); ++i) {
          const size_t bytes = channels[i] * runs.bytes_per_channel;
          std::memcpy(to, as<std::byte>(o.inputs[i]) + run * bytes, bytes);
          to += bytes;
        }
      });
    };
  };
  return kernel;
}

PreparedKernel prepare_slice(const PrepareContext& context) {
  const auto& a = context.node.attrs<SliceAttributes>();
  const Layout whole =
      divisible_layout(context, std::array{a.begin, a.count, context.input_type(0).shape[1]});
  const Layout part = with_channels(whole, a.count);
  PreparedKernel kernel{{whole}, {part}};
  kernel.implementation = "loops:copy";
  kernel.bind = [=, runs = Runs(whole), begin = a.begin,
                 threads = context.threads](Operands o) -> Call {
    const size_t stride = whole.shape[1] * runs.bytes_per_channel;
    const size_t bytes = part.shape[1] * runs.bytes_per_channel;
    const auto from = as<std::byte>(o.inputs[0]) + begin * runs.bytes_per_channel;
    return [=, to = as<std::byte>(o.outputs[0])](const Step&) {
      parallel_for(useful_threads(threads, part.elements()), runs.count,
                   [&](int64_t run) { std::memcpy(to + run * bytes, from + run * stride, bytes); });
    };
  };
  return kernel;
}

const RegisterKernel kReshape{"cpu", "reshape", prepare_reshape};
const RegisterKernel kConcat{"cpu", "concat", prepare_concat};
const RegisterKernel kSlice{"cpu", "slice_channels", prepare_slice};

}  // namespace
}  // namespace crossbow
