//! Endpoints of several clusters.

use std::sync::Arc;

use api::object::{EndpointHints, HintName, TargetRef};

use super::*;
use crate::multicluster::desired::Import;

#[test]
fn import_has_the_endpoints_of_all_clusters() {
    let mut model = Model::new();
    let sources = [
        Source::exporting("east", 1, &[1, 2]),
        Source::exporting("west", 2, &[3]),
        Source::empty("north"),
    ];
    model.write_until_desired(&sources);
    let addresses = |cluster: &str, last: u8| (cluster.to_owned(), format!("10.1.0.{last}"));
    let expected = [addresses("east", 1), addresses("east", 2), addresses("west", 3)];
    assert_eq!(model.endpoints(), BTreeSet::from(expected));
    for slice in &model.observed.slices {
        let labels = &slice.metadata.labels;
        assert_eq!(labels["multicluster.kubernetes.io/service-name"], "web");
        assert_eq!(labels["kubernetes.io/service-name"], "derived-web");
        assert_ne!(
            labels["endpointslice.kubernetes.io/managed-by"],
            "endpointslice-controller.k8s.io"
        );
    }
}

#[test]
fn nodes_and_pods_of_other_clusters_are_not_named() {
    let mut model = Model::new();
    let mut sources = [
        Source::exporting("east", 1, &[1]),
        Source::exporting("west", 2, &[2]),
    ];
    for source in &mut sources {
        let endpoint = &mut source.slices[0].endpoints[0];
        endpoint.target_ref = Some(Arc::new(TargetRef {
            kind: "Pod".into(),
            name: "pod-1".into(),
            ..TargetRef::default()
        }));
        let hint = |name: &str| {
            vec![HintName {
                name: name.to_owned(),
            }]
        };
        endpoint.hints = Some(Box::new(EndpointHints {
            for_zones: hint("zone-1"),
            for_nodes: hint("node-1"),
        }));
    }
    model.write_until_desired(&sources);
    for slice in &model.observed.slices {
        let is_own = slice.metadata.labels["multicluster.kubernetes.io/source-cluster"] == "east";
        let endpoint = &slice.endpoints[0];
        assert_eq!(endpoint.node_name.is_some(), is_own);
        assert_eq!(endpoint.target_ref.is_some(), is_own);
        let hints = endpoint.hints.as_ref().expect("hints");
        assert_eq!(hints.for_zones[0].name, "zone-1");
        assert_eq!(!hints.for_nodes.is_empty(), is_own);
        assert!(endpoint.hostname.is_some());
    }
}

#[test]
fn refused_port_has_no_endpoints() {
    let mut model = Model::new();
    let mut west = Source::exporting("west", 2, &[2]);
    west.service = Some(service(&[("http", 8080)]));
    model.write_until_desired(&[Source::exporting("east", 1, &[1]), west]);
    assert_eq!(
        model.endpoints(),
        BTreeSet::from([("east".into(), "10.1.0.1".into())])
    );
    assert_eq!(model.export_condition("Conflict"), Some(("True", "PortConflict")));
}

#[test]
fn number_of_mirrored_slices_is_bounded() {
    let mut west = Source::exporting("west", 1, &[]);
    west.slices = (0..crate::multicluster::slices::SLICES_MAX + 5)
        .map(|number| {
            let mut slice = slice(&[1]);
            slice.metadata.name = format!("web-{number}");
            slice
        })
        .collect();
    let sources = [Source::empty("east"), west];
    let Import::Present(present) = Model::new().desired(&sources).import else {
        panic!("no import");
    };
    assert_eq!(present.slices.len(), crate::multicluster::slices::SLICES_MAX);
}

#[test]
fn changed_endpoints_replace_the_slice() {
    let mut model = Model::new();
    let mut sources = [Source::exporting("east", 1, &[1])];
    model.write_until_desired(&sources);
    sources[0].slices = vec![slice(&[1, 2])];
    assert_eq!(model.write_until_desired(&sources), 1);
    sources[0].slices.clear();
    assert_eq!(model.write_until_desired(&sources), 1);
    assert!(model.endpoints().is_empty());
}
