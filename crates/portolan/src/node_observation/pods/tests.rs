use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn pod(name: &str, node: &str, address: &str) -> PodAddresses {
    PodAddresses {
        pod: PodName {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
        },
        node: node.to_owned(),
        addresses: vec![ip(address)],
    }
}

#[test]
fn pods_are_found_by_their_addresses() {
    let pods = [
        pod("other-node", "node-b", "10.244.1.2"),
        pod("web-1", "node-a", "10.244.1.2"),
        pod("unscheduled", "", "10.244.1.3"),
    ];
    let name = |addresses: &[&str]| {
        let addresses: Vec<IpAddr> = addresses.iter().map(|text| ip(text)).collect();
        pod_of(&addresses, &pods, "node-a").map(|pod| pod.name)
    };
    assert_eq!(name(&["127.0.0.1", "10.244.1.2"]).as_deref(), Some("web-1"));
    assert_eq!(name(&["10.244.1.3"]).as_deref(), Some("unscheduled"));
    assert_eq!(name(&["127.0.0.1"]), None);
}

#[test]
fn unreadable_namespaces_are_not_permitted() {
    let process = Process {
        id: 1,
        namespace: None,
        ..Process::default()
    };
    assert_eq!(
        find(&[process], 7, &[], "node-a").expect_err("a failure"),
        ReadFailure::NotPermitted
    );
    assert!(
        find(&[], 7, &[], "node-a")
            .expect("no namespace")
            .found
            .is_empty()
    );
}

#[test]
fn ended_processes_are_skipped() {
    let process = Process {
        id: u32::MAX,
        namespace: Some(8),
        ..Process::default()
    };
    let found = find(&[process], 7, &[], "node-a").expect("no namespace");
    assert!(found.found.is_empty());
}
