use serde_json::json;

use super::*;
use crate::view::objects::PodPlace;

fn objects() -> Objects {
    let mut objects = Objects::default();
    let service = json!({"metadata": {"namespace": "shop", "name": "web"}, "spec": {}});
    objects.put_service(serde_json::from_value(service).expect("a Service"));
    let node = json!({"metadata": {"name": "n1"}, "spec": {"podCIDRs": ["10.244.0.0/24"]},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
    objects.put_node(serde_json::from_value(node).expect("a Node"));
    let place = PodPlace {
        node: "n1".into(),
        addresses: vec!["10.244.0.9".parse().expect("an address")],
    };
    objects.put_pod(ObjectKey::new("shop", "cart"), place);
    objects
}

fn report(services: serde_json::Value, interval: f64) -> NodeFlows {
    let tree = json!({"metadata": {"name": "n1"}, "intervalSeconds": interval, "countsBytes": false, "services": services});
    serde_json::from_value(tree).expect("a report")
}

#[test]
fn reports_become_traffic_of_known_services() {
    let objects = objects();
    let figures = json!({"open": 3, "opened": 10, "refused": 1});
    let client =
        |address: &str, open: u64| json!({"address": address, "figures": {"open": open}, "endpoints": []});
    let services = json!([
        {"namespace": "shop", "name": "web", "figures": figures,
         "clients": [client("192.0.2.1", 1), client("10.244.0.9", 2), client("203.0.113.7", 0)]},
        {"namespace": "shop", "name": "invented", "figures": figures},
    ]);
    let merged = Merged::merge(
        vec![("n1".to_owned(), Ok(report(services, 1.0)))],
        &names(&objects),
    );
    let traffic = of_services(&merged, &objects);
    assert_eq!(traffic.len(), 1, "Services without an object are left out");
    let web = &traffic[&ObjectKey::new("shop", "web")];
    assert_eq!(
        (
            web.total.connections,
            web.total.connections_per_second,
            web.total.failed
        ),
        (3, 10.0, 1)
    );
    assert_eq!(web.total.bytes_per_second, None, "the node counts no bytes");
    let clients: Vec<(ClientKind, &str)> = web
        .clients
        .iter()
        .map(|row| (row.kind, row.name.as_str()))
        .collect();
    assert_eq!(
        clients,
        [
            (ClientKind::Pod, "shop/cart"),
            (ClientKind::Node, "n1"),
            (ClientKind::External, "")
        ]
    );
}

/// A node may report any number.
#[test]
fn rates_are_finite() {
    let objects = objects();
    let figures =
        json!({"open": u64::MAX, "opened": u64::MAX, "bytesToClients": u64::MAX, "refused": u64::MAX});
    let services = json!([{"namespace": "shop", "name": "web", "figures": figures}]);
    let lies = || report(services.clone(), 0.0);
    let reports = vec![("n1".to_owned(), Ok(lies())), ("n2".to_owned(), Ok(lies()))];
    let traffic = of_services(&Merged::merge(reports, &names(&objects)), &objects);
    let total = traffic[&ObjectKey::new("shop", "web")].total;
    assert_eq!(total.connections, u64::MAX);
    assert!(total.connections_per_second <= RATE_MAX);
    assert_eq!(
        [f64::NAN, f64::INFINITY, -1.0, 0.04, 12.34].map(round_to_tenths),
        [0.0, RATE_MAX, 0.0, 0.0, 12.3]
    );
}

/// A node may report any Services, endpoints and clients.
#[test]
fn rows_of_a_node_are_bounded() {
    let objects = objects();
    let clients = |number: u32| -> Vec<serde_json::Value> {
        let address = |index: u32| std::net::Ipv4Addr::from(0x0a00_0000 + index);
        (0..number)
            .map(|index| json!({"address": address(index)}))
            .collect()
    };
    let invented: Vec<_> = (0..2_000)
        .map(|index| json!({"namespace": "shop", "name": format!("invented-{index}"), "clients": clients(3)}))
        .collect();
    let (kept, dropped) = limit_rows(report(json!(invented), 1.0), &objects);
    assert_eq!((kept.services.len(), dropped), (0, 8_000));
    let endpoint = |index: u32| {
        let address = std::net::Ipv4Addr::from(0x0a01_0000 + index);
        json!({"address": format!("{address}:80"), "protocol": "TCP"})
    };
    let endpoints: Vec<_> = (0..1_500).map(endpoint).collect();
    let web = json!({"namespace": "shop", "name": "web", "clients": clients(1_000), "endpoints": endpoints});
    // The same Service again and again.
    let (kept, dropped) = limit_rows(report(json!(vec![web; 60]), 1.0), &objects);
    let rows: usize = kept
        .services
        .iter()
        .map(|service| 1 + service.clients.len() + service.endpoints.len())
        .sum();
    assert_eq!(rows, ROWS_OF_NODE_MAX);
    assert_eq!(rows + dropped, 60 * 2_501);
    let merged = Merged::merge(vec![("n1".to_owned(), Ok(kept))], &names(&objects));
    let traffic = of_services(&merged, &objects);
    let web = &traffic[&ObjectKey::new("shop", "web")];
    assert_eq!(web.endpoints.len(), ENDPOINTS_OF_SERVICE_MAX);
    assert_eq!(web.clients.len(), CLIENTS_MAX);
}
