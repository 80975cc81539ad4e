//! Drift of the table, which another process compares.

use super::*;

#[test]
fn drift_is_counted_and_not_repaired() {
    testbed::in_namespace(|| {
        let open = || NftablesDataplane::open(Options::default()).unwrap();
        assert_eq!(open().drift(&planned(3)).unwrap(), None, "no table");
        let (plan, _) = loaded(3);
        assert!(open().drift(&plan).unwrap().unwrap().is_empty());
        let before = dump();
        tamper(|batch| {
            batch
                .elements(Change::Delete, Map::Services.name(Family::V4), 0)
                .push(&Element::key(&FRONTEND));
            batch
                .elements(Change::Add, Map::ClusterIps.name(Family::V4), 0)
                .push(&Element::key(&[10, 96, 0, 200]));
            batch.flush_chain("services", 0);
        });
        let damaged = dump();
        assert_ne!(damaged, before);
        let drift = open().drift(&plan).unwrap().unwrap();
        assert_eq!((drift.missing(), drift.changed(), drift.unexpected()), (1, 1, 1));
        assert_eq!(dump(), damaged);
        assert_eq!(drift.clone().common_with(&drift), drift);
        assert!(drift.common_with(&Drift::default()).is_empty());
    });
}

#[test]
fn endpoints_of_another_plan_are_drift() {
    testbed::in_namespace(|| {
        let (mut plan, _) = loaded(3);
        put(&mut plan, 1, 5);
        plan.take_changes();
        let mut other = NftablesDataplane::open(Options::default()).unwrap();
        let drift = other.drift(&plan).unwrap().unwrap();
        assert!(drift.missing() + drift.changed() > 0, "{drift:?}");
    });
}

#[test]
fn chain_without_hook_is_drift() {
    testbed::in_namespace(|| {
        let (plan, _) = loaded(1);
        let gone = Chain {
            name: "prerouting".to_owned(),
            base: None,
            comment: String::new(),
        };
        tamper(|batch| {
            batch.flush_chain("prerouting", 0);
            batch.chain(Change::Delete, &gone, 0);
            batch.chain(Change::Add, &gone, 0);
        });
        let mut other = NftablesDataplane::open(Options::default()).unwrap();
        let drift = other.drift(&plan).unwrap().unwrap();
        assert_eq!((drift.missing(), drift.changed(), drift.unexpected()), (0, 1, 0));
    });
}
