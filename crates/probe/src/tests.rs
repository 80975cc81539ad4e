use ::http::{HeaderMap, Response, Uri};
use bytes::Bytes;
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;

use super::*;
use crate::definition::HttpHeader;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    startup_probe: Option<Probe>,
    liveness_probe: Option<Probe>,
    readiness_probe: Option<Probe>,
}

fn probing_of(spec: serde_json::Value) -> ProbeSchedule {
    let container: Container = serde_json::from_value(spec).unwrap();
    ProbeSchedule::new(Probes {
        startup: container.startup_probe.as_ref(),
        liveness: container.liveness_probe.as_ref(),
        readiness: container.readiness_probe.as_ref(),
    })
}

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

/// Executes every due probe with an instant result, until `until`. Returns the executions and effects with their
/// times.
fn drive(
    probing: &mut ProbeSchedule,
    until: u64,
    mut result: impl FnMut(ProbeKind, u64) -> ProbeResult,
) -> (Vec<(u64, ProbeKind)>, Vec<(u64, ProbeEffect)>) {
    let (mut executed, mut effects) = (Vec::new(), Vec::new());
    while let Some(due) = probing.next_due().filter(|due| due.as_secs() <= until) {
        for kind in probing.begin(due) {
            executed.push((due.as_secs(), kind));
            let effect = probing.count(kind, result(kind, due.as_secs()), due);
            effects.extend(effect.map(|effect| (due.as_secs(), effect)));
        }
    }
    (executed, effects)
}

#[test]
fn first_probe_after_delay_then_by_period() {
    let spec =
        json!({"readinessProbe": {"tcpSocket": {"port": 1}, "initialDelaySeconds": 3, "periodSeconds": 5}});
    let mut probing = probing_of(spec);
    assert!(probing.is_started() && !probing.is_ready());
    let (executed, effects) = drive(&mut probing, 20, |_, at| {
        if at < 10 {
            ProbeResult::Failure
        } else {
            ProbeResult::Success
        }
    });
    let times: Vec<u64> = executed.iter().map(|(at, _)| *at).collect();
    assert_eq!(times, [3, 8, 13, 18]);
    assert_eq!(effects, [(13, ProbeEffect::Changed)]);
    assert!(probing.is_ready());
}

#[test]
fn thresholds_count_results_in_a_row() {
    let spec = json!({"readinessProbe": {"periodSeconds": 1, "successThreshold": 2, "failureThreshold": 3}});
    let mut probing = probing_of(spec);
    let results = [1, 0, 1, 1, 0, 0, 1, 0, 0, 0, 1, 1];
    let mut states = Vec::new();
    for (at, result) in (0..).zip(results) {
        let now = seconds(at);
        assert_eq!(probing.begin(now), [ProbeKind::Readiness]);
        let answer = if result == 1 {
            ProbeResult::Success
        } else {
            ProbeResult::Failure
        };
        probing.count(ProbeKind::Readiness, answer, now);
        states.push(probing.is_ready());
    }
    assert_eq!(
        states,
        [0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 1].map(|state| state == 1)
    );
}

#[test]
fn startup_probe_delays_other_probes() {
    let spec = json!({
        "startupProbe": {"periodSeconds": 4, "failureThreshold": 5},
        "livenessProbe": {"periodSeconds": 10, "initialDelaySeconds": 20},
        "readinessProbe": {"periodSeconds": 10, "initialDelaySeconds": 2},
    });
    let mut probing = probing_of(spec);
    let (executed, effects) = drive(&mut probing, 25, |kind, at| match kind {
        ProbeKind::Startup if at < 8 => ProbeResult::Failure,
        _ => ProbeResult::Success,
    });
    use ProbeKind::{Liveness, Readiness, Startup};
    assert_eq!(
        executed,
        [
            (0, Startup),
            (4, Startup),
            (8, Startup),
            (8, Readiness),
            (18, Readiness),
            (20, Liveness)
        ]
    );
    // The first readiness result starts the traffic, so its probe is due at once.
    assert_eq!(effects, [(8, ProbeEffect::Changed), (8, ProbeEffect::Changed)]);
}

#[test]
fn failed_liveness_or_startup_restarts_container() {
    for (probe, kind, end) in [
        ("livenessProbe", ProbeKind::Liveness, 20),
        ("startupProbe", ProbeKind::Startup, 20),
    ] {
        let mut probing = probing_of(json!({probe: {}, "readinessProbe": {}}));
        let (_, effects) = drive(&mut probing, 1000, |executed, _| {
            if executed == kind {
                ProbeResult::Failure
            } else {
                ProbeResult::Success
            }
        });
        assert_eq!(effects.last(), Some(&(end, ProbeEffect::Restart(kind))));
        assert_eq!((probing.next_due(), probing.is_idle()), (None, true));
    }
}

#[test]
fn unknown_result_does_not_count() {
    let mut probing = probing_of(json!({"livenessProbe": {"failureThreshold": 2}}));
    let results = [
        ProbeResult::Failure,
        ProbeResult::Unknown,
        ProbeResult::Unknown,
        ProbeResult::Failure,
    ];
    let (_, effects) = drive(&mut probing, 30, |_, at| results[at as usize / 10]);
    assert_eq!(effects, [(30, ProbeEffect::Restart(ProbeKind::Liveness))]);
}

#[test]
fn slow_probe_makes_up_for_one_tick() {
    let mut probing = probing_of(json!({"readinessProbe": {"periodSeconds": 2}}));
    assert_eq!(probing.begin(seconds(0)), [ProbeKind::Readiness]);
    assert!(probing.begin(seconds(4)).is_empty(), "still being executed");
    assert_eq!(probing.next_due(), None);
    probing.count(ProbeKind::Readiness, ProbeResult::Failure, seconds(7));
    assert_eq!(probing.next_due(), Some(seconds(7)));
}

#[test]
fn terminating_pod_runs_readiness_probe_only() {
    let mut probing = probing_of(json!({"livenessProbe": {}, "readinessProbe": {}}));
    probing.begin_termination();
    let (executed, _) = drive(&mut probing, 10, |_, _| ProbeResult::Failure);
    assert_eq!(executed, [(0, ProbeKind::Readiness), (10, ProbeKind::Readiness)]);
}

proptest! {
    /// For any results, a probe runs no sooner than its period and its initial delay. Before the container has
    /// started, only the startup probe runs.
    #[test]
    fn probes_respect_their_period(
        delays in proptest::array::uniform3(0u32..20),
        periods in proptest::array::uniform3(1u32..20),
        results in proptest::collection::vec(0usize..4, 1..50),
    ) {
        let probe = |i: usize| json!({"initialDelaySeconds": delays[i], "periodSeconds": periods[i], "failureThreshold": 9});
        let spec = json!({"startupProbe": probe(0), "livenessProbe": probe(1), "readinessProbe": probe(2)});
        let mut probing = probing_of(spec);
        let mut last = [None; 3];
        for result in results {
            let Some(due) = probing.next_due() else { break };
            let was_started = probing.is_started();
            for kind in probing.begin(due) {
                let index = kind as usize;
                prop_assert!(due >= seconds(delays[index].into()));
                prop_assert!((kind == ProbeKind::Startup) != was_started);
                if let Some(before) = last[index].replace(due) {
                    prop_assert!(due >= before + seconds(periods[index].into()));
                }
                let result = [ProbeResult::Failure, ProbeResult::Success, ProbeResult::Success, ProbeResult::Unknown][result];
                probing.count(kind, result, due);
            }
        }
    }
}

#[test]
fn absent_fields_get_upstream_defaults() {
    let probe: Probe = serde_json::from_value(json!({"tcpSocket": {"port": 1}})).unwrap();
    assert_eq!((period(&probe), timeout(&probe)), (seconds(10), seconds(1)));
    assert_eq!((probe.success_threshold, probe.failure_threshold), (1, 3));
    let zero: Probe = serde_json::from_value(json!({"periodSeconds": 0, "timeoutSeconds": 0})).unwrap();
    assert_eq!((period(&zero), timeout(&zero)), (seconds(1), seconds(1)));
}

#[test]
fn ports_are_numbers_or_names() {
    let ports = [serde_json::from_value(json!({"name": "http", "containerPort": 8080})).unwrap()];
    let target = Target {
        address: None,
        ports: &ports,
    };
    let number = |port: serde_json::Value| target.number(&serde_json::from_value(port).unwrap());
    assert_eq!(number(json!("http")), Some(8080));
    assert_eq!(number(json!(81)), Some(81));
    assert_eq!(number(json!("81")), Some(81));
    assert_eq!(number(json!("gone")), None);
    assert_eq!(number(json!(70000)), None);
    assert_eq!(number(json!(0)), None);
}

#[test]
fn urls_are_of_the_pod_or_the_given_host() {
    let url = |get: serde_json::Value, host: &str| {
        let get = serde_json::from_value(get).unwrap();
        http::url(&get, &Host::parse(host), 80).unwrap().to_string()
    };
    assert_eq!(
        url(json!({"path": "healthz?full=1"}), "10.0.0.1"),
        "http://10.0.0.1:80/healthz?full=1"
    );
    assert_eq!(
        url(json!({"scheme": "HTTPS"}), "fd00::1"),
        "https://[fd00::1]:80/"
    );
    assert_eq!(
        url(json!({"path": "/a b\r\nX: ü"}), "web"),
        "http://web:80/a%20b%0D%0AX:%20%C3%BC"
    );
}

#[test]
fn headers_of_the_definition_take_precedence() {
    let header = |name: &str, value: &str| HttpHeader {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let ours = http::headers(&[]).unwrap();
    assert_eq!(ours["accept"], "*/*");
    assert_eq!(ours["user-agent"], "kube-probe/portolan");
    let given = [
        header("Accept", ""),
        header("User-Agent", "me"),
        header("Host", "web"),
        header("X", "1"),
        header("x", "2"),
    ];
    let theirs = http::headers(&given).unwrap();
    assert!(!theirs.contains_key("accept"));
    assert_eq!(
        (&theirs["user-agent"], &theirs["host"]),
        (&"me".parse().unwrap(), &"web".parse().unwrap())
    );
    assert_eq!(theirs.get_all("x").iter().count(), 2);
    assert!(http::headers(&[header("X", "1\r\nY: 2")]).is_err());
}

#[test]
fn too_many_headers_are_a_failure_of_the_probe() {
    let given: Vec<_> = (0..40_000)
        .map(|number| HttpHeader {
            name: format!("x-{number}"),
            value: "1".to_owned(),
        })
        .collect();
    let result = http::headers(&given);
    assert!(matches!(result, Err(http::HttpFailure::Request { .. })));
    assert_eq!(http::headers(&given[..10_000]).unwrap().len(), 10_003);
}

#[test]
fn locations_are_absolute_or_relative() {
    let from: Uri = "http://10.0.0.1:8080/a/b?c".parse().unwrap();
    let to = |status: u16, location: &str| {
        let answer = Response::builder()
            .status(status)
            .header("location", location)
            .body(())
            .unwrap();
        http::redirect(&from, &answer).map(|uri| uri.to_string())
    };
    assert_eq!(to(302, "/x").as_deref(), Some("http://10.0.0.1:8080/x"));
    assert_eq!(to(308, "x").as_deref(), Some("http://10.0.0.1:8080/a/x"));
    assert_eq!(to(301, "//other/x").as_deref(), Some("http://other/x"));
    assert_eq!(to(307, "https://other/x").as_deref(), Some("https://other/x"));
    assert_eq!(to(304, "/x"), None);
    assert_eq!(to(200, "/x"), None);
}

#[test]
fn grpc_response_is_evaluated_by_status_and_message() {
    assert_eq!(grpc::message("")[..], [0, 0, 0, 0, 0]);
    assert_eq!(grpc::message("ab")[..], [0, 0, 0, 0, 4, 0x0a, 2, b'a', b'b']);
    let evaluate = |status: &str, body: &[u8]| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", status.parse().unwrap());
        grpc::evaluate(&trailers, &Bytes::copy_from_slice(body)).map_err(|failure| failure.to_string())
    };
    assert_eq!(evaluate("0", &[0, 0, 0, 0, 2, 8, 1]), Ok(()));
    // A field that is not known, then the status.
    assert_eq!(evaluate("0", &[0, 0, 0, 0, 5, 0x12, 1, b'x', 8, 1]), Ok(()));
    let unhealthy = evaluate("0", &[0, 0, 0, 0, 2, 8, 2]).unwrap_err();
    assert_eq!(unhealthy, "service unhealthy (responded with \"NOT_SERVING\")");
    assert!(evaluate("0", &[]).unwrap_err().contains("UNKNOWN"));
    assert!(
        evaluate("12", &[])
            .unwrap_err()
            .contains("does not implement the grpc health protocol")
    );
    assert!(evaluate("5", &[]).unwrap_err().contains("code = 5"));
    assert!(evaluate("0", &[0, 0, 0, 0, 2, 8]).is_err());
}

proptest! {
    #[test]
    fn arbitrary_grpc_response_is_evaluated(body: Vec<u8>) {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        drop(grpc::evaluate(&trailers, &body));
    }
}
