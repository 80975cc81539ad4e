use explain::World;
use explain::trace::{Request, trace};
use serde_json::json;

use super::*;

fn rendered(url: &str) -> String {
    let mut builder = World::builder();
    builder.add(json!([
        {"kind": "Service", "metadata": {"namespace": "shop", "name": "web"},
         "spec": {"clusterIP": "10.96.0.5", "ports": [{"name": "\u{1b}[31m", "port": 80}, {"port": 81}]}},
        {"kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
         "addressType": "IPv4", "ports": [{"name": "\u{1b}[31m", "port": 8080}],
         "endpoints": [{"addresses": ["10.244.1.2"]}, {"addresses": ["10.244.1.3"], "conditions": {"ready": false}}]},
        {"kind": "Pod", "metadata": {"namespace": "shop", "name": "cart"}, "spec": {"nodeName": "node-a"},
         "status": {"podIP": "10.244.1.9"}},
        {"kind": "Node", "metadata": {"name": "node-a"}}]));
    let request = Request::new(
        url.parse().expect("a URL"),
        "pod/shop/cart".parse().expect("a client"),
    );
    render(&trace(&builder.build(), &request).expect("a trace"))
}

#[test]
fn verdict_is_first_and_objects_follow() {
    let text = rendered("tcp://web:80");
    let first = text.lines().next();
    let expected = "tcp://web:80 from Pod shop/cart on node node-a: reaches 1 endpoint of Service shop/web";
    assert_eq!(first, Some(expected));
    for part in [
        "web.shop.svc.cluster.local  10.96.0.5 (Service shop/web spec.clusterIPs)",
        "100.0 %  10.244.1.2:8080  ready",
        "10.244.1.3:8080  not ready (EndpointSlice shop/web-1 endpoints[1].conditions)",
    ] {
        assert!(text.contains(part), "{part:?} is missing in\n{text}");
    }
}

#[test]
fn texts_of_objects_do_not_control_the_terminal() {
    let text = rendered("tcp://web:80");
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
}

#[test]
fn long_lists_are_shortened() {
    let texts: Vec<String> = (0..5).map(|number| number.to_string()).collect();
    assert_eq!(list_first(&texts, 5), "0, 1, 2, 3, 4");
    assert_eq!(list_first(&texts, 2), "0, 1 and 3 more");
}
