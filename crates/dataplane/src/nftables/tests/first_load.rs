use std::sync::atomic::{AtomicBool, Ordering};

use api::object::Service;
use serde_json::json;

use super::*;

/// Another proxy may serve a cluster IP until the table has it, so no packet to it may be dropped before.
#[test]
fn first_load_drops_unknown_cluster_ips_after_all_services_are_loaded() {
    const SERVICES: usize = 4 * SERVICES_PER_TRANSACTION;
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
        let count = |map: Map| {
            let elements = Nftables::open()
                .unwrap()
                .elements(TABLE, map.name(Family::V4), |_| ());
            elements.map_or(0, |elements| elements.len())
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let changes = plan.take_changes();
                let mut dataplane = NftablesDataplane::open(Options::default()).unwrap();
                dataplane.apply(&plan, &changes).unwrap();
                is_loaded.store(true, Ordering::Release);
            });
            let mut has_seen_part = false;
            while !is_loaded.load(Ordering::Acquire) {
                let (ranges, services) = (count(Map::ServiceCidrs), count(Map::Services));
                has_seen_part |= (1..SERVICES).contains(&services);
                assert!(
                    ranges == 0 || services == SERVICES,
                    "{services} of {SERVICES} Services"
                );
            }
            assert!(has_seen_part, "the load was not observed");
        });
        assert!(count(Map::ServiceCidrs) > 0);
    });
}
