use netlink::conntrack::Direction;
use plan::Settings;
use serde_json::json;

use super::*;

const START: Duration = Duration::from_secs(1_000_000);

fn plan(annotation: Option<&str>) -> Plan {
    let mut plan = Plan::new(Settings::default());
    let annotations =
        annotation.map(|value| json!({"service.portolan.dev/max-connection-age-seconds": value}));
    let service = json!({
        "metadata": {"namespace": "ns", "name": "web", "annotations": annotations.unwrap_or_else(|| json!({}))},
        "spec": {"clusterIP": "10.96.0.5", "ports": [{"port": 80}]},
    });
    plan.apply_service(&serde_json::from_value(service).expect("a Service"));
    plan
}

fn flow(id: u32, start: Option<Duration>) -> Flow {
    let address = |text: &str| text.parse().expect("an address");
    Flow {
        protocol: 6,
        original: Direction {
            source: address("10.244.0.2:40000"),
            destination: address("10.96.0.5:80"),
        },
        reply: Direction {
            source: address("10.244.1.2:8080"),
            destination: address("10.244.0.2:40000"),
        },
        counters: None,
        tcp_state: None,
        expires_in_seconds: 0,
        began_at_nanoseconds: start.and_then(|start| u64::try_from(start.as_nanos()).ok()),
        is_replied: true,
        is_assured: true,
        id,
        zone: 0,
    }
}

fn check(now: Duration) -> AgeCheck {
    AgeCheck {
        since: SystemTime::UNIX_EPOCH + START,
        now: SystemTime::UNIX_EPOCH + now,
    }
}

#[test]
fn connections_end_between_nine_tenths_and_the_maximum_age() {
    let mut plan = plan(Some("100"));
    plan.take_changes();
    let at = |seconds| check(START + Duration::from_secs(seconds));
    let mut early = 0;
    for id in 0..200 {
        let flow = flow(id, Some(START));
        assert!(!at(89).ends(&plan, &flow));
        assert!(at(100).ends(&plan, &flow));
        early += usize::from(at(95).ends(&plan, &flow));
    }
    assert!((20..180).contains(&early), "{early} of 200 end in the first half");
}

#[test]
fn connection_without_a_start_time_counts_from_the_start_of_the_record() {
    let mut plan = plan(Some("100"));
    plan.take_changes();
    let flow = flow(1, None);
    assert!(!check(START + Duration::from_secs(89)).ends(&plan, &flow));
    assert!(check(START + Duration::from_secs(100)).ends(&plan, &flow));
}

#[test]
fn other_connections_and_start_times_in_the_future_do_not_end() {
    let mut annotated = plan(Some("100"));
    annotated.take_changes();
    let mut plain = plan(None);
    plain.take_changes();
    let late = check(START + Duration::from_secs(1_000));
    let old = flow(1, Some(START));
    assert!(late.ends(&annotated, &old));
    assert!(!late.ends(&plain, &old));
    let mut untranslated = old;
    untranslated.reply.source = untranslated.original.destination;
    assert!(!late.ends(&annotated, &untranslated));
    let future = flow(1, Some(START + Duration::from_secs(2_000)));
    assert!(!late.ends(&annotated, &future));
}

#[test]
fn check_is_due_while_a_service_has_the_annotation() {
    let mut ages = ConnectionAges {
        start_times: StartTimes::RecordedSince(SystemTime::UNIX_EPOCH),
        ..ConnectionAges::default()
    };
    let now = Instant::now();
    let mut annotated = plan(Some("100"));
    let changes = annotated.take_changes();
    ages.record(&annotated, &changes, now);
    assert_eq!(ages.next(), Some(now + CHECK_PERIOD));
    assert!(ages.due(now).is_none());
    assert!(ages.due(now + CHECK_PERIOD).is_some());
    annotated.remove_service(&ObjectKey::new("ns", "web"));
    let changes = annotated.take_changes();
    ages.record(&annotated, &changes, now);
    assert_eq!(ages.next(), None);
}

#[test]
fn check_is_not_due_without_start_times() {
    let mut ages = ConnectionAges {
        start_times: StartTimes::Unavailable("read-only".to_owned()),
        ..ConnectionAges::default()
    };
    let mut plan = plan(Some("100"));
    let changes = plan.take_changes();
    let now = Instant::now();
    ages.record(&plan, &changes, now);
    assert_eq!(ages.next(), None);
    assert!(ages.due(now + CHECK_PERIOD).is_none());
    assert_eq!(ages.unavailable(), Some("read-only"));
}
