use proptest::prelude::*;

use super::*;

const NODE: &str = "0 0 4294967295\n";

fn pool(pods_max: usize) -> RangePool {
    RangePool::new(pods_max, &IdMaps::parse(NODE, NODE))
}

#[test]
fn first_range_starts_after_the_host_users() {
    let mut pool = pool(110);
    let range = pool.allocate().unwrap();
    assert_eq!(range.first(), 65_536);
    assert_eq!(
        (range.host_id(0), range.host_id(65_535), range.host_id(65_536)),
        (Some(65_536), Some(131_071), None)
    );
    assert_eq!(pool.allocate().unwrap().first(), 131_072);
}

#[test]
fn exhausted_pool_reports_its_ranges() {
    let mut pool = pool(2);
    let first = pool.allocate().unwrap();
    pool.allocate().unwrap();
    let error = pool.allocate().unwrap_err();
    assert_eq!(error, RangeError::Exhausted { ranges: 2 });
    assert!(
        error
            .to_string()
            .starts_with("could not find an empty slot to allocate a user namespace")
    );
    pool.release(first);
    assert_eq!(pool.allocate(), Ok(first));
}

#[test]
fn released_range_is_reused_late() {
    let mut pool = pool(110);
    let first = pool.allocate().unwrap();
    pool.release(first);
    assert_ne!(pool.allocate().unwrap(), first);
}

#[test]
fn skips_ranges_that_the_agent_does_not_have() {
    let of = |uids: &str, gids: &str| RangePool::new(110, &IdMaps::parse(uids, gids)).allocate();
    assert_eq!(of("0 1000 1\n", "0 1000 1\n"), Err(RangeError::NotMapped));
    assert_eq!(of("0 100000 65536\n", NODE), Err(RangeError::NotMapped));
    assert_eq!(of("0 100000 131071\n", NODE), Err(RangeError::NotMapped));
    let second = "0 0 1\n131072 500000 65536\n";
    assert_eq!(of(second, NODE).map(IdRange::first), Ok(131_072));
    assert_eq!(of(second, "0 0 131072\n"), Err(RangeError::NotMapped));
}

#[test]
fn rejects_ids_that_start_no_range() {
    for first in [0, 1, 65_535, 65_537, 4_294_901_760, u32::MAX] {
        assert_eq!(IdRange::try_from(first), Err(InvalidRangeStart { first }));
    }
    let json = serde_json::to_string(&IdRange::try_from(131_072).unwrap()).unwrap();
    assert_eq!(json, "131072");
    assert!(serde_json::from_str::<IdRange>("0").is_err());
}

#[test]
fn pool_ends_with_the_last_valid_id() {
    let mut pool = pool(usize::MAX);
    assert_eq!(pool.ranges.len(), usize::from(LAST_INDEX));
    assert!(pool.reserve(IdRange::try_from(65_536).unwrap()));
    assert_eq!(pool.allocate().unwrap().first(), 131_072);
}

/// Operation on a pool.
#[derive(Clone, Debug)]
enum Step {
    Allocate,
    Release(u8),
    /// Restart of the agent with another Pod limit; the ranges come from its records.
    Restart(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Allocate),
        2 => any::<u8>().prop_map(Step::Release),
        1 => (1..20u8).prop_map(Step::Restart),
    ]
}

proptest! {
    /// Two Pods never share an ID, also after restarts; no Pod has an ID below 65536; released ranges are reused.
    #[test]
    fn ranges_never_overlap(steps in proptest::collection::vec(step(), 1..200)) {
        let mut pods_max = 10;
        let mut pool = pool(pods_max);
        let mut held: Vec<IdRange> = Vec::new();
        for step in steps {
            match step {
                Step::Allocate => match pool.allocate() {
                    Ok(range) => {
                        prop_assert!(range.first() >= IDS_PER_POD);
                        prop_assert_eq!(range.first() % IDS_PER_POD, 0);
                        prop_assert!(range.first().checked_add(IDS_PER_POD).is_some());
                        prop_assert!(!held.contains(&range));
                        held.push(range);
                    }
                    Err(error) => {
                        prop_assert_eq!(error, RangeError::Exhausted { ranges: pods_max });
                        prop_assert!(held.len() >= pods_max);
                    }
                },
                Step::Release(index) if !held.is_empty() => {
                    pool.release(held.remove(usize::from(index) % held.len()));
                }
                Step::Release(_) => {}
                Step::Restart(max) => {
                    pods_max = usize::from(max);
                    pool = self::pool(pods_max);
                    prop_assert!(held.iter().all(|range| pool.reserve(*range)));
                    prop_assert!(held.iter().all(|range| !pool.reserve(*range)));
                }
            }
        }
    }
}
