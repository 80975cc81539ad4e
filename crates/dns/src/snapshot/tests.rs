use std::fs;

use api::object::{Endpoint, EndpointSlice, ObjectMeta, SERVICE_NAME_LABEL, Service, ServicePort};
use proptest::prelude::*;

use super::*;
use crate::wire::Name;

fn settings() -> Settings {
    Settings::of(Name::from_text("cluster.local").expect("a name"))
}

fn index() -> Index {
    let index = Index::new(settings());
    index.apply_namespace("ns").expect("applied");
    for (name, address) in [("web", "10.96.0.1"), ("peers", "None")] {
        let mut service = Service {
            metadata: ObjectMeta {
                name: name.to_owned(),
                namespace: "ns".to_owned(),
                ..ObjectMeta::default()
            },
            ..Service::default()
        };
        service.spec.cluster_ip = address.to_owned();
        service.spec.ports = vec![ServicePort {
            name: "http".to_owned(),
            port: 80,
            ..ServicePort::default()
        }];
        index.apply_service(&service).expect("applied");
    }
    let mut out = Service::default();
    out.metadata.name = "out".to_owned();
    out.metadata.namespace = "ns".to_owned();
    out.spec.kind = "ExternalName".to_owned();
    out.spec.external_name = "example.com".to_owned();
    index.apply_service(&out).expect("applied");
    let mut slice = EndpointSlice::default();
    slice.metadata.name = "peers-1".to_owned();
    slice.metadata.namespace = "ns".to_owned();
    let labels = &mut slice.metadata.labels;
    labels.insert(SERVICE_NAME_LABEL.to_owned(), "peers".to_owned());
    slice.endpoints = ["10.1.0.1", "fd00::1"]
        .map(|address| Endpoint {
            addresses: vec![address.into()],
            hostname: Some("a-0".into()),
            ..Endpoint::default()
        })
        .into();
    index.apply_slice(&slice).expect("applied");
    index.set_synced();
    index
}

fn records(index: &Index) -> Vec<String> {
    let mut records = Vec::new();
    index.for_each_record(|record| records.push(format!("{record:?}")));
    records.sort();
    records
}

#[test]
fn written_values_are_read_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("dns.state");
    let before = index();
    write(&path, &before, 1_000).expect("written");
    let (after, written) = read(&path, settings(), 1_600, 600).expect("read");
    assert_eq!((records(&after), written), (records(&before), 1_000));
    assert!(records(&after).len() == 8 && after.is_synced());
    assert_eq!(
        after.describe(&Name::from_text("1.0.1.10.in-addr.arpa").expect("a name")),
        before.describe(&Name::from_text("1.0.1.10.in-addr.arpa").expect("a name"))
    );
    assert!(matches!(
        read(&path, settings(), 1_601, 600),
        Err(SnapshotError::TooOld { age_seconds: 601, .. })
    ));
    let none = read(&directory.path().join("none"), settings(), 0, 0);
    assert!(matches!(none, Err(SnapshotError::Io { .. })));
}

#[test]
fn rejects_torn_or_modified_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("dns.state");
    write(&path, &index(), 1_000).expect("written");
    let whole = fs::read(&path).expect("readable");
    for length in (0..whole.len()).step_by(7) {
        fs::write(&path, &whole[..length]).expect("written");
        assert!(
            read(&path, settings(), 1_000, 600).is_err(),
            "the first {length} bytes"
        );
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&path, &changed).expect("written");
        assert!(
            read(&path, settings(), 1_000, 600).is_err(),
            "byte {at} is changed"
        );
    }
}

#[test]
fn error_of_a_large_state_names_the_limit() {
    let error = SnapshotError::TooLarge {
        path: "dns.state".into(),
        bytes: 300_000_000,
    };
    assert_eq!(
        error.to_string(),
        "dns.state: expected a state of at most 268435456 bytes, found 300000000; it is not written"
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_loaded_or_rejected(saved in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(index) = Index::load(settings(), &saved) {
            prop_assert!(index.is_synced());
        }
    }

    #[test]
    fn damaged_snapshot_is_loaded_or_rejected(at in 0usize..600, octet: u8) {
        let mut saved = Vec::new();
        index().save(&mut saved);
        if let Some(place) = saved.get_mut(at) {
            *place = octet;
        }
        if let Ok(index) = Index::load(settings(), &saved) {
            index.for_each_record(|_| ());
        }
    }
}
