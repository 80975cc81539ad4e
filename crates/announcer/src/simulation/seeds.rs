//! Seeds of the scenarios.

use std::ops::Range;

/// Returns the seeds of a scenario: half of them, or all of them if `PORTOLAN_ANNOUNCER_SEEDS` is set.
pub(super) fn seeds(all: u64) -> Range<u64> {
    let is_sweep = std::env::var_os("PORTOLAN_ANNOUNCER_SEEDS").is_some();
    0..if is_sweep { all } else { all.div_ceil(2) }
}
