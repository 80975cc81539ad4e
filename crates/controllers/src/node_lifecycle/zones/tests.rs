use std::time::{Duration, Instant};

use super::{Settings, Standing, Withdrawals, Zone, ZoneState};

fn zone(name: &str) -> Zone {
    Zone {
        region: String::new(),
        zone: name.to_owned(),
    }
}

/// How many Nodes of `lost` leave traffic in so many seconds, looked at every second.
fn left_after(zones: &[(&str, usize, usize)], seconds: u64) -> usize {
    let settings = Settings::default();
    let start = Instant::now();
    let names: Vec<(String, Zone, bool)> = zones
        .iter()
        .flat_map(|(name, ready, lost)| {
            (0..ready + lost).map(move |n| (format!("{name}{n:03}"), zone(name), n < *ready))
        })
        .collect();
    let mut left: Vec<String> = Vec::new();
    let mut withdrawals = Withdrawals::default();
    for second in 0..seconds {
        let standing =
            |(name, zone, is_ready): &'_ (String, Zone, bool)| (name.clone(), zone.clone(), *is_ready);
        let owned: Vec<_> = names.iter().map(standing).collect();
        let nodes: Vec<Standing<'_>> = owned
            .iter()
            .map(|(name, zone, is_ready)| Standing {
                name,
                zone,
                is_ready: *is_ready,
                has_left_traffic: left.contains(name),
            })
            .collect();
        left.extend(withdrawals.grant(&nodes, &settings, start + Duration::from_secs(second)));
    }
    left.len()
}

#[test]
fn a_single_node_goes_at_once_and_others_one_in_ten_seconds() {
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
fn many_at_once_stay_and_all_of_one_zone_go_slowly() {
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
        "a zone that is gone altogether"
    );
    assert_eq!(
        left_after(&[("a", 0, 4), ("b", 0, 1)], 600),
        0,
        "nobody is heard: it may be us"
    );
}

#[test]
fn the_state_of_a_zone_is_upstreams() {
    let of = |ready, lost| ZoneState::of(ready, lost, &Settings::default());
    assert_eq!(of(0, 0), ZoneState::Normal);
    assert_eq!(of(0, 1), ZoneState::FullDisruption);
    assert_eq!(of(1, 2), ZoneState::Normal, "two may be lost by chance");
    assert_eq!(of(2, 3), ZoneState::PartialDisruption);
    assert_eq!(of(5, 3), ZoneState::Normal);
}
