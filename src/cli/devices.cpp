// crossbow devices
#include <fmt/format.h>

#include <cmath>

#include "cli/command.h"
#include "cli/results.h"
#include "core/machine.h"
#include "device/device.h"
#include "kernels/cpu/version.h"

namespace crossbow::cli {
namespace {

constexpr const char* kDevicesExamples = R"(Examples:
  crossbow devices
  crossbow devices --json
)";

Json to_json(const std::string& name, const DeviceKind& kind) {
  return {{"name", name},
          {"devices", kind.devices},
          {"names", kind.names},
          {"why_none", kind.why_none.empty() ? Json() : Json(kind.why_none)}};
}

void print_cpu(const DeviceKind& kind) {
  const CpuVersion version = cpu_version();
  put_wrapped(stdout, "cpu    ",
              fmt::format("{}, each of which may be a device of its own (cpu:0, cpu:1, ...)",
                          count(kind.devices, "core")));
  put("       {} MiB of memory\n", grouped(std::llround(memory_mb())));
  put("       kernels: oneDNN {} for {}, loops for {}\n", version.onednn, version.onednn_isa,
      version.loops);
}

void print_gpus(const DeviceKind& kind) {
  if (kind.devices == 0) return put_wrapped(stdout, "cuda   ", "none: " + kind.why_none);
  for (size_t i = 0; i < kind.names.size(); ++i) put("cuda:{} {}\n", i, kind.names[i]);
}

int print_devices(bool json) {
  const DeviceKind cpu = device_kind("cpu"), cuda = device_kind(kGpus);
  if (json) {
    print_json({{"kinds", {to_json("cpu", cpu), to_json("cuda", cuda)}}});
  } else {
    print_cpu(cpu);
    print_gpus(cuda);
  }
  return 0;
}

}  // namespace

Run add_devices(CLI::App& root) {
  CLI::App& app = *root.add_subcommand("devices", "what this machine has to train on, or why not");
  const auto json = std::make_shared<bool>(false);
  app.add_flag("--json", *json, "put one JSON object on standard output");
  app.footer(kDevicesExamples);
  return [json] { return print_devices(*json); };
}

}  // namespace crossbow::cli
