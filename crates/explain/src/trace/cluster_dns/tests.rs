use serde_json::json;

use super::*;

fn world() -> World {
    let service = |name: &str, spec: serde_json::Value| json!({"kind": "Service", "metadata": {"namespace": "shop", "name": name}, "spec": spec});
    let alias =
        |name: &str, target: &str| service(name, json!({"type": "ExternalName", "externalName": target}));
    let mut builder = World::builder();
    builder.add(json!([
        service("web", json!({"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5", "fd00::5"],
            "ports": [{"name": "http", "port": 80}]})),
        service("late", json!({"ports": [{"port": 80}]})),
        service("db", json!({"clusterIP": "None", "ports": [{"name": "sql", "port": 5432}]})),
        alias("api", "API.example.com."),
        alias("shop", "web.shop.svc.cluster.local"),
        alias("loop-a", "loop-b.shop.svc.cluster.local"),
        alias("loop-b", "loop-a.shop.svc.cluster.local"),
        alias("gone", "nope.shop.svc.cluster.local"),
        alias("address", "192.0.2.1"),
        {"kind": "EndpointSlice", "metadata": {"namespace": "shop", "name": "db-1", "labels": {"kubernetes.io/service-name": "db"}},
         "addressType": "IPv4", "ports": [{"name": "sql", "port": 5432}], "endpoints": [
            {"addresses": ["10.244.1.2"], "hostname": "db-0"},
            {"addresses": ["10.244.1.3"], "hostname": "db-1", "conditions": {"ready": false}},
            {"addresses": ["10.244.1.4"]}]}]));
    builder.build()
}

fn found(name: &str) -> (AnswerKind, Vec<String>) {
    let answer = answer(&world(), "cluster.local", name);
    (
        answer.kind,
        answer.addresses.iter().map(ToString::to_string).collect(),
    )
}

#[test]
fn names_have_the_answers_of_the_specification() {
    let addresses = |texts: &[&str]| {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        (AnswerKind::Addresses, texts)
    };
    let none = |kind: AnswerKind| (kind, Vec::new());
    for (name, expected) in [
        ("web.shop.svc.cluster.local", addresses(&["10.96.0.5", "fd00::5"])),
        (
            "_http._tcp.web.shop.svc.cluster.local",
            addresses(&["10.96.0.5", "fd00::5"]),
        ),
        ("_http._udp.web.shop.svc.cluster.local", none(AnswerKind::NoName)),
        ("late.shop.svc.cluster.local", addresses(&["192.0.2.1"])),
        (
            "db.shop.svc.cluster.local",
            addresses(&["10.244.1.2", "10.244.1.4"]),
        ),
        ("db-0.db.shop.svc.cluster.local", addresses(&["10.244.1.2"])),
        ("db-1.db.shop.svc.cluster.local", none(AnswerKind::NoName)),
        ("10-244-1-4.db.shop.svc.cluster.local", addresses(&["10.244.1.4"])),
        ("10-244-1-2.db.shop.svc.cluster.local", none(AnswerKind::NoName)),
        ("10-244-1-9.shop.pod.cluster.local", addresses(&["10.244.1.9"])),
        ("10-244-1-9.nope.pod.cluster.local", none(AnswerKind::NoName)),
        ("shop.svc.cluster.local", none(AnswerKind::NoAddress)),
        ("nope.svc.cluster.local", none(AnswerKind::NoName)),
        ("cluster.local", none(AnswerKind::NoAddress)),
        ("web.shop.svc", none(AnswerKind::Outside)),
        ("xcluster.local", none(AnswerKind::Outside)),
        ("nope.shop.svc.cluster.local", none(AnswerKind::NoName)),
    ] {
        assert_eq!(found(name), expected, "{name}");
    }
}

#[test]
fn aliases_are_followed_inside_of_the_cluster() {
    let of = |name: &str| {
        let answer = answer(
            &world(),
            "cluster.local",
            &format!("{name}.shop.svc.cluster.local"),
        );
        (answer.kind, answer.aliases, answer.service.map(|(_, name)| name))
    };
    let names = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        of("api"),
        (
            AnswerKind::Alias,
            names(&["api.example.com"]),
            Some("api".to_owned())
        )
    );
    let expected = (
        AnswerKind::Addresses,
        names(&["web.shop.svc.cluster.local"]),
        Some("web".to_owned()),
    );
    assert_eq!(of("shop"), expected);
    for name in ["loop-a", "gone"] {
        assert_eq!(
            of(name),
            (AnswerKind::NoAddress, Vec::new(), Some(name.to_owned())),
            "{name}"
        );
    }
    assert_eq!(of("address").0, AnswerKind::NoName);
}

#[test]
fn answer_names_object_and_field() {
    let answer = answer(&world(), "cluster.local", "db-0.db.shop.svc.cluster.local");
    let object = answer.object.expect("an object");
    assert_eq!(
        (object.kind.as_str(), object.name.as_str()),
        ("EndpointSlice", "db-1")
    );
    assert_eq!(answer.field, "endpoints");
}
