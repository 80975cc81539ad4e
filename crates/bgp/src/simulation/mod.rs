//! Two speakers with a faulty network between them, in virtual time.
//!
//! Connections are refused, reset, cut without notice and delayed; timers run late; garbage arrives. When the faults end,
//! the session is established and each speaker has the routes of the other. `PORTOLAN_BGP_SEEDS` is the number of runs.

mod world;

use std::time::Duration;

use crate::session::{PeerSystem, State};
use world::{Variation, World};

/// Runs without the environment variable; more run in the nightly tests.
const SEEDS: u64 = 300;
/// Time with faults.
const FAULTS: Duration = Duration::from_secs(400);
/// Time after which everything has converged: the timeout of an OPEN, the maximum delay of an attempt, and a margin.
const CONVERGENCE: Duration = Duration::from_secs(400);

#[test]
fn sessions_recover_from_all_faults() {
    let seeds = std::env::var("PORTOLAN_BGP_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok());
    let mut garbage = 0;
    for seed in 0..seeds.unwrap_or(SEEDS) {
        let mut world = World::new(seed, Variation::of(seed));
        world.run(FAULTS, true);
        world.run(FAULTS + CONVERGENCE, false);
        assert_eq!(world.states(), [State::Established; 2], "seed {seed}: {world:?}");
        for side in 0..2 {
            assert_eq!(
                world.routes_at(side),
                &world.routes_of(1 - side),
                "seed {seed}, side {side}"
            );
        }
        garbage += world.garbage();
    }
    assert!(garbage > 0, "faults happened");
}

#[test]
fn sessions_of_all_variations_start_at_once() {
    for seed in 0..16 {
        let mut world = World::new(seed, Variation::of(seed));
        world.run(Duration::from_secs(15), false);
        assert_eq!(world.states(), [State::Established; 2], "seed {seed}");
    }
    assert_eq!(Variation::of(1).peer_as, PeerSystem::External);
}
