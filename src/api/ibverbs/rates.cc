// Between ibv_rate and numbers (ibv_rate_to_mult(3), ibv_rate_to_mbps(3)). One table; IBTA specification 9.11.2.
#include <infiniband/verbs.h>

#include <array>

#include "base/export.h"

namespace {

struct RateRow {
  ibv_rate rate;
  int mult;  // of 2.5 Gb/s; kNone where the rate is not a whole multiple, or was always converted in Mb/s only
  int mbps;
};

constexpr int kNone = -1;

// The FDR, EDR and HDR rows say Mb/s of the signalling rate over its 64b/66b code; "14 Gb/s" is 14.0625.
constexpr std::array kRates{
    RateRow{IBV_RATE_2_5_GBPS, 1, 2'500},        RateRow{IBV_RATE_5_GBPS, 2, 5'000},
    RateRow{IBV_RATE_10_GBPS, 4, 10'000},        RateRow{IBV_RATE_14_GBPS, kNone, 14'062},
    RateRow{IBV_RATE_20_GBPS, 8, 20'000},        RateRow{IBV_RATE_25_GBPS, kNone, 25'781},
    RateRow{IBV_RATE_28_GBPS, 11, 28'125},       RateRow{IBV_RATE_30_GBPS, 12, 30'000},
    RateRow{IBV_RATE_40_GBPS, 16, 40'000},       RateRow{IBV_RATE_50_GBPS, 20, 53'125},
    RateRow{IBV_RATE_56_GBPS, kNone, 56'250},    RateRow{IBV_RATE_60_GBPS, 24, 60'000},
    RateRow{IBV_RATE_80_GBPS, 32, 80'000},       RateRow{IBV_RATE_100_GBPS, kNone, 103'125},
    RateRow{IBV_RATE_112_GBPS, kNone, 112'500},  RateRow{IBV_RATE_120_GBPS, 48, 120'000},
    RateRow{IBV_RATE_168_GBPS, kNone, 168'750},  RateRow{IBV_RATE_200_GBPS, kNone, 206'250},
    RateRow{IBV_RATE_300_GBPS, kNone, 309'375},  RateRow{IBV_RATE_400_GBPS, 160, 425'000},
    RateRow{IBV_RATE_600_GBPS, 240, 637'500},    RateRow{IBV_RATE_800_GBPS, 320, 850'000},
    RateRow{IBV_RATE_1200_GBPS, 480, 1'275'000},
};

int number_of(ibv_rate rate, int RateRow::*column) {
  for (const RateRow& row : kRates) {
    if (row.rate == rate) return row.*column;
  }
  return kNone;
}

// A number that is no rate's is "no limit".
ibv_rate rate_of(int number, int RateRow::*column) {
  for (const RateRow& row : kRates) {
    if (row.*column == number && number != kNone) return row.rate;
  }
  return IBV_RATE_MAX;
}

}  // namespace

// -1 where the rate has no such number.
VERBATIM_EXPORT int ibv_rate_to_mult(enum ibv_rate rate) { return number_of(rate, &RateRow::mult); }
VERBATIM_EXPORT int ibv_rate_to_mbps(enum ibv_rate rate) { return number_of(rate, &RateRow::mbps); }

VERBATIM_EXPORT enum ibv_rate mult_to_ibv_rate(int mult) { return rate_of(mult, &RateRow::mult); }
VERBATIM_EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps) { return rate_of(mbps, &RateRow::mbps); }
