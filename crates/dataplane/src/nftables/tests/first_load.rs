use std::sync::atomic::{AtomicBool, Ordering};

use api::object::Service;
use serde_json::json;

use super::*;

/// Another proxy may serve the Services until all are loaded, so no rule may apply before.
#[test]
fn table_is_dormant_until_all_services_are_loaded() {
    const SERVICES: usize = 12 * SERVICES_PER_TRANSACTION;
    let mut plan = Plan::new(settings());
    for number in 0..SERVICES {
        let address = format!("10.96.{}.{}", number / 256, number % 256);
        let service: Service = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": format!("s{number}")},
            "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]},
        }))
        .unwrap();
        plan.apply_service(&service);
    }
    testbed::in_namespace(|| {
        let is_loaded = AtomicBool::new(false);
        let services_loaded = || {
            let services = Map::Services.name(Family::V4);
            let elements = Nftables::open().unwrap().elements(TABLE, services, |_| ());
            elements.map_or(0, |elements| elements.len())
        };
        let is_active =
            || Nftables::open().unwrap().table(TABLE).unwrap() == Some(base_ruleset::table(TABLE));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let changes = plan.take_changes();
                let mut dataplane = NftablesDataplane::open(Options::default()).unwrap();
                dataplane.apply(&plan, &changes).unwrap();
                is_loaded.store(true, Ordering::Release);
            });
            let mut has_seen_part = false;
            while !is_loaded.load(Ordering::Acquire) {
                // Read in this order: the number of Services grows.
                let (is_active, services) = (is_active(), services_loaded());
                has_seen_part |= (1..SERVICES).contains(&services);
                assert!(
                    !is_active || services == SERVICES,
                    "{services} of {SERVICES} Services"
                );
            }
            assert!(has_seen_part, "the load was not observed");
        });
        assert!(is_active());
    });
}
