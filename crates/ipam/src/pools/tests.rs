use proptest::prelude::*;

use super::*;

fn range(first: &str, last: &str) -> std::ops::RangeInclusive<IpAddr> {
    ip(first)..=ip(last)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn pool(blocks: &[(&str, &str)]) -> Pool {
    Pool {
        blocks: blocks.iter().map(|(first, last)| range(first, last)).collect(),
        is_automatic: true,
        ..Pool::default()
    }
}

/// A request; its defaults are the values that most tests use.
struct TestRequest {
    families: Vec<Family>,
    family_policy: FamilyPolicy,
    addresses: Vec<IpAddr>,
    pool: Option<&'static str>,
    sharing: Sharing,
}

impl Default for TestRequest {
    fn default() -> Self {
        Self {
            families: vec![Family::V4],
            family_policy: FamilyPolicy::All,
            addresses: Vec::new(),
            pool: None,
            sharing: Sharing::default(),
        }
    }
}

fn assign(pools: &mut Pools, holder: &str, request: &TestRequest) -> Result<Vec<IpAddr>, AssignError> {
    let eligible = pools.names().cloned().collect();
    pools.assign(&Request {
        holder: &holder.into(),
        families: &request.families,
        family_policy: request.family_policy,
        addresses: &request.addresses,
        pool: request.pool,
        eligible: &eligible,
        sharing: request.sharing.clone(),
    })
}

fn two_families() -> Pools {
    let mut pools = Pools::default();
    pools.set("four", pool(&[("192.0.2.1", "192.0.2.2")]));
    pools.set(
        "six",
        pool(&[("2001:db8::", "2001:db8::ffff:ffff:ffff:ffff:ffff")]),
    );
    pools
}

#[test]
fn assigns_and_keeps_the_lowest_free_address() {
    let mut pools = two_families();
    let request = TestRequest::default();
    assert_eq!(assign(&mut pools, "a/a", &request), Ok(vec![ip("192.0.2.1")]));
    assert_eq!(assign(&mut pools, "a/b", &request), Ok(vec![ip("192.0.2.2")]));
    assert_eq!(assign(&mut pools, "a/b", &request), Ok(vec![ip("192.0.2.2")]));
    let full = AssignError::Exhausted(Family::V4, "four".into());
    assert_eq!(assign(&mut pools, "a/c", &request), Err(full));
    assert_eq!(pools.usage("four", Family::V4), Some((2, 2)));
    assert!(pools.release("a/a"));
    assert_eq!(assign(&mut pools, "a/c", &request), Ok(vec![ip("192.0.2.1")]));
}

#[test]
fn assigns_requested_families() {
    let mut pools = two_families();
    let dual = |family_policy| TestRequest {
        families: vec![Family::V6, Family::V4],
        family_policy,
        ..TestRequest::default()
    };
    assert_eq!(
        assign(&mut pools, "a/a", &dual(FamilyPolicy::All)),
        Ok(vec![ip("2001:db8::"), ip("192.0.2.1")])
    );
    pools.remove("six");
    let missing = AssignError::NoFamily(Family::V6);
    assert_eq!(
        assign(&mut pools, "a/a", &dual(FamilyPolicy::All)),
        Err(missing.clone())
    );
    assert_eq!(missing.to_string(), "no pool has an address of family IPv6");
    assert!(pools.of("a/a").is_empty());
    assert_eq!(
        assign(&mut pools, "a/a", &dual(FamilyPolicy::Any)),
        Ok(vec![ip("192.0.2.1")])
    );
    pools.remove("four");
    assert_eq!(
        assign(&mut pools, "a/a", &dual(FamilyPolicy::Any)),
        Err(AssignError::NoPools)
    );
}

#[test]
fn assigns_requested_addresses() {
    let mut pools = two_families();
    let of = |addresses: &[&str]| TestRequest {
        addresses: addresses.iter().map(|text| ip(text)).collect(),
        ..TestRequest::default()
    };
    assert_eq!(
        assign(&mut pools, "a/a", &of(&["192.0.2.2"])),
        Ok(vec![ip("192.0.2.2")])
    );
    let held = AssignError::Held {
        address: ip("192.0.2.2"),
        holder: "a/a".into(),
        reason: NotShared::Key,
    };
    assert_eq!(assign(&mut pools, "a/b", &of(&["192.0.2.2"])), Err(held));
    let outside = AssignError::OutsideOfPools(ip("192.0.2.3"));
    assert_eq!(assign(&mut pools, "a/b", &of(&["192.0.2.3"])), Err(outside));
    let families = AssignError::Families("IPv4".into());
    assert_eq!(
        assign(&mut pools, "a/b", &of(&["2001:db8::1"])),
        Err(families.clone())
    );
    assert_eq!(
        assign(&mut pools, "a/b", &of(&["192.0.2.1", "192.0.2.1"])),
        Err(families)
    );
}

#[test]
fn chooses_eligible_pools_by_priority_and_name() {
    let mut pools = two_families();
    pools.set(
        "best",
        Pool {
            priority: 5,
            ..pool(&[("198.51.100.1", "198.51.100.1")])
        },
    );
    pools.set(
        "asked",
        Pool {
            is_automatic: false,
            ..pool(&[("203.0.113.1", "203.0.113.9")])
        },
    );
    let request = TestRequest::default();
    assert_eq!(assign(&mut pools, "a/a", &request), Ok(vec![ip("198.51.100.1")]));
    assert_eq!(assign(&mut pools, "a/b", &request), Ok(vec![ip("192.0.2.1")]));
    let by_name = |name| TestRequest {
        pool: Some(name),
        ..TestRequest::default()
    };
    assert_eq!(
        assign(&mut pools, "a/b", &by_name("asked")),
        Ok(vec![ip("203.0.113.1")])
    );
    let unknown = AssignError::UnknownPool("none".into());
    assert_eq!(assign(&mut pools, "a/b", &by_name("none")), Err(unknown));
    let others = BTreeSet::from(["four".into()]);
    let refused = pools.assign(&Request {
        holder: &"a/z".into(),
        families: &[Family::V4],
        family_policy: FamilyPolicy::All,
        addresses: &[],
        pool: Some("asked"),
        eligible: &others,
        sharing: Sharing::default(),
    });
    assert_eq!(refused, Err(AssignError::NotForHolder("asked".into())));
    pools.remove("best");
    pools.remove("four");
    let not_automatic = AssignError::NotAutomatic(Family::V4, "asked".into());
    assert_eq!(assign(&mut pools, "a/c", &request), Err(not_automatic));
}

#[test]
fn excludes_addresses_at_the_edges() {
    let mut pools = Pools::default();
    let avoiding = Pool {
        avoids_edges: true,
        ..pool(&[("192.0.2.255", "192.0.3.1")])
    };
    pools.set("p", avoiding);
    assert_eq!(pools.usage("p", Family::V4), Some((1, 0)));
    assert_eq!(
        assign(&mut pools, "a/a", &TestRequest::default()),
        Ok(vec![ip("192.0.3.1")])
    );
    let edge = TestRequest {
        addresses: vec![ip("192.0.3.0")],
        ..TestRequest::default()
    };
    assert_eq!(
        assign(&mut pools, "a/b", &edge),
        Err(AssignError::OutsideOfPools(ip("192.0.3.0")))
    );
}

#[test]
fn sharing_requires_same_key_other_ports_and_same_backends() {
    let mut pools = two_families();
    let shares = |key: &str, port, backends: Option<&str>| TestRequest {
        sharing: Sharing::new(Some(key.to_owned()), [(6, port)], backends.map(str::to_owned)),
        addresses: vec![ip("192.0.2.1")],
        ..TestRequest::default()
    };
    let reason = |outcome| match outcome {
        Err(AssignError::Held { reason, .. }) => Some(reason),
        _ => None,
    };
    assert!(assign(&mut pools, "a/a", &shares("k", 80, None)).is_ok());
    assert!(assign(&mut pools, "b/b", &shares("k", 443, None)).is_ok());
    assert_eq!(
        reason(assign(&mut pools, "c/c", &shares("k", 80, None))),
        Some(NotShared::Ports)
    );
    assert_eq!(
        reason(assign(&mut pools, "c/c", &shares("l", 81, None))),
        Some(NotShared::Key)
    );
    let local = shares("k", 81, Some("app=x"));
    assert_eq!(
        reason(assign(&mut pools, "c/c", &local)),
        Some(NotShared::Backends)
    );
    // Without an address named, one that can be shared comes before a free one.
    let any = TestRequest {
        addresses: Vec::new(),
        ..shares("k", 82, None)
    };
    assert_eq!(assign(&mut pools, "d/d", &any), Ok(vec![ip("192.0.2.1")]));
    pools.release("a/a");
    pools.release("b/b");
    assert_eq!(pools.holders(ip("192.0.2.1")).count(), 1);
    pools.release("d/d");
    assert_eq!(pools.usage("four", Family::V4), Some((2, 0)));
}

#[test]
fn ranges_share_no_address_with_ports_of_a_process() {
    let mut pools = two_families();
    let shares = |port, port_use| {
        let mut sharing = Sharing::new(Some("k".to_owned()), [(6, port)], None);
        sharing.set_port_use(port_use);
        TestRequest {
            sharing,
            addresses: vec![ip("192.0.2.1")],
            ..TestRequest::default()
        }
    };
    let held = Err(AssignError::Held {
        address: ip("192.0.2.1"),
        holder: "a/a".into(),
        reason: NotShared::Ranges,
    });
    for (first, second) in [
        (PortUse::Process, PortUse::Ranges),
        (PortUse::Ranges, PortUse::Process),
    ] {
        assert!(assign(&mut pools, "a/a", &shares(443, first)).is_ok());
        assert_eq!(assign(&mut pools, "b/b", &shares(80, second)), held);
        assert!(assign(&mut pools, "b/b", &shares(80, first)).is_ok());
        assert!(assign(&mut pools, "c/c", &shares(81, PortUse::Listed)).is_ok());
        for holder in ["a/a", "b/b", "c/c"] {
            pools.release(holder);
        }
    }
}

#[test]
fn later_pool_excludes_held_addresses() {
    let mut pools = Pools::default();
    let holder: Holder = "a/a".into();
    assert!(pools.restore(&holder, &[ip("192.0.2.1")], &Sharing::default()));
    assert!(!pools.restore(&"b/b".into(), &[ip("192.0.2.1")], &Sharing::default()));
    pools.set("p", pool(&[("192.0.2.1", "192.0.2.2")]));
    assert_eq!(
        assign(&mut pools, "b/b", &TestRequest::default()),
        Ok(vec![ip("192.0.2.2")])
    );
    assert_eq!(
        assign(&mut pools, "a/a", &TestRequest::default()),
        Ok(vec![ip("192.0.2.1")])
    );
    // An address that no pool has any more is released when it is requested.
    pools.set("p", pool(&[("192.0.2.7", "192.0.2.8")]));
    assert_eq!(pools.of("a/a"), [ip("192.0.2.1")]);
    assert_eq!(
        assign(&mut pools, "a/a", &TestRequest::default()),
        Ok(vec![ip("192.0.2.7")])
    );
}

/// An operation on the pools.
#[derive(Clone, Debug)]
enum Step {
    Assign {
        holder: u8,
        requested: Option<u8>,
        key: Option<u8>,
        port: u16,
    },
    Release(u8),
    Resize {
        pool: bool,
        first: u8,
        last: u8,
    },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let assign = (
        0u8..8,
        prop::option::of(0u8..12),
        prop::option::of(0u8..2),
        80u16..83,
    )
        .prop_map(|(holder, requested, key, port)| Step::Assign {
            holder,
            requested,
            key,
            port,
        });
    let resize = (any::<bool>(), 0u8..10, 0u8..10).prop_map(|(pool, a, b)| Step::Resize {
        pool,
        first: a.min(b),
        last: a.max(b),
    });
    let one = prop_oneof![6 => assign, 2 => (0u8..8).prop_map(Step::Release), 2 => resize, 1 => Just(Step::Restart)];
    prop::collection::vec(one, 1..60)
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

proptest! {
    /// In every sequence, also over restarts: only holders that agreed share an address, each holder gets the addresses
    /// that the pools have, and the counts are right.
    #[test]
    fn addresses_are_assigned_once(steps in steps()) {
        let mut pools = Pools::default();
        let mut ranges: BTreeMap<&str, (u8, u8)> = BTreeMap::new();
        let mut model: BTreeMap<u8, (IpAddr, Sharing)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Assign { holder, requested, key, port } => {
                    let sharing = Sharing::new(key.map(|key| key.to_string()), [(6, port)], None);
                    let request = TestRequest {
                        addresses: requested.map(address).into_iter().collect(),
                        sharing: sharing.clone(),
                        ..TestRequest::default()
                    };
                    match assign(&mut pools, &holder.to_string(), &request) {
                        Ok(given) => {
                            prop_assert_eq!(given.len(), 1);
                            let in_pool = |(first, last): &(u8, u8)| (address(*first)..=address(*last)).contains(&given[0]);
                            prop_assert!(ranges.values().any(in_pool));
                            model.insert(holder, (given[0], sharing));
                        }
                        Err(_) => {
                            model.remove(&holder);
                        }
                    }
                }
                Step::Release(holder) => {
                    prop_assert_eq!(pools.release(&holder.to_string()), model.remove(&holder).is_some());
                }
                Step::Resize { pool: which, first, last } => {
                    let name = if which { "p" } else { "q" };
                    ranges.insert(name, (first, last));
                    let blocks = vec![address(first)..=address(last)];
                    pools.set(name, Pool { blocks, is_automatic: true, ..Pool::default() });
                }
                Step::Restart => {
                    let mut fresh = Pools::default();
                    for (holder, (address, sharing)) in &model {
                        let holder: Holder = holder.to_string().into();
                        prop_assert!(fresh.restore(&holder, &[*address], sharing));
                    }
                    for (name, (first, last)) in &ranges {
                        let blocks = vec![address(*first)..=address(*last)];
                        fresh.set(name, Pool { blocks, is_automatic: true, ..Pool::default() });
                    }
                    pools = fresh;
                }
            }
            for (holder, (held, sharing)) in &model {
                prop_assert_eq!(pools.of(&holder.to_string()), [*held]);
                for (other, (others, theirs)) in &model {
                    if holder != other && held == others {
                        prop_assert!(sharing.sharing_conflict(theirs).is_none());
                    }
                }
            }
            for (name, (first, last)) in &ranges {
                let held: BTreeSet<IpAddr> = model.values().map(|(held, _)| *held).collect();
                let inside = held.iter().filter(|held| (address(*first)..=address(*last)).contains(*held)).count();
                let total = u64::from(last - first) + 1;
                prop_assert_eq!(pools.usage(name, Family::V4), Some((total, inside as u64)));
            }
        }
    }
}
