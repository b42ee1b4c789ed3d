// Training by ranks of which some may be lost.
#pragma once

#include <memory>
#include <optional>

#include "train/trainer.h"

namespace crossbow {

/// Trains with the folder of rank 0, null elsewhere or without one, from a state to go on from, if
/// there is one. Where ranks are lost and the world survives that, those that are left go on with
/// what they have learned, and with the spares that there are; the first rank then has the folder.
/// Of a spare that is dismissed the result is empty. Throws RankLost where the world does not
/// survive, and Error if fewer are left than `options.min_ranks`.
TrainResult train_while_ranks_last(const GraphFunction& graph, TrainOptions options,
                                   const Recipe& recipe, RunFolder* folder,
                                   std::optional<Checkpoint> from, Throughput& throughput,
                                   Observer& observer);

}  // namespace crossbow
