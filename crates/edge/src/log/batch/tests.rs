use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

const INTERVAL: Duration = Duration::from_secs(300);

#[test]
fn batch_is_due_an_interval_after_its_first_line() {
    let mut batch = Batch::new(at(1000), "a\n");
    batch.push("b\n");
    assert_eq!((batch.lines, &batch.text[..]), (2, &b"a\nb\n"[..]));
    assert_eq!(batch.due_in(at(1000), INTERVAL), INTERVAL);
    assert_eq!(batch.due_in(at(1299), INTERVAL), Duration::from_secs(1));
    assert_eq!(batch.due_in(at(1300), INTERVAL), Duration::ZERO);
    assert_eq!(batch.due_in(at(9999), INTERVAL), Duration::ZERO);
}

#[test]
fn full_batch_is_due_at_once() {
    let batch = Batch::new(at(1000), &"a".repeat(BATCH_BYTES_MAX));
    assert!(batch.is_full());
    assert_eq!(batch.due_in(at(1000), INTERVAL), Duration::ZERO);
}

#[test]
fn file_name_has_service_host_and_time() {
    let service = ServiceName {
        namespace: "shop".into(),
        name: "web".into(),
    };
    let name = name("logs/a", &service, "host", at(1_443_455_703), 0xabc);
    assert_eq!(
        name.as_ref(),
        "logs/a/2015/09/28/shop_web_host_20150928T155503Z_0000000000000abc.log"
    );
}

proptest! {
    #[test]
    fn clock_set_back_delays_by_one_interval_at_most(started_at in 0i64..4_000_000_000, now in 0i64..4_000_000_000) {
        let batch = Batch::new(at(started_at), "a\n");
        prop_assert!(batch.due_in(at(now), INTERVAL) <= INTERVAL);
    }

    #[test]
    fn prefix_never_leaves_the_directory(prefix in "([./\\\\a~%]|\\.\\./){0,12}") {
        let service = ServiceName { namespace: "shop".into(), name: "web".into() };
        let name = name(&prefix, &service, "host", at(0), 1);
        for batch in name.as_ref().split('/') {
            prop_assert!(!batch.is_empty() && batch != "." && batch != "..", "{}", name);
        }
    }
}
