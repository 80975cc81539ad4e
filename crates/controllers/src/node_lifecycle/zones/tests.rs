use std::time::{Duration, Instant};

use super::{EvictionLimiter, NodeHealth, Settings, Zone, ZoneState};

fn zone(name: &str) -> Zone {
    Zone {
        region: String::new(),
        zone: name.to_owned(),
    }
}

/// Returns the number of Nodes with granted eviction after a few seconds, with one check per second.
fn left_after(zones: &[(&str, usize, usize)], seconds: u64) -> usize {
    let settings = Settings::default();
    let start = Instant::now();
    let names: Vec<(String, Zone, bool)> = zones
        .iter()
        .flat_map(|(name, ready, not_ready)| {
            (0..ready + not_ready)
                .map(move |number| (format!("{name}{number:03}"), zone(name), number < *ready))
        })
        .collect();
    let mut left: Vec<String> = Vec::new();
    let mut limiter = EvictionLimiter::default();
    for second in 0..seconds {
        let health =
            |(name, zone, is_ready): &'_ (String, Zone, bool)| (name.clone(), zone.clone(), *is_ready);
        let owned: Vec<_> = names.iter().map(health).collect();
        let nodes: Vec<NodeHealth<'_>> = owned
            .iter()
            .map(|(name, zone, is_ready)| NodeHealth {
                name,
                zone,
                is_ready: *is_ready,
                is_eviction_granted: left.contains(name),
            })
            .collect();
        left.extend(limiter.grant(&nodes, &settings, start + Duration::from_secs(second)));
    }
    left.len()
}

#[test]
fn eviction_is_granted_for_one_node_at_once_then_every_ten_seconds() {
    assert_eq!(left_after(&[("a", 1, 1)], 1), 1);
    assert_eq!(left_after(&[("a", 5, 3)], 1), 1);
    assert_eq!(left_after(&[("a", 5, 3)], 21), 3);
    assert_eq!(
        left_after(&[("a", 1, 1), ("b", 1, 1)], 1),
        2,
        "each zone by itself"
    );
}

#[test]
fn partially_disrupted_zones_keep_nodes_failed_zones_lose_them_slowly() {
    assert_eq!(
        left_after(&[("a", 2, 3)], 600),
        0,
        "a small zone that is unhealthy"
    );
    assert_eq!(
        left_after(&[("a", 20, 40)], 201),
        3,
        "a large one, one in a hundred seconds"
    );
    assert_eq!(
        left_after(&[("a", 0, 4), ("b", 2, 0)], 21),
        3,
        "a zone without Nodes"
    );
    assert_eq!(
        left_after(&[("a", 0, 4), ("b", 0, 1)], 600),
        0,
        "no Node sends heartbeats: the fault may be here"
    );
}

#[test]
fn zone_states_match_upstream() {
    let of = |ready, not_ready| ZoneState::of(ready, not_ready, &Settings::default());
    assert_eq!(of(0, 0), ZoneState::Normal);
    assert_eq!(of(0, 1), ZoneState::FullDisruption);
    assert_eq!(of(1, 2), ZoneState::Normal, "two may be not_ready by chance");
    assert_eq!(of(2, 3), ZoneState::PartialDisruption);
    assert_eq!(of(5, 3), ZoneState::Normal);
}
