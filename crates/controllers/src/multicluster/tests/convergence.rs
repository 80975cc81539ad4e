//! Properties that hold for any history of the clusters.

use proptest::prelude::*;

use super::*;

/// One state of a cluster: age, kind of the Service, number of ports and endpoints, availability.
fn source(id: &'static str) -> impl Strategy<Value = Source> {
    let port = (0..3_u16, 80..83_u16);
    (
        any::<bool>(),
        0..4_u8,
        0..4_u8,
        prop::collection::vec(port, 0..3),
        prop::collection::vec(1..9_u8, 0..4),
        (any::<bool>(), 0..3_u8),
    )
        .prop_map(
            move |(is_exported, second, kind, ports, endpoints, availability)| {
                let mut source = Source::exporting(id, second, &endpoints);
                let names = ["", "http", "admin"];
                let ports: Vec<(&str, u16)> = ports
                    .iter()
                    .map(|(name, port)| (names[usize::from(*name)], *port))
                    .collect();
                let exported = service(&ports);
                source.service = match kind {
                    0 => None,
                    1 => Some(headless(exported)),
                    _ => Some(exported),
                };
                if !is_exported {
                    source.export = None;
                }
                source.availability = Availability {
                    is_known: availability.0,
                    reachability: match availability.1 {
                        0 => Reachability::Lost,
                        1 => Reachability::Unreachable,
                        _ => Reachability::Reachable,
                    },
                };
                source
            },
        )
}

/// A state of three clusters. This cluster is always known.
fn sources() -> impl Strategy<Value = Vec<Source>> {
    (source("east"), source("west"), source("north")).prop_map(|(mut east, west, north)| {
        east.availability = Availability {
            is_known: true,
            reachability: Reachability::Reachable,
        };
        vec![east, west, north]
    })
}

proptest! {
    /// The writes end, a second run has none, and the derived Service is valid.
    #[test]
    fn writes_end_in_a_stable_state(history in prop::collection::vec(sources(), 1..6)) {
        let mut model = Model::new();
        for sources in &history {
            model.write_until_desired(sources);
            prop_assert_eq!(model.write_until_desired(sources), 0);
            let Some(import) = &model.observed.import else {
                prop_assert!(model.observed.service.is_none() && model.observed.slices.is_empty());
                continue;
            };
            let names: BTreeSet<&str> = import.spec.ports.iter().map(|port| port.name.as_str()).collect();
            let numbers: BTreeSet<u16> = import.spec.ports.iter().map(|port| port.port).collect();
            prop_assert_eq!(names.len(), import.spec.ports.len());
            prop_assert_eq!(numbers.len(), import.spec.ports.len());
            prop_assert!(import.spec.ports.len() < 2 || !names.contains(""));
            prop_assert_eq!(import.spec.ips.is_empty(), import.spec.is_headless());
        }
    }

    /// All clusters decide alike: spec and conflicts do not depend on the cluster that decides.
    #[test]
    fn all_clusters_decide_alike(mut sources in sources()) {
        for source in &mut sources {
            source.availability = Availability { is_known: true, reachability: Reachability::Reachable };
        }
        let resolutions: Vec<_> = (0..sources.len())
            .map(|local| {
                let mut view = sources.clone();
                view.swap(0, local);
                match Model::new().desired(&view).import {
                    crate::multicluster::desired::Import::Present(present) => Some(present.resolution),
                    _ => None,
                }
            })
            .collect();
        prop_assert!(resolutions.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
