use super::*;

const MIB: usize = 1 << 20;

fn seconds(number: u64) -> Duration {
    Duration::from_secs(number)
}

#[test]
fn pause_of_a_key_grows_with_its_object() {
    let (mut pace, now) = (Pace::default(), Instant::now());
    pace.count(&"small", "a", 0, now);
    pace.count(&"large", "a", 2 * MIB, now);
    assert_eq!(pace.held_until(&"large", "a", now), None, "without a pause");
    pace.count(&"large", "a", MIB, now);
    assert_eq!(pace.held_until(&"small", "a", now), None);
    assert_eq!(pace.held_until(&"large", "a", now), Some(now + seconds(4)));
    assert_eq!(pace.held_until(&"large", "a", now + seconds(4)), None);
    pace.count(&"largest", "b", usize::MAX, now);
    assert_eq!(pace.held_until(&"largest", "b", now), Some(now + PAUSE_MAX));
}

#[test]
fn many_large_objects_hold_all_keys_of_their_tenant() {
    let (mut pace, now) = (Pace::default(), Instant::now());
    for number in 0..4 {
        pace.count(&number, "a", MIB, now);
    }
    assert_eq!(pace.held_until(&9, "a", now), None, "the burst");
    pace.count(&4, "a", MIB, now);
    assert_eq!(pace.held_until(&9, "a", now), Some(now + seconds(4)));
    assert_eq!(pace.held_until(&9, "b", now), None, "another tenant");
    assert_eq!(pace.held_until(&9, "a", now + seconds(4)), None);
}

#[test]
fn pauses_that_have_ended_take_no_memory() {
    let (mut pace, start) = (Pace::default(), Instant::now());
    for number in 0..100 {
        let now = start + seconds(5 * number);
        pace.count(&number, &number.to_string(), MIB, now);
    }
    assert_eq!((pace.keys.len(), pace.tenants.len()), (1, 1));
}
