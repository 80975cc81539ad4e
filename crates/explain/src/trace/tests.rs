use serde_json::{Value, json};

use super::*;

fn service(name: &str, spec: Value) -> Value {
    json!({"kind": "Service", "metadata": {"namespace": "shop", "name": name}, "spec": spec})
}

fn pod(namespace: &str, name: &str, node: &str, address: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": namespace, "name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": node, "containers": [{"name": "http", "ports": [{"containerPort": 8080}]}]},
        "status": {"podIP": address, "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn endpoint(number: usize, node: &str, ready: bool) -> Value {
    json!({"addresses": [format!("10.244.1.{number}")], "nodeName": node, "zone": format!("zone-{node}"),
        "conditions": {"ready": ready, "serving": ready}, "hostname": format!("web-{number}"),
        "targetRef": {"kind": "Pod", "name": format!("web-{number}")}})
}

fn slice(service: &str, endpoints: Value) -> Value {
    json!({"kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints,
        "metadata": {"namespace": "shop", "name": format!("{service}-1"), "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": "http", "port": 8080}]})
}

fn node(name: &str, number: usize) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": format!("zone-{name}")}},
        "spec": {"podCIDRs": [format!("10.244.{number}.0/24")]},
        "status": {"addresses": [{"type": "InternalIP", "address": format!("198.51.100.{number}")}]}})
}

/// Two nodes, three endpoints of which the last is not ready, and clients.
fn objects(spec: Value) -> Vec<Value> {
    let mut web = service(
        "web",
        json!({"type": "NodePort", "clusterIP": "10.96.0.5", "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "nodePort": 30080}]}),
    );
    for (field, value) in spec.as_object().expect("an object") {
        web["spec"][field] = value.clone();
        if value.is_null() {
            web["spec"].as_object_mut().expect("an object").remove(field);
        }
    }
    vec![
        web,
        service(
            "peers",
            json!({"clusterIP": "None", "selector": {"app": "web"},
            "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}),
        ),
        service(
            "api",
            json!({"type": "ExternalName", "externalName": "api.example.com"}),
        ),
        slice(
            "web",
            json!([
                endpoint(2, "a", true),
                endpoint(3, "b", true),
                endpoint(4, "b", false)
            ]),
        ),
        slice(
            "peers",
            json!([
                endpoint(2, "a", true),
                endpoint(3, "b", true),
                endpoint(4, "b", false)
            ]),
        ),
        pod("shop", "web-2", "a", "10.244.1.2"),
        pod("shop", "web-3", "b", "10.244.1.3"),
        pod("pay", "client", "a", "10.244.1.9"),
        node("a", 1),
        node("b", 2),
        json!({"kind": "ServiceCIDR", "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16"]}}),
    ]
}

fn world(objects: Vec<Value>) -> World {
    let mut builder = World::builder();
    objects.into_iter().for_each(|object| builder.add(object));
    builder.build()
}

fn request(url: &str, client: &str) -> Request {
    Request::new(url.parse().expect("a URL"), client.parse().expect("a client"))
}

fn traced(spec: Value, url: &str, client: &str) -> Trace {
    trace(&world(objects(spec)), &request(url, client)).expect("a trace")
}

fn step(path: &Path, kind: StepKind) -> &Step {
    let mut steps = path.steps.iter();
    steps
        .find(|step| step.step == kind)
        .unwrap_or_else(|| panic!("{kind:?} is missing: {:?}", path.steps))
}

#[test]
fn name_is_traced_to_ready_endpoints() {
    let found = traced(json!({}), "http://web.shop/", "pod/pay/client");
    assert_eq!(found.verdict, Verdict::Reaches);
    let tried: Vec<String> = found
        .name
        .expect("a name")
        .tried
        .into_iter()
        .map(|answer| answer.name)
        .collect();
    assert_eq!(
        tried,
        ["web.shop.pay.svc.cluster.local", "web.shop.svc.cluster.local"]
    );
    let [path] = found.paths.as_slice() else {
        panic!("{:?}", found.paths);
    };
    assert_eq!(path.nodes, ["a"]);
    let frontend = step(path, StepKind::Frontend);
    assert_eq!(
        frontend.result,
        "cluster IP 10.96.0.5:80 of Service shop/web, port \"http\", TCP"
    );
    assert_eq!(frontend.field, "spec.clusterIPs");
    let endpoints: Vec<_> = path
        .endpoints
        .iter()
        .map(|endpoint| {
            (
                endpoint.state.pod.as_str(),
                endpoint.port,
                endpoint.chance,
                endpoint.masquerade,
            )
        })
        .collect();
    assert_eq!(
        endpoints,
        [("shop/web-2", 8080, 0.5, false), ("shop/web-3", 8080, 0.5, false)]
    );
    assert_eq!(path.endpoints[0].declared_by.as_deref(), Some("http"));
    let [excluded] = path.excluded.as_slice() else {
        panic!("{:?}", path.excluded);
    };
    assert_eq!(
        (excluded.reason.as_str(), excluded.field.as_str()),
        ("not ready", "endpoints[2].conditions")
    );
    assert_eq!(excluded.object.to_string(), "EndpointSlice shop/web-1");
}

#[test]
fn local_policy_excludes_other_nodes() {
    let found = traced(
        json!({"internalTrafficPolicy": "Local"}),
        "tcp://10.96.0.5:80",
        "pod/pay/client",
    );
    let path = &found.paths[0];
    assert_eq!(path.endpoints.len(), 1);
    assert_eq!(
        path.excluded[0].reason,
        "on node b, and internalTrafficPolicy is Local"
    );
    assert_eq!(path.excluded[0].object.to_string(), "Service shop/web");
    assert_eq!(
        step(path, StepKind::TrafficPolicy).field,
        "spec.internalTrafficPolicy"
    );
}

#[test]
fn hints_exclude_other_zones() {
    let mut objects = objects(json!({"trafficDistribution": "PreferClose"}));
    for (index, zone) in [(0, "zone-a"), (1, "zone-b")] {
        objects[3]["endpoints"][index]["hints"] = json!({"forZones": [{"name": zone}]});
    }
    let request = request("tcp://web.shop:80", "pod/pay/client");
    let found = trace(&world(objects.clone()), &request).expect("a trace");
    let path = &found.paths[0];
    assert_eq!(path.endpoints.len(), 1);
    assert_eq!(path.excluded[0].reason, "its hint is for zone zone-b");
    let topology = step(path, StepKind::Topology);
    assert_eq!(
        topology.result,
        "hints restrict the endpoints to 1 for zone zone-a"
    );
    assert_eq!(topology.field, "spec.trafficDistribution");
    objects[3]["endpoints"][1]["hints"] = Value::Null;
    let found = trace(&world(objects), &request).expect("a trace");
    let topology = step(&found.paths[0], StepKind::Topology);
    assert_eq!(
        topology.result,
        "an endpoint has no zone hint, so hints have no effect"
    );
    assert_eq!(found.paths[0].endpoints.len(), 2);
}

#[test]
fn nodes_that_decide_alike_share_a_path() {
    let all = |spec: Value, client: &str| {
        let mut request = request("tcp://10.96.0.5:80", client);
        request.nodes = Nodes::All;
        let found = trace(&world(objects(spec)), &request).expect("a trace");
        let paths = found
            .paths
            .into_iter()
            .map(|path| (path.nodes, path.endpoints.len()));
        paths.collect::<Vec<_>>()
    };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let node_a = ("a", 1);
    assert_eq!(
        all(json!({"internalTrafficPolicy": "Local"}), "pod/pay/client"),
        [(names(&[node_a.0]), 1), (names(&["b"]), 1)]
    );
    // Without a node for the client, all nodes can receive the packet.
    let found = traced(json!({}), "tcp://10.96.0.5:80", "203.0.113.9");
    assert_eq!(found.paths.len(), 2, "zones differ: {:?}", found.paths);
}

#[test]
fn node_port_of_a_local_policy_depends_on_the_node() {
    let mut objects = objects(json!({"externalTrafficPolicy": "Local"}));
    objects[3]["endpoints"] = json!([endpoint(2, "a", true)]);
    let world = world(objects);
    let found = |url: &str, client: &str| trace(&world, &request(url, client)).expect("a trace");
    let local = found("tcp://198.51.100.1:30080", "203.0.113.9");
    assert_eq!(local.verdict, Verdict::Reaches);
    assert!(!local.paths[0].endpoints[0].masquerade, "{local:?}");
    let remote = found("tcp://198.51.100.2:30080", "203.0.113.9");
    assert_eq!(
        (remote.verdict, remote.paths[0].nodes.as_slice()),
        (Verdict::Dropped, &["b".to_owned()][..])
    );
    // The receiving node decides; a Pod reaches endpoints of all nodes.
    let from_pod = found("tcp://b:30080", "pod/pay/client");
    assert_eq!(from_pod.verdict, Verdict::Reaches);
    let hop = from_pod.paths[0]
        .steps
        .iter()
        .find(|step| step.result.contains("node b, whose plan decides"));
    assert!(hop.is_some(), "{:?}", from_pod.paths);
    assert_eq!(
        found("tcp://198.51.100.1:30081", "203.0.113.9").verdict,
        Verdict::NotAService
    );
}

#[test]
fn masquerade_has_a_reason() {
    let masquerade = |url: &str, client: &str, proxy: ProxySettings| {
        let mut request = request(url, client);
        request.proxy = proxy;
        let found = trace(&world(objects(json!({}))), &request).expect("a trace");
        let path = &found.paths[0];
        let all = path
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.masquerade)
            .count();
        (all, step(path, StepKind::Masquerade).result.clone())
    };
    let default = ProxySettings::default;
    let text = |text: &str| text.to_owned();
    assert_eq!(
        masquerade("tcp://10.96.0.5:80", "pod/shop/web-2", default()),
        (1, text("only if the client gets itself as its endpoint"))
    );
    assert_eq!(
        masquerade("tcp://10.96.0.5:80", "203.0.113.9", default()),
        (2, text("yes: the client is in no Pod CIDR (--cluster-cidr)"))
    );
    let all = ProxySettings {
        masquerade_all: true,
        ..default()
    };
    assert_eq!(masquerade("tcp://10.96.0.5:80", "pod/pay/client", all).0, 2);
    let undetected = ProxySettings {
        pods: Some(plan::PodDetection::default()),
        ..default()
    };
    assert_eq!(masquerade("tcp://10.96.0.5:80", "203.0.113.9", undetected).0, 0);
    assert_eq!(
        masquerade("tcp://198.51.100.1:30080", "203.0.113.9", default()).0,
        2
    );
}

#[test]
fn headless_service_changes_no_port() {
    let found = traced(json!({}), "tcp://peers.shop:8080", "pod/pay/client");
    let [path] = found.paths.as_slice() else {
        panic!("{:?}", found.paths);
    };
    assert_eq!(
        (path.verdict, path.addresses.len(), path.endpoints.len()),
        (Verdict::Reaches, 2, 2)
    );
    assert_eq!(path.endpoints[1].chance, 0.5);
    assert_eq!(path.excluded[0].reason, "not ready, so DNS does not publish it");
    let refused = traced(json!({}), "tcp://peers.shop:80", "pod/pay/client");
    assert_eq!(refused.verdict, Verdict::Refused);
    assert_eq!(
        refused.reason,
        "the Pods of headless Service shop/peers use port 8080, and no proxy changes port 80"
    );
    let one = traced(json!({}), "tcp://web-3.peers.shop:8080", "pod/pay/client");
    assert_eq!(one.paths[0].endpoints[0].state.pod, "shop/web-3");
}

#[test]
fn node_answers_ping_to_services() {
    let found = traced(json!({}), "ping://web.shop", "pod/pay/client");
    assert_eq!(found.verdict, Verdict::Reaches, "{found:#?}");
    assert_eq!(
        found.reason,
        "the node answers for Service shop/web, in the modes nftables and userspace"
    );
    let unassigned = traced(json!({}), "ping://10.96.0.99", "pod/pay/client");
    assert_eq!(unassigned.verdict, Verdict::Dropped);
    let pod = traced(json!({}), "ping://10.244.1.2", "pod/pay/client");
    assert_eq!(pod.verdict, Verdict::NotAService);
}

#[test]
fn addresses_without_a_frontend_have_verdicts() {
    for (url, client, verdict) in [
        ("tcp://10.96.0.5:81", "pod/pay/client", Verdict::Refused),
        ("udp://10.96.0.5:80", "pod/pay/client", Verdict::Refused),
        ("tcp://10.96.0.99:80", "pod/pay/client", Verdict::Dropped),
        ("tcp://10.244.1.2:8080", "pod/pay/client", Verdict::Reaches),
        (
            "tcp://203.0.113.200:443",
            "pod/pay/client",
            Verdict::LeavesTheCluster,
        ),
        ("tcp://[2001:db8::1]:443", "pod/pay/client", Verdict::Dropped),
        ("tcp://127.0.0.1:8080", "pod/pay/client", Verdict::NotAService),
        ("https://api.shop/", "pod/pay/client", Verdict::LeavesTheCluster),
        (
            "https://www.example.org/",
            "pod/pay/client",
            Verdict::LeavesTheCluster,
        ),
        ("tcp://web:80", "pod/pay/client", Verdict::NoName),
        ("tcp://web.shop:80", "node/a", Verdict::NoName),
    ] {
        let found = traced(json!({}), url, client);
        assert_eq!(found.verdict, verdict, "{url} from {client}: {found:?}");
        assert!(!found.reason.is_empty(), "{url}");
    }
}

#[test]
fn client_of_one_family_uses_the_address_of_that_family() {
    let spec = json!({"clusterIPs": ["10.96.0.5", "fd00:10:96::5"], "ipFamilies": ["IPv4", "IPv6"]});
    let found = traced(spec, "tcp://web.shop:80", "pod/pay/client");
    let verdicts: Vec<Verdict> = found.paths.iter().map(|path| path.verdict).collect();
    assert_eq!(verdicts, [Verdict::Reaches, Verdict::Dropped]);
    assert_eq!(found.paths[1].reason, "Pod pay/client has no IPv6 address");
    assert_eq!(found.verdict, Verdict::Reaches);
}

#[test]
fn service_of_another_proxy_is_not_served() {
    let mut objects = objects(json!({}));
    objects[0]["metadata"]["labels"] = json!({"service.kubernetes.io/service-proxy-name": "other"});
    let found = trace(&world(objects), &request("tcp://web.shop:80", "pod/pay/client")).expect("a trace");
    assert_eq!(found.verdict, Verdict::Dropped);
    let route = step(&found.paths[0], StepKind::Route);
    assert_eq!(route.result, "Service shop/web is for the proxy \"other\"");
}

#[test]
fn service_with_the_label_of_headless_slices_is_served() {
    let mut objects = objects(json!({}));
    objects[0]["metadata"]["labels"] = json!({"service.kubernetes.io/headless": ""});
    let found = trace(&world(objects), &request("tcp://web.shop:80", "pod/pay/client")).expect("a trace");
    assert_eq!(found.verdict, Verdict::Reaches);
}

#[test]
fn findings_concern_the_connection() {
    let mut objects = objects(json!({}));
    objects[3]["endpoints"] = json!([]);
    objects[5] = Value::Null;
    objects[6] = Value::Null;
    let found = trace(&world(objects), &request("tcp://web.shop:80", "pod/pay/client")).expect("a trace");
    assert_eq!(found.verdict, Verdict::Refused);
    assert_eq!(found.findings[0].code.to_string(), "PTL-0002");
    let absent = traced(json!({}), "tcp://wbe.shop:80", "pod/pay/client");
    assert_eq!(absent.findings[0].code.to_string(), "PTL-0001");
}

#[test]
fn manifest_without_cluster_ip_gets_an_assumed_one() {
    let found = traced(json!({"clusterIP": null}), "tcp://web.shop:80", "pod/pay/client");
    assert_eq!(found.verdict, Verdict::Reaches);
    assert_eq!(
        found.paths[0].addresses,
        ["192.0.2.1".parse::<IpAddr>().expect("an address")]
    );
}

#[test]
fn unknown_clients_and_nodes_are_errors() {
    let error = |client: &str, nodes: Nodes| {
        let request = Request {
            nodes,
            ..request("tcp://web.shop:80", client)
        };
        let error = trace(&world(objects(json!({}))), &request).expect_err("an error");
        error.to_string()
    };
    assert_eq!(
        error("pod/shop/nope", Nodes::OfClient),
        "the input has no pod/shop/nope"
    );
    let error = {
        let request = Request {
            nodes: Nodes::Named("c".to_owned()),
            ..request("tcp://10.96.0.5:80", "203.0.113.9")
        };
        trace(&world(objects(json!({}))), &request)
            .expect_err("an error")
            .to_string()
    };
    assert_eq!(error, "the input has no node/c");
}

#[test]
fn json_has_stable_fields() {
    let found = traced(json!({}), "tcp://web.shop:80", "pod/pay/client");
    let tree = serde_json::to_value(&found).expect("JSON");
    let keys = |value: &Value| {
        value
            .as_object()
            .expect("an object")
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    let names = |names: &str| names.split(' ').map(str::to_owned).collect::<Vec<_>>();
    for (pointer, expected) in [
        ("", "client destination findings name paths reason verdict"),
        ("/destination", "host port protocol url"),
        ("/client", "addresses kind name namespace node"),
        ("/name", "resolver tried"),
        ("/name/resolver", "field nameServers ndots object reason searches"),
        ("/name/tried/0", "addresses aliases answer field name object"),
        (
            "/paths/0",
            "addresses affinitySeconds endpoints excluded nodes reason source steps verdict",
        ),
        ("/paths/0/steps/1", "field object result step"),
        (
            "/paths/0/endpoints/0",
            "address chance declaredBy masquerade node pod port ready serving terminating zone",
        ),
        (
            "/paths/0/excluded/0",
            "address field node object pod port ready reason serving terminating zone",
        ),
    ] {
        let mut found = keys(tree.pointer(pointer).expect(pointer));
        found.sort();
        assert_eq!(found, names(expected), "{pointer}");
    }
    assert_eq!(tree["verdict"], "reaches");
    assert_eq!(tree["name"]["tried"][0]["answer"], "no such name");
    assert_eq!(tree["paths"][0]["steps"][2]["step"], "trafficPolicy");
}
