use serde_json::json;

use super::*;

#[test]
fn parses_names_with_scheme_and_port() {
    let parsed = |text| Name::parse(text).map(|name| (name.scheme, name.name, name.port));
    assert_eq!(parsed("web"), Some(("http", "web", "")));
    assert_eq!(parsed("web:http"), Some(("http", "web", "http")));
    assert_eq!(parsed("https:web:443"), Some(("https", "web", "443")));
    assert_eq!(parsed(":web:"), Some(("http", "web", "")));
    for wrong in ["", ":80", "ftp:web:21", "a:b:c:d"] {
        assert_eq!(parsed(wrong), None, "{wrong}");
    }
}

#[test]
fn resolves_port_numbers_to_service_ports() {
    let service = json!({"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 81, "name": "admin"}]}});
    let name = |port| Name {
        scheme: "http",
        name: "web",
        port,
    };
    assert_eq!(port_name(&service, &name("81"), 81), Ok("admin".to_owned()));
    let missing = port_name(&service, &name("82"), 82).unwrap_err();
    assert_eq!(missing.message(), "no service port 82 found for service \"web\"");
}

#[test]
fn resolves_pods_to_their_address() {
    let pod = |ip: &str| {
        json!({
            "spec": {"containers": [{}, {"ports": [{"containerPort": 8080}]}]},
            "status": {"podIP": ip, "podIPs": [{"ip": ip}]},
        })
    };
    let at = |ip: &str, name: &str| {
        pod_destination(&pod(ip), &Name::parse(name).unwrap())
            .map(|destination| format!("{}://{}", destination.scheme, destination.authority))
    };
    assert_eq!(at("192.0.2.1", "p"), Ok("http://192.0.2.1:8080".to_owned()));
    assert_eq!(at("fd00::1", "https:p:1"), Ok("https://[fd00::1]:1".to_owned()));
}

#[test]
fn refuses_local_addresses() {
    for local in [
        "127.0.0.1",
        "127.8.9.10",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "169.254.1.1",
        "fe80::1",
        "0.0.0.0",
        "::",
        "224.0.0.1",
        "ff02::1",
    ] {
        let refused = Destination::at("http", local.parse().unwrap(), Some(80)).unwrap_err();
        assert_eq!(refused.message(), "address not allowed", "{local}");
    }
}
