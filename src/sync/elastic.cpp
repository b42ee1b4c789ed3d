#include "sync/elastic.h"

#include <array>

#include "core/error.h"
#include "core/text.h"

namespace crossbow {

ElasticAveraging::ElasticAveraging(const Settings& settings) : settings_(settings) {
  const double bound = stability_bound(settings.learners, settings.momentum);
  if (settings.learners > 1 && settings.alpha >= bound) {
    fail_usage(
        "`alpha` {}: with {} and a central momentum of {} the models would drift apart from {:.4g} "
        "on; leave it out for {:.4g}",
        settings.alpha, count(settings.learners, "learner"), settings.momentum, bound,
        settings.default_alpha);
  }
}

void ElasticAveraging::apply(const Exchange& x) const {
  const double strength = settings_.alpha * static_cast<double>(settings_.learners);
  const double m = settings_.momentum;
  const std::array<double, 3> factors{strength, 1 - strength + m, -m};
  const std::array<const void*, 3> terms{x.mean, x.z, x.previous_z};
  const size_t count = m == 0 ? 2 : 3;
  x.math.combine({factors.data(), count}, {terms.data(), count}, x.next_z, x.n);
}

}  // namespace crossbow
