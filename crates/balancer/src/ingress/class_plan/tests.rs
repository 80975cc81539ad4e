use serde_json::{Value, json};

use super::*;

fn ingress(namespace: &str, name: &str, created: u8, spec: Value) -> Ingress {
    serde_json::from_value(json!({
        "metadata": {"namespace": namespace, "name": name,
                     "creationTimestamp": format!("2026-01-{created:02}T00:00:00Z")},
        "spec": spec,
    }))
    .expect("an Ingress")
}

fn backend(service: &str) -> Value {
    json!({"service": {"name": service, "port": {"number": 80}}})
}

fn rules(host: &str, paths: &[(&str, &str)]) -> Value {
    let paths: Vec<Value> = paths
        .iter()
        .map(|(path, service)| json!({"path": path, "pathType": "Prefix", "backend": backend(service)}))
        .collect();
    json!({"rules": [{"host": host, "http": {"paths": paths}}]})
}

fn services(plan: &ClassPlan, host: &str) -> Vec<String> {
    let routes = plan.hosts[host].routes.iter();
    routes
        .map(|route| {
            let service = route.backend.as_ref().map(|backend| backend.service.to_string());
            format!("{} {}", route.path, service.unwrap_or_default())
        })
        .collect()
}

#[test]
fn older_ingress_owns_a_host_and_its_namespace_merges_paths() {
    let all = [
        ingress("b", "late", 3, rules("shop.test", &[("/", "evil")])),
        ingress("a", "first", 1, rules("shop.test", &[("/", "web")])),
        ingress("a", "second", 5, rules("Shop.test", &[("/api", "api")])),
    ];
    let plan = ClassPlan::new(&all);
    assert_eq!(services(&plan, "shop.test"), ["/ a/web", "/api a/api"]);
    let conflict = Problem::HostConflict("shop.test".to_owned());
    assert_eq!(
        plan.problems,
        BTreeMap::from([(ObjectKey::new("b", "late"), BTreeSet::from([conflict]))])
    );
}

#[test]
fn owners_do_not_depend_on_order_or_status() {
    let mut newer = ingress("b", "newer", 3, rules("shop.test", &[("/", "web")]));
    newer.status.load_balancer.ingress = vec![api::object::LoadBalancerIngress::default()];
    let mut older = ingress("a", "older", 1, rules("shop.test", &[("/", "web")]));
    for both in [[&newer, &older], [&older, &newer]] {
        let plan = ClassPlan::new(both);
        assert_eq!(&*plan.hosts["shop.test"].namespace, "a");
    }
    older.spec.rules[0].host = "other.test".to_owned();
    let plan = ClassPlan::new([&newer, &older]);
    assert_eq!(&*plan.hosts["shop.test"].namespace, "b");
}

#[test]
fn namespace_decides_between_ingresses_of_one_time() {
    let first = ingress("a", "z", 1, rules("shop.test", &[("/", "web")]));
    let second = ingress("b", "a", 1, rules("shop.test", &[("/", "web")]));
    let plan = ClassPlan::new([&second, &first]);
    assert_eq!(&*plan.hosts["shop.test"].namespace, "a");
}

#[test]
fn default_backend_serves_the_rest_of_its_hosts_or_any_host() {
    let mut with_rules = rules("shop.test", &[("/api", "api")]);
    with_rules["defaultBackend"] = backend("web");
    let all = [
        ingress("a", "rules", 1, with_rules),
        ingress("a", "more", 2, rules("shop.test", &[("/", "root")])),
        ingress("c", "default", 3, json!({"defaultBackend": backend("other")})),
    ];
    let plan = ClassPlan::new(&all);
    assert_eq!(
        services(&plan, "shop.test"),
        ["/api a/api", "/ a/root"],
        "the default backend gets no request"
    );
    assert_eq!(services(&plan, ""), ["/ c/other"]);
}

#[test]
fn resource_backend_is_a_problem() {
    let spec = json!({"defaultBackend": {"resource": {"kind": "Bucket", "name": "static"}}});
    let plan = ClassPlan::new(&[ingress("a", "static", 1, spec)]);
    assert_eq!(services(&plan, ""), ["/ "]);
    assert_eq!(
        plan.problems[&ObjectKey::new("a", "static")],
        BTreeSet::from([Problem::ResourceBackend])
    );
}

#[test]
fn secret_covers_hosts_of_its_entry() {
    for (hosts, host, expected) in [
        (json!(["shop.test"]), "shop.test", true),
        (json!(["*.test"]), "shop.test", true),
        (json!(["*.test"]), "a.shop.test", false),
        (json!(["other.test"]), "shop.test", false),
        (json!([]), "shop.test", true),
        (json!([]), "", false),
    ] {
        let mut spec = rules(host, &[("/", "web")]);
        spec["tls"] = json!([{"hosts": hosts, "secretName": "cert"}]);
        let mut one = ingress("a", "one", 1, spec);
        let plan = ClassPlan::new([&one]);
        let tls = |redirects| {
            expected.then(|| TlsPlan {
                secret: ObjectKey::new("a", "cert"),
                ingress: ObjectKey::new("a", "one"),
                redirects,
            })
        };
        assert_eq!(plan.hosts[host].tls, tls(true), "{hosts} {host}");
        let annotations = &mut one.metadata.annotations;
        annotations.insert(SSL_REDIRECT_ANNOTATION.to_owned(), "false".to_owned());
        let plan = ClassPlan::new([&one]);
        assert_eq!(plan.hosts[host].tls, tls(false));
    }
}

#[test]
fn first_entry_that_covers_a_host_has_its_secret() {
    let mut spec = rules("shop.test", &[("/", "web")]);
    spec["tls"] = json!([
        {"hosts": ["other.test"], "secretName": "other"}, {"hosts": ["*.test"]},
        {"hosts": ["*.test"], "secretName": "first"}, {"hosts": ["Shop.test"], "secretName": "second"},
        {"secretName": "all"},
    ]);
    let one = ingress("a", "one", 1, spec);
    let plan = ClassPlan::new([&one]);
    let tls = plan.hosts["shop.test"].tls.as_ref().expect("a Secret");
    assert_eq!(&*tls.secret.name, "first");
}

#[test]
fn surplus_routes_of_a_host_are_a_problem() {
    let paths: Vec<String> = (0..=ROUTES_MAX).map(|number| format!("/{number}")).collect();
    let paths: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "web")).collect();
    let all = [ingress("a", "many", 1, rules("shop.test", &paths))];
    let plan = ClassPlan::new(&all);
    assert_eq!(plan.hosts["shop.test"].routes.len(), ROUTES_MAX);
    assert_eq!(plan.problems.len(), 1);
}

#[test]
fn surplus_secrets_of_a_namespace_are_a_problem() {
    let hosts: Vec<String> = (0..=SECRETS_MAX)
        .map(|number| format!("{number:04}.test"))
        .collect();
    let of_hosts: Vec<Value> = hosts.iter().map(|host| json!({"host": host})).collect();
    let tls: Vec<Value> = hosts
        .iter()
        .map(|host| json!({"hosts": [host], "secretName": host}))
        .collect();
    let mut other = rules("shop.test", &[("/", "web")]);
    other["tls"] = json!([{"secretName": "cert"}]);
    let all = [
        ingress("a", "many", 1, json!({"rules": of_hosts, "tls": tls})),
        ingress("b", "one", 2, other),
    ];
    let plan = ClassPlan::new(&all);
    assert_eq!(plan.hosts.len(), SECRETS_MAX + 2);
    let of_first = plan.secrets().filter(|secret| *secret.namespace == *"a");
    assert_eq!(of_first.count(), SECRETS_MAX);
    assert_eq!(plan.hosts["1000.test"].tls, None);
    assert!(plan.hosts["shop.test"].tls.is_some());
    assert_eq!(
        plan.problems,
        BTreeMap::from([(
            ObjectKey::new("a", "many"),
            BTreeSet::from([Problem::TooManySecrets])
        )])
    );
}
