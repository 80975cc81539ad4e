use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

const INTERVAL: Duration = Duration::from_secs(300);

#[test]
fn a_part_is_due_an_interval_after_its_first_line() {
    let mut part = Part::new(at(1000), "a\n");
    part.push("b\n");
    assert_eq!((part.lines, &part.text[..]), (2, &b"a\nb\n"[..]));
    assert_eq!(part.due_in(at(1000), INTERVAL), INTERVAL);
    assert_eq!(part.due_in(at(1299), INTERVAL), Duration::from_secs(1));
    assert_eq!(part.due_in(at(1300), INTERVAL), Duration::ZERO);
    assert_eq!(part.due_in(at(9999), INTERVAL), Duration::ZERO);
}

#[test]
fn a_full_part_is_due_at_once() {
    let part = Part::new(at(1000), &"a".repeat(PART_BYTES_MAX));
    assert!(part.is_full());
    assert_eq!(part.due_in(at(1000), INTERVAL), Duration::ZERO);
}

#[test]
fn names_tell_where_a_file_is_from_and_when() {
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
    fn a_clock_that_is_set_delays_by_an_interval_at_most(began in 0i64..4_000_000_000, now in 0i64..4_000_000_000) {
        let part = Part::new(at(began), "a\n");
        prop_assert!(part.due_in(at(now), INTERVAL) <= INTERVAL);
    }

    #[test]
    fn no_prefix_leads_elsewhere(prefix in "([./\\\\a~%]|\\.\\./){0,12}") {
        let service = ServiceName { namespace: "shop".into(), name: "web".into() };
        let name = name(&prefix, &service, "host", at(0), 1);
        for part in name.as_ref().split('/') {
            prop_assert!(!part.is_empty() && part != "." && part != "..", "{}", name);
        }
    }
}
