use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};

use netlink::nftables::{Element, ElementData, Refusal};
use plan::{Family, NodePortAddresses};
use proptest::prelude::*;

use super::layout::Map;
use super::*;
use crate::tests::test_plans::{planned, put, settings};

mod affinity;
mod drift;
mod first_load;
mod ranges;

const TABLE: &str = "portolan";

fn loaded(services: usize) -> (Plan, NftablesDataplane) {
    let mut plan = planned(services);
    let changes = plan.take_changes();
    let mut dataplane = NftablesDataplane::open(Options::default()).unwrap();
    dataplane.apply(&plan, &changes).unwrap();
    (plan, dataplane)
}

fn update(plan: &mut Plan, dataplane: &mut NftablesDataplane) -> Applied {
    let changes = plan.take_changes();
    dataplane.apply(plan, &changes).unwrap()
}

/// Returns all elements and rules as text.
fn dump() -> BTreeSet<String> {
    let mut nftables = Nftables::open().unwrap();
    let mut lines = BTreeSet::new();
    for set in layout::sets() {
        let elements = nftables.elements(TABLE, &set.name, |element| format!("{} {element:?}", set.name));
        lines.extend(elements.unwrap());
    }
    let rules = nftables.rules(TABLE).unwrap();
    lines.extend(rules.iter().map(|(chain, rule)| format!("{chain} {rule:?}")));
    lines
}

fn tamper(write: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new(TABLE, None);
    write(&mut batch);
    Nftables::open().unwrap().commit(batch).unwrap();
}

const FRONTEND: [u8; 12] = [10, 96, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0];

#[test]
fn repair_counts_and_removes_drift() {
    testbed::in_namespace(|| {
        let (plan, mut dataplane) = loaded(3);
        let before = dump();
        write_elsewhere();
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
        tamper(|batch| {
            batch
                .elements(Change::Delete, Map::Services.name(Family::V4), 0)
                .push(&Element::key(&FRONTEND));
            batch
                .elements(Change::Add, Map::ClusterIps.name(Family::V4), 0)
                .push(&Element::key(&[10, 96, 0, 200]));
            batch.flush_chain("services", 0);
        });
        assert_ne!(dump(), before);
        assert_eq!(dataplane.repair(&plan).unwrap(), 3);
        assert_eq!(dump(), before);
    });
}

/// Reads the monitor until it reports something.
fn read_changes(monitor: &mut Monitor) -> Vec<ExternalChange> {
    const ATTEMPTS: usize = 1_000;
    for _ in 0..ATTEMPTS {
        let changes = monitor.read().unwrap();
        if !changes.is_empty() {
            return changes;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("the watch reports no change");
}

/// Changes a foreign table, so that the data plane verifies everything.
fn write_elsewhere() {
    let mut batch = Batch::new("other", None);
    batch.table(Change::Add, &base_ruleset::table("other"), 0);
    Nftables::open().unwrap().commit(batch).unwrap();
}

#[test]
fn own_transactions_need_no_verification() {
    testbed::in_namespace(|| {
        let (mut plan, mut dataplane) = loaded(3);
        assert!(dataplane.is_accounted_for().unwrap());
        put(&mut plan, 1, 5);
        update(&mut plan, &mut dataplane);
        assert!(dataplane.is_accounted_for().unwrap());
        write_elsewhere();
        assert!(!dataplane.is_accounted_for().unwrap());
        // An own change does not hide the external one.
        put(&mut plan, 1, 4);
        update(&mut plan, &mut dataplane);
        assert!(!dataplane.is_accounted_for().unwrap());
        assert_eq!(dataplane.repair(&plan).unwrap(), 0, "read back");
        assert!(dataplane.is_accounted_for().unwrap());
    });
}

#[test]
fn transactions_on_other_tables_need_no_repair() {
    testbed::in_namespace(|| {
        let (mut plan, mut dataplane) = loaded(3);
        let mut monitor = dataplane.watch().unwrap().unwrap();
        write_elsewhere();
        put(&mut plan, 1, 5);
        update(&mut plan, &mut dataplane);
        // A foreign set in Portolan's table is harmless and stays.
        let foreign = netlink::nftables::Set {
            name: "foreign".to_owned(),
            ..Map::ClusterIps.set(Family::V4)
        };
        tamper(|batch| batch.set(Change::Add, &foreign, 0));
        assert!(!dataplane.is_accounted_for().unwrap());
        let changes = read_changes(&mut monitor);
        let transactions = |changes: &[ExternalChange]| {
            let is_transaction = |change: &&ExternalChange| matches!(change, ExternalChange::Transaction(_));
            changes.iter().filter(is_transaction).count()
        };
        assert_eq!(transactions(&changes), 2, "{changes:?}");
        assert_eq!(dataplane.repair_external(&plan, &changes).unwrap(), 0);
        assert!(dataplane.is_accounted_for().unwrap());
        let sets = Nftables::open().unwrap().sets(TABLE).unwrap();
        assert!(sets.iter().any(|set| set.name == "foreign"));
    });
}

/// A monitor whose queue overflows loses notifications; changes of foreign tables must not cause that.
#[test]
fn floods_on_other_tables_lose_no_notification() {
    const ELEMENTS: u32 = 120_000;
    let flood = |table: &str| {
        let set = netlink::nftables::Set {
            name: "flood".to_owned(),
            ..Map::ClusterIps.set(Family::V4)
        };
        let mut batch = Batch::new(table, None);
        batch.set(Change::Add, &set, 0);
        let mut list = batch.elements(Change::Add, &set.name, 0);
        for number in 0..ELEMENTS {
            list.push(&Element::key(&number.to_ne_bytes()));
        }
        drop(list);
        Nftables::open().unwrap().commit(batch).unwrap();
    };
    testbed::in_namespace(|| {
        let (_, mut dataplane) = loaded(1);
        let mut monitor = dataplane.watch().unwrap().unwrap();
        write_elsewhere();
        flood("other");
        let is_transaction = |change: &ExternalChange| matches!(change, ExternalChange::Transaction(_));
        let changes = read_changes(&mut monitor);
        assert!(
            changes.len() == 2 && changes.iter().all(is_transaction),
            "{changes:?}"
        );
        // A flood of changes in Portolan's table overflows the queue.
        flood(TABLE);
        let mut changes = read_changes(&mut monitor);
        while let more = monitor.read().unwrap()
            && !more.is_empty()
        {
            changes.extend(more);
        }
        assert!(changes.contains(&ExternalChange::Everything));
    });
}

/// A transaction may change several tables; the kernel reports it in few datagrams.
#[test]
fn reports_transactions_over_several_tables() {
    testbed::in_namespace(|| {
        let (_, mut dataplane) = loaded(1);
        let mut monitor = dataplane.watch().unwrap().unwrap();
        let mut script = String::new();
        for number in 0..20 {
            script += &format!("add table inet other{number}\n");
        }
        script += &format!("add element inet {TABLE} cluster-ips4 {{ 10.96.0.201 }}\nadd table inet last\n");
        let mut nft = match Command::new("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .spawn()
        {
            Ok(nft) => nft,
            Err(error) => testbed::skip_inside(&format!("nft cannot be run: {error}")),
        };
        nft.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
        assert!(nft.wait().unwrap().success());
        let changes = read_changes(&mut monitor);
        let keys = vec![Box::from([10, 96, 0, 201])];
        let added = ExternalChange::Elements {
            set: "cluster-ips4".to_owned(),
            keys,
        };
        assert!(changes.contains(&added), "{changes:?}");
    });
}

#[test]
fn repair_finds_unreported_changes() {
    testbed::in_namespace(|| {
        let (plan, mut dataplane) = loaded(3);
        let mut monitor = dataplane.watch().unwrap().unwrap();
        let before = dump();
        tamper(|batch| {
            batch
                .elements(Change::Delete, "services4", 0)
                .push(&Element::key(&FRONTEND));
        });
        // The monitor lost this change.
        read_changes(&mut monitor);
        write_elsewhere();
        let changes = read_changes(&mut monitor);
        assert_eq!(dataplane.repair_external(&plan, &changes).unwrap(), 0);
        assert!(!dataplane.is_accounted_for().unwrap());
        assert_eq!(dataplane.repair(&plan).unwrap(), 1);
        assert_eq!(dump(), before);
    });
}

#[test]
fn external_transaction_schedules_verification_of_all_maps() {
    testbed::in_namespace(|| {
        let (plan, mut dataplane) = loaded(3);
        let mut monitor = dataplane.watch().unwrap().unwrap();
        let before = dump();
        for (number, map_id) in map_element::MapId::all().enumerate() {
            let Some(key) = first_key(map_id) else { continue };
            tamper(|batch| {
                batch
                    .elements(Change::Delete, map_id.name(), 0)
                    .push(&Element::key(&key));
            });
            assert_ne!(dump(), before, "{map_id:?}");
            // The monitor reports the transaction, but not its content.
            let mut changes = read_changes(&mut monitor);
            changes.retain(|change| matches!(change, ExternalChange::Transaction(_)));
            assert_eq!(dataplane.repair_external(&plan, &changes).unwrap(), 0);
            assert!(dataplane.is_accounted_for().unwrap());
            // With three Services, one pass covers all maps, wherever it starts.
            dataplane.next_map = number * 7 % map_element::MapId::all().count();
            assert_eq!(dataplane.repair(&plan).unwrap(), 1, "{map_id:?}");
            assert_eq!(dump(), before, "{map_id:?}");
            assert_eq!(dataplane.unverified_maps, 0);
        }
    });
}

/// Returns the key of any element.
fn first_key(map_id: map_element::MapId) -> Option<Vec<u8>> {
    let is_of_ranges = matches!(map_id, map_element::MapId::Map(Map::Pods | Map::ServiceCidrs, _));
    if is_of_ranges || map_id.is_dynamic() {
        return None; // half a range cannot be deleted, and sets that packets fill are not compared
    }
    let mut nftables = Nftables::open().unwrap();
    let keys = nftables.elements(TABLE, map_id.name(), |element| element.key.to_vec());
    keys.unwrap().into_iter().next()
}

#[test]
fn large_maps_take_a_pass_of_their_own() {
    testbed::in_namespace(|| {
        let (plan, mut dataplane) = loaded(200);
        dataplane.require_verification();
        let all = dataplane.unverified_maps;
        let mut turns = 0;
        while dataplane.unverified_maps > 0 {
            assert_eq!(dataplane.verify_within(&plan, 300).unwrap(), 0);
            turns += 1;
            assert!(turns <= all, "the verification does not end");
        }
        // 200 cluster IPs and node ports, 600 endpoints with number and member, 200 local ones: each map fills a
        // pass.
        assert!((4..=8).contains(&turns), "{turns}");
    });
}

#[test]
fn replaces_dormant_table() {
    testbed::in_namespace(|| {
        let (plan, mut dataplane) = loaded(3);
        let mut monitor = dataplane.watch().unwrap().unwrap();
        let before = dump();
        let dormant = netlink::nftables::Table {
            is_dormant: true,
            ..base_ruleset::table(TABLE)
        };
        tamper(|batch| batch.table(Change::Add, &dormant, 0));
        let table = || Nftables::open().unwrap().table(TABLE).unwrap();
        assert_eq!(table(), Some(dormant.clone()));
        let changes = read_changes(&mut monitor);
        assert!(dataplane.repair_external(&plan, &changes).unwrap() > 0);
        assert_eq!(table(), Some(base_ruleset::table(TABLE)));
        assert_eq!(dump(), before);
    });
}

#[test]
fn repairs_reported_changes_only() {
    testbed::in_namespace(|| {
        let (mut plan, mut dataplane) = loaded(3);
        let mut monitor = dataplane.watch().unwrap().unwrap();
        put(&mut plan, 1, 2);
        update(&mut plan, &mut dataplane);
        assert_eq!(monitor.read().unwrap(), [], "its own changes");
        let before = dump();
        let elements = |change, set: &'static str, key: Vec<u8>| {
            move |batch: &mut Batch| {
                batch.elements(change, set, 0).push(&Element::key(&key));
            }
        };
        let endpoint = [&FRONTEND[..], &[1, 0, 0, 0]].concat();
        let node_port = vec![6, 0, 0, 0, 117, 49, 0, 0];
        let tampering: Vec<Box<dyn FnOnce(&mut Batch)>> = vec![
            Box::new(elements(Change::Delete, "services4", FRONTEND.to_vec())),
            Box::new(elements(Change::Delete, "cluster-endpoints4", endpoint)),
            Box::new(elements(Change::Delete, "node-ports4", node_port)),
            Box::new(elements(Change::Delete, "cluster-ips4", vec![10, 96, 0, 1])),
            Box::new(elements(Change::Add, "cluster-ips4", vec![10, 96, 0, 200])),
            Box::new(elements(
                Change::Delete,
                "hairpin4",
                vec![10, 244, 0, 1, 10, 244, 0, 1],
            )),
            Box::new(elements(Change::Delete, "masqueraded", vec![0; 4])),
            Box::new(elements(Change::Delete, "pods4", vec![10, 244, 0, 0])),
            // The catch-all element.
            Box::new(|batch| {
                let needs_full_write = Element {
                    data: Some(ElementData::Value(&[9, 0, 0, 0])),
                    ..Element::key(&[])
                };
                batch
                    .elements(Change::Add, "services4", 0)
                    .push(&needs_full_write);
            }),
            // More keys than are repaired one by one.
            Box::new(|batch| {
                let mut list = batch.elements(Change::Add, "cluster-ips4", 0);
                for number in 0..5_000_u16 {
                    let [high, low] = number.to_be_bytes();
                    list.push(&Element::key(&[10, 97, high, low]));
                }
            }),
            Box::new(|batch| batch.flush_chain("services", 0)),
            Box::new(|batch| {
                let set = Element {
                    data: Some(ElementData::Value(&[9, 0, 0, 0])),
                    ..Element::key(&FRONTEND)
                };
                let list = "services4";
                batch
                    .elements(Change::Delete, list, 0)
                    .push(&Element::key(&FRONTEND));
                batch.elements(Change::Add, list, 0).push(&set);
            }),
        ];
        for (number, tampering) in tampering.into_iter().enumerate() {
            tamper(tampering);
            assert_ne!(dump(), before, "{number}");
            let changes = read_changes(&mut monitor);
            assert!(
                dataplane.repair_external(&plan, &changes).unwrap() > 0,
                "{number}: {changes:?}"
            );
            assert_eq!(dump(), before, "{number}: {changes:?}");
            assert_eq!(monitor.read().unwrap(), [], "{number}: its own mending");
        }
        let table = base_ruleset::table(TABLE);
        tamper(|batch| batch.table(Change::Delete, &table, 0));
        let changes = read_changes(&mut monitor);
        dataplane.repair_external(&plan, &changes).unwrap();
        assert_eq!(dump(), before);
    });
}

#[test]
fn change_on_drifted_table_repairs_it() {
    testbed::in_namespace(|| {
        let (mut plan, mut dataplane) = loaded(3);
        let before = dump();
        tamper(|batch| {
            batch
                .elements(Change::Delete, Map::Services.name(Family::V4), 0)
                .push(&Element::key(&FRONTEND));
        });
        put(&mut plan, 0, 4);
        update(&mut plan, &mut dataplane);
        put(&mut plan, 0, 3);
        update(&mut plan, &mut dataplane);
        dataplane.repair(&plan).unwrap();
        assert_eq!(dump(), before);
    });
}

#[test]
fn restores_deleted_table() {
    testbed::in_namespace(|| {
        let (mut plan, mut dataplane) = loaded(3);
        let before = dump();
        let mut other = NftablesDataplane::open(Options::default()).unwrap();
        assert!(other.cleanup().unwrap());
        assert!(!other.cleanup().unwrap());
        plan.remove_service(&ObjectKey::new("ns", "s2"));
        update(&mut plan, &mut dataplane);
        put(&mut plan, 2, 3);
        update(&mut plan, &mut dataplane);
        assert_eq!(dump(), before);
    });
}

#[test]
fn replaces_foreign_table_of_same_name() {
    testbed::in_namespace(|| {
        tamper(|batch| {
            let table = netlink::nftables::Table {
                name: TABLE.to_owned(),
                comment: "not the proxy's".to_owned(),
                is_dormant: false,
            };
            batch.table(Change::Add, &table, 0);
            let chain = Chain {
                name: "services".to_owned(),
                base: None,
                comment: String::new(),
            };
            batch.chain(Change::Add, &chain, 0);
        });
        let (plan, mut dataplane) = loaded(2);
        write_elsewhere();
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
    });
}

/// NFT-20.
#[test]
fn takeover_writes_differences_only() {
    testbed::in_namespace(|| {
        let (mut plan, _) = loaded(3);
        let before = dump();
        let mut next = NftablesDataplane::open(Options::default()).unwrap();
        plan.mark_everything();
        assert_eq!(update(&mut plan, &mut next).elements, 0);
        assert_eq!(dump(), before);

        put(&mut plan, 1, 2);
        plan.take_changes();
        let mut third = NftablesDataplane::open(Options::default()).unwrap();
        plan.mark_everything();
        let elements = update(&mut plan, &mut third).elements;
        // Endpoint, number and member are removed; two frontends, two verdicts and four chains change.
        assert!((3..=12).contains(&elements), "{elements}");
        assert_eq!(third.repair(&plan).unwrap(), 0);
    });
}

#[test]
fn affinities_survive_restart_unless_endpoint_left() {
    testbed::in_namespace(|| {
        let (mut plan, dataplane) = loaded(1);
        let mut nftables = Nftables::open().unwrap();
        let members = Map::ClusterMembers.name(Family::V4);
        let numbers = nftables
            .elements(TABLE, members, |element| {
                <[u8; 4]>::try_from(&element.key[12..]).unwrap()
            })
            .unwrap();
        assert_eq!(numbers.len(), 3);
        let client = |last: u8| -> Vec<u8> { [&[192, 0, 2, last][..], &FRONTEND].concat() };
        tamper(|batch| {
            let mut list = batch.elements(Change::Add, Map::Affinity.name(Family::V4), 0);
            for (last, number) in numbers.iter().enumerate() {
                list.push(&Element::pair(&client(last as u8), ElementData::Value(number)));
            }
        });
        drop(dataplane);
        put(&mut plan, 0, 2);
        plan.take_changes();
        plan.mark_everything();
        let mut next = NftablesDataplane::open(Options::default()).unwrap();
        update(&mut plan, &mut next);
        let kept = nftables
            .elements(TABLE, Map::Affinity.name(Family::V4), |element| {
                element.key.to_vec()
            })
            .unwrap();
        assert_eq!(kept.len(), 2, "the third endpoint has left");
    });
}

#[test]
fn affinities_to_removed_endpoints_are_deleted() {
    testbed::in_namespace(|| {
        let (mut plan, mut dataplane) = loaded(1);
        let members: Vec<Vec<u8>> = Nftables::open()
            .unwrap()
            .elements(TABLE, Map::ClusterMembers.name(Family::V4), |element| {
                element.key.to_vec()
            })
            .unwrap();
        assert_eq!(members.len(), 3);
        // One client per endpoint.
        tamper(|batch| {
            for (client, member) in members.iter().enumerate() {
                let (service, number) = member.split_last_chunk::<4>().unwrap();
                let key = [&[10, 244, 9, client as u8], service].concat();
                let element = Element {
                    data: Some(ElementData::Value(number)),
                    ..Element::key(&key)
                };
                batch
                    .elements(Change::Add, Map::Affinity.name(Family::V4), 0)
                    .push(&element);
            }
        });
        let kept = || {
            let affinity = Map::Affinity.name(Family::V4);
            let kept = Nftables::open().unwrap().elements(TABLE, affinity, |_| ());
            kept.unwrap().len()
        };
        assert_eq!(kept(), 3);
        put(&mut plan, 0, 2);
        update(&mut plan, &mut dataplane);
        assert_eq!(kept(), 2);
        put(&mut plan, 0, 3);
        update(&mut plan, &mut dataplane);
        assert_eq!(kept(), 2);
    });
}

#[test]
fn settings_change_leaves_services_unchanged() {
    testbed::in_namespace(|| {
        let (mut plan, mut dataplane) = loaded(2);
        let own = |ip: &str| vec![ip.parse().unwrap()];
        plan.set_node_addresses(own("172.30.0.11"), NodePortAddresses::Primary(own("172.30.0.11")));
        plan.set_service_cidrs(vec![
            "10.96.0.0/16".parse().unwrap(),
            "255.255.0.0/16".parse().unwrap(),
        ]);
        update(&mut plan, &mut dataplane);
        write_elsewhere();
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
        plan.set_node_addresses(own("172.30.0.12"), NodePortAddresses::Primary(own("172.30.0.12")));
        assert_eq!(update(&mut plan, &mut dataplane).elements, 2);
    });
}

#[test]
fn sweep_deletes_unused_verdicts() {
    testbed::in_namespace(|| {
        let (mut plan, mut dataplane) = loaded(1);
        for endpoints in 1..250 {
            put(&mut plan, 0, endpoints);
            update(&mut plan, &mut dataplane);
        }
        let chains = Nftables::open().unwrap().chains(TABLE).unwrap().len();
        assert!(chains < 400, "{chains} chains");
        write_elsewhere();
        assert_eq!(dataplane.repair(&plan).unwrap(), 0);
        let chains = Nftables::open().unwrap().chains(TABLE).unwrap().len();
        assert!(chains < 20, "{chains} chains");
    });
}

#[test]
fn reports_refused_service() {
    let mut plan = Plan::new(settings());
    put(&mut plan, 0, 1);
    put(&mut plan, 1, 1);
    plan.take_changes();
    let services: Vec<ObjectKey> = plan.services().cloned().collect();
    let (mut applied, mut codes) = (AppliedServices::default(), VerdictCodes::default());
    let transaction = Transaction::new(
        &plan,
        services.iter(),
        &Delegation::None,
        &mut applied,
        &mut codes,
    );
    let refused = |owner, errno| CommitError::Refused {
        refusals: vec![Refusal {
            owner,
            operation: "add elements to services4".to_owned(),
            errno,
            text: None,
        }],
    };
    let names = transaction.refused(&refused(Some(1), libc::EINVAL)).unwrap();
    assert_eq!(names.len(), 1);
    assert_eq!(names[0].0, services[1]);
    assert_eq!(transaction.refused(&refused(Some(NO_OWNER), libc::EINVAL)), None);
    assert_eq!(
        transaction.refused(&refused(Some(1), libc::ENOENT)),
        None,
        "a missing object is drift"
    );

    transaction.roll_back(&mut applied);
    assert_eq!(applied.services().count(), 0);
    assert_eq!(applied.shared().count(), 0);
}

#[test]
fn names_and_keys_fit_kernel_limits() {
    let mut plan = Plan::new(settings());
    put(&mut plan, 0, 2);
    plan.take_changes();
    let (mut applied, mut codes) = (AppliedServices::default(), VerdictCodes::default());
    let services: Vec<ObjectKey> = plan.services().cloned().collect();
    let transaction = Transaction::new(
        &plan,
        services.iter(),
        &Delegation::None,
        &mut applied,
        &mut codes,
    );
    assert!(transaction.elements() > 0);
    for (_, ports) in applied.services() {
        for port in ports {
            let mut elements = Vec::new();
            port.append_all_elements(&"ns/s0:http".into(), &mut elements);
            for element in elements {
                let map_element::MapId::Map(map, family) = element.map_id else {
                    panic!("a Service's element in {:?}", element.map_id);
                };
                assert_eq!(
                    element.key.as_slice().len(),
                    map.set(family).key_bytes(),
                    "{map:?}"
                );
            }
        }
    }
    for family in FAMILIES {
        assert!(Map::ALL.iter().all(|map| map.name(family).len() < 32));
    }
}

fn numbered(numbers: &[(u8, u8)]) -> Vec<MapElement> {
    let mut elements: Vec<MapElement> = numbers
        .iter()
        .map(|(key, value)| {
            let map_id = map_element::MapId::Map(Map::Services, Family::V4);
            let bytes = |number: &u8| bytes::MapBytes::new().mark(u32::from(*number));
            MapElement::pair(map_id, bytes(key), bytes(value))
        })
        .collect();
    elements.sort_by_key(|element| element.key);
    elements.dedup_by_key(|element| element.key);
    elements
}

proptest! {
    #[test]
    fn difference_turns_old_into_new(
        old in proptest::collection::vec((0u8..12, 0u8..3), 0..12),
        new in proptest::collection::vec((0u8..12, 0u8..3), 0..12),
    ) {
        let (old, new) = (numbered(&old), numbered(&new));
        let (removed, added) = difference(old.clone(), new.clone());
        let mut result = old;
        for element in &removed {
            let at = result.iter().position(|own| own == element);
            prop_assert!(at.is_some(), "what goes was there");
            result.remove(at.unwrap_or_default());
        }
        for element in &added {
            prop_assert!(result.iter().all(|own| own.key != element.key), "no element is added twice");
            result.push(element.clone());
        }
        result.sort_by_key(|element| element.key);
        prop_assert_eq!(result, new.clone());
        prop_assert!(removed.len() + added.len() <= 24);
        prop_assert!(added.iter().all(|element| !removed.contains(element)), "no element is removed and added again");
    }
}
