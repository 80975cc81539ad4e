//! Annotations that change nothing are named.

use super::*;

/// An annotation either applies or is named: settings of the edge where the edge does not serve the Service.
#[test]
fn settings_of_the_edge_are_named_without_it() {
    let named = |annotations: &[(&str, &str)]| aws(annotations).edge_only;
    let name = |end: &str| format!("{AWS}{end}");
    assert_eq!(
        named(&[("ssl-ports", "443"), ("connection-draining-timeout", "60")]),
        [name("connection-draining-timeout"), name("ssl-ports")]
    );
    assert_eq!(
        named(&[("type", "nlb"), ("healthcheck-path", "/healthz")]),
        [name("healthcheck-path")]
    );
    assert_eq!(named(&[("ssl-cert", "web"), ("ssl-ports", "443")]), [""; 0]);
    // Values of many forms: no row accepts only the default of its setting.
    let values = [
        "true", "1", "10", "60", "/", "web", "http", "HTTP", "tcp", "TCP", "wlc", "sh", "on", "443",
        "200-299",
    ];
    let is_setting = |row: &&Row| {
        matches!(
            row.meaning,
            AnnotationMeaning::Setting(EdgeNeed::None, _) | AnnotationMeaning::EdgeOnly(_)
        )
    };
    for row in rows().filter(is_setting) {
        let readings = values.map(|value| read(&service(&[(row.name, value)], json!({}))));
        let mut accepted = readings
            .iter()
            .filter(|reading| reading.errors.is_empty())
            .peekable();
        let is_named = |reading: &Reading| reading.edge.is_some() || reading.edge_only == [row.name];
        assert!(
            accepted.peek().is_none() || accepted.any(is_named),
            "{}",
            row.name
        );
    }
}

#[test]
fn settings_that_need_another_one_are_named() {
    let errors = |annotations: &[(&str, &str)]| {
        let class = ("connection-idle-timeout", "90");
        let all: Vec<(&str, &str)> = annotations.iter().copied().chain([class]).collect();
        aws(&all)
            .errors
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    let named = |end: &str, reason: &str| [format!("annotation {AWS}{end} has no effect: {reason}")];
    let drain = ("connection-draining-timeout", "60");
    assert_eq!(
        errors(&[drain]),
        named("connection-draining-timeout", "no annotation enables draining")
    );
    assert_eq!(errors(&[drain, ("connection-draining-enabled", "true")]), [""; 0]);
    assert_eq!(
        errors(&[("ssl-ports", "443")]),
        named("ssl-ports", "no annotation selects a certificate")
    );
    assert_eq!(
        errors(&[("access-log-s3-bucket-name", "logs")]),
        named(
            "access-log-s3-bucket-name",
            "no annotation enables the access log"
        )
    );
}

/// LBK-10, LBK-11.
#[test]
fn annotations_of_kube_router_are_named() {
    let reading = read(&service(
        &[
            ("kube-router.io/service.dsr", "tunnel"),
            ("kube-router.io/service.scheduler", "lc"),
            ("kube-router.io/service.new", "x"),
        ],
        json!({}),
    ));
    assert_eq!(
        reading.cloud_only,
        ["kube-router.io/service.dsr", "kube-router.io/service.scheduler"]
    );
    assert_eq!(reading.unknown, ["kube-router.io/service.new"]);
}
