use serde_json::json;

use super::*;

fn world() -> World {
    let mut builder = World::builder();
    builder.add(json!([
        {"kind": "Service", "metadata": {"namespace": "shop", "name": "web"},
         "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80}]}},
        {"kind": "Service", "metadata": {"namespace": "shop", "name": "api"},
         "spec": {"type": "ExternalName", "externalName": "api.example.com"}},
        {"kind": "Service", "metadata": {"namespace": "shop", "name": "db"},
         "spec": {"clusterIP": "None", "ports": [{"port": 5432}]}},
        {"kind": "Pod", "metadata": {"namespace": "shop", "name": "cart"}, "status": {"podIP": "10.244.1.5"}},
        {"kind": "Pod", "metadata": {"namespace": "pay", "name": "cart"}, "status": {"podIP": "10.244.1.6"},
         "spec": {"hostAliases": [{"ip": "10.96.0.5", "hostnames": ["legacy"]}]}},
        {"kind": "Node", "metadata": {"name": "node-a"},
         "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.11"}]}}]));
    builder.build()
}

fn resolved(client: &str, name: &str) -> (Vec<String>, ResolvedName) {
    let world = world();
    let client = Client::find(&world, &client.parse().expect("a client")).expect("a client");
    let searches = ["example.com".to_owned()];
    let (resolution, resolved) = resolve(&world, &client, name, "cluster.local", &searches);
    let tried = resolution.tried.into_iter().map(|answer| answer.name);
    (tried.collect(), resolved)
}

fn is_address(resolved: &ResolvedName) -> bool {
    matches!(resolved, ResolvedName::Addresses { addresses, .. } if addresses.len() == 1)
}

#[test]
fn short_names_resolve_in_the_namespace_of_the_client() {
    let (tried, found) = resolved("pod/shop/cart", "web");
    assert_eq!(tried, ["web.shop.svc.cluster.local"]);
    assert!(is_address(&found), "{found:?}");
    let (tried, found) = resolved("pod/pay/cart", "web.shop");
    assert_eq!(
        tried,
        ["web.shop.pay.svc.cluster.local", "web.shop.svc.cluster.local"]
    );
    assert!(is_address(&found), "{found:?}");
}

#[test]
fn complete_names_pass_the_domain_of_the_host_first() {
    let (tried, found) = resolved("pod/pay/cart", "web.shop.svc.cluster.local");
    assert_eq!(
        tried[3..],
        [
            "web.shop.svc.cluster.local.example.com",
            "web.shop.svc.cluster.local"
        ]
    );
    assert!(is_address(&found), "{found:?}");
    assert_eq!(resolved("pod/pay/cart", "web.shop.svc.cluster.local.").0.len(), 1);
}

#[test]
fn name_in_another_namespace_is_absent() {
    let (_, found) = resolved("pod/pay/cart", "web");
    let ResolvedName::NoName { reason, service, .. } = found else {
        panic!("{found:?}");
    };
    assert_eq!(reason, "namespace pay has no Service web");
    assert_eq!(service, Some(("pay".to_owned(), "web".to_owned())));
    let (_, found) = resolved("pod/pay/cart", "nope.shop");
    assert!(matches!(found, ResolvedName::NoName { .. }), "{found:?}");
}

#[test]
fn headless_service_without_endpoints_has_no_name() {
    let (_, found) = resolved("pod/shop/cart", "db");
    assert_eq!(resolved("pod/shop/cart", "db-0.db").1, found);
    let ResolvedName::NoName { reason, object, .. } = found else {
        panic!("{found:?}");
    };
    assert_eq!(reason, "Service shop/db has no published endpoint with this name");
    assert_eq!(object.expect("an object").name, "db");
}

#[test]
fn processes_of_a_node_do_not_resolve_services() {
    for client in ["node/node-a", "203.0.113.9"] {
        for name in ["web.shop", "web.shop.svc.cluster.local"] {
            let (_, found) = resolved(client, name);
            assert!(
                matches!(found, ResolvedName::NoName { .. }),
                "{client} {name}: {found:?}"
            );
        }
    }
}

#[test]
fn names_of_others_leave_the_cluster() {
    for client in ["pod/shop/cart", "node/node-a"] {
        let (tried, found) = resolved(client, "www.example.org");
        assert!(
            matches!(found, ResolvedName::Outside { .. }),
            "{client}: {found:?}"
        );
        assert!(
            tried.contains(&"www.example.org".to_owned()),
            "{client}: {tried:?}"
        );
    }
    let (_, found) = resolved("pod/shop/cart", "api");
    let ResolvedName::Outside { field, .. } = found else {
        panic!("{found:?}");
    };
    assert_eq!(field, "spec.externalName");
}

#[test]
fn host_alias_precedes_dns() {
    let (tried, found) = resolved("pod/pay/cart", "legacy");
    assert_eq!(tried, ["legacy"]);
    assert!(is_address(&found), "{found:?}");
}
