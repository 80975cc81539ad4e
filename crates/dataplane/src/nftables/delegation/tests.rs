use plan::{Backend, FrontendKind, PortKey};

use super::*;

fn port(scheduler: Scheduler) -> ServicePortPlan {
    let backend = |text: &str| Backend {
        address: text.parse().unwrap(),
        can_be_local: false,
    };
    ServicePortPlan {
        key: PortKey {
            service: api::object::ObjectKey {
                namespace: "ns".into(),
                name: "s".into(),
            },
            port: "".into(),
            protocol: api::object::Protocol::Tcp,
            family: plan::Family::V4,
        },
        is_range: false,
        cluster: vec![backend("10.244.1.2:80"), backend("10.244.2.2:80")],
        local: vec![backend("10.244.1.2:80")],
        serving: Vec::new(),
        scheduler,
        drain_seconds: None,
        connection_age_max_seconds: None,
        rebalance_percent: None,
        affinity_seconds: None,
        serving_nodes: None,
        frontends: Vec::new(),
    }
}

fn frontend(targets: [Target; 3]) -> Frontend {
    Frontend {
        kind: FrontendKind::NodePort,
        address: None,
        port: 30_000,
        last_port: 30_000,
        targets,
        source_ranges: Vec::new(),
    }
}

fn balance(set: EndpointSet) -> Target {
    Target::Balance {
        set,
        masquerade: false,
    }
}

/// EPT-08: clients in the cluster reach all endpoints, others those of this node.
#[test]
fn first_origin_with_endpoints_selects_the_set() {
    let port = port(Scheduler::RoundRobin);
    let (local, cluster) = (balance(EndpointSet::Local), balance(EndpointSet::Cluster));
    assert_eq!(
        virtual_set(&port, &frontend([local, cluster, cluster])),
        Some(EndpointSet::Local)
    );
    assert_eq!(
        virtual_set(&port, &frontend([Target::Drop, cluster, cluster])),
        Some(EndpointSet::Cluster)
    );
    assert_eq!(virtual_set(&port, &frontend([Target::Reject; 3])), None);
}

#[test]
fn rules_serve_random_choice_ranges_and_services_that_end_connections() {
    let all = frontend([balance(EndpointSet::Cluster); 3]);
    assert_eq!(virtual_set(&port(Scheduler::Random), &all), None);
    let served = port(Scheduler::LeastConnections);
    assert_eq!(virtual_set(&served, &all), Some(EndpointSet::Cluster));
    for other in [
        ServicePortPlan {
            is_range: true,
            ..served.clone()
        },
        ServicePortPlan {
            drain_seconds: Some(1),
            ..served.clone()
        },
        ServicePortPlan {
            rebalance_percent: Some(1),
            ..served.clone()
        },
        ServicePortPlan {
            connection_age_max_seconds: Some(60),
            ..served
        },
    ] {
        assert_eq!(virtual_set(&other, &all), None);
    }
}
