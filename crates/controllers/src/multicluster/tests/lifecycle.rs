//! Export, conflict and end of an export.

use super::*;

#[test]
fn export_creates_an_import_with_clusterset_ip() {
    let mut model = Model::new();
    let sources = [Source::empty("east"), Source::exporting("west", 1, &[1, 2])];
    model.write_until_desired(&sources);
    let import = model.import();
    assert_eq!(import.spec.kind, "ClusterSetIP");
    assert_eq!(import.spec.ips, ["10.97.0.1"]);
    assert_eq!(import.spec.ports[0].port, 80);
    assert_eq!(import.spec.session_affinity, "None");
    assert_eq!(model.clusters(), ["west"]);
    assert_eq!(model.import_condition("Ready"), Some(("True", "Ready")));
    assert_eq!(model.endpoints().len(), 2);
    assert_eq!(model.write_until_desired(&sources), 0, "no write is left");
}

#[test]
fn headless_export_has_no_clusterset_ip() {
    let mut model = Model::new();
    let mut west = Source::exporting("west", 1, &[1]);
    west.service = west.service.map(headless);
    model.write_until_desired(&[Source::empty("east"), west]);
    assert_eq!(model.import().spec.kind, "Headless");
    assert_eq!(model.import().spec.ips, Vec::<String>::new());
    assert!(model.observed.service.is_none());
    let labels = &model.observed.slices[0].metadata.labels;
    assert!(!labels.contains_key("kubernetes.io/service-name"));
}

#[test]
fn import_ends_with_the_last_export() {
    let mut model = Model::new();
    let mut sources = [
        Source::exporting("east", 1, &[1]),
        Source::exporting("west", 2, &[2]),
    ];
    model.write_until_desired(&sources);
    let address = model.import().spec.ips.clone();
    sources[0].export = None;
    model.write_until_desired(&sources);
    assert_eq!(model.clusters(), ["west"]);
    assert_eq!(model.import().spec.ips, address, "the clusterset IP stays");
    assert_eq!(
        model.endpoints(),
        BTreeSet::from([("west".into(), "10.1.0.2".into())])
    );
    sources[1].export = None;
    model.write_until_desired(&sources);
    assert!(model.observed.import.is_none() && model.observed.service.is_none());
    assert!(model.observed.slices.is_empty());
}

#[test]
fn import_needs_the_namespace() {
    let mut model = Model::new();
    let sources = [Source::empty("east"), Source::exporting("west", 1, &[1])];
    model.has_namespace = false;
    assert_eq!(model.write_until_desired(&sources), 0);
    model.has_namespace = true;
    model.write_until_desired(&sources);
    assert_eq!(model.clusters(), ["west"]);
}

#[test]
fn external_name_is_not_exported() {
    let mut model = Model::new();
    let mut east = Source::exporting("east", 1, &[]);
    east.service.as_mut().unwrap().spec.kind = "ExternalName".to_owned();
    model.write_until_desired(&[east]);
    assert_eq!(
        model.export_condition("Valid"),
        Some(("False", "InvalidServiceType"))
    );
    assert_eq!(model.export_condition("Conflict"), None);
    assert!(model.observed.import.is_none());
}

#[test]
fn derived_service_is_not_exported() {
    let mut model = Model::new();
    let mut east = Source::exporting("east", 1, &[]);
    let service = east.service.as_mut().unwrap();
    let label = api::multicluster::SERVICE_NAME_LABEL.to_owned();
    service.metadata.labels.insert(label, "other".to_owned());
    model.write_until_desired(&[east]);
    assert_eq!(
        model.export_condition("Valid"),
        Some(("False", "InvalidServiceType"))
    );
}

#[test]
fn export_waits_for_its_service() {
    let mut model = Model::new();
    let mut sources = [Source::exporting("east", 1, &[1])];
    let service = sources[0].service.take();
    model.write_until_desired(&sources);
    assert_eq!(model.export_condition("Valid"), Some(("False", "NoService")));
    assert_eq!(model.export_condition("Ready"), Some(("False", "Pending")));
    sources[0].service = service;
    model.write_until_desired(&sources);
    assert_eq!(model.export_condition("Valid"), Some(("True", "Valid")));
    assert_eq!(model.export_condition("Ready"), Some(("True", "Ready")));
    assert_eq!(model.export_condition("Conflict"), Some(("False", "NoConflicts")));
}

#[test]
fn change_of_the_type_keeps_the_import() {
    let mut model = Model::new();
    let mut sources = [Source::exporting("east", 1, &[1])];
    model.write_until_desired(&sources);
    sources[0].service = sources[0].service.take().map(headless);
    model.write_until_desired(&sources);
    assert_eq!(model.import().spec.kind, "Headless");
    assert!(model.observed.service.is_none() && model.import().spec.ips.is_empty());
    sources[0].service = Some(service(&[("http", 80)]));
    model.write_until_desired(&sources);
    assert_eq!(model.import().spec.kind, "ClusterSetIP");
    assert_eq!(model.import().spec.ips, ["10.97.0.2"]);
}

#[test]
fn service_of_a_user_is_not_replaced() {
    let mut model = Model::new();
    let mut taken = service(&[("other", 1)]);
    taken.metadata.name = "derived-web".to_owned();
    model.observed.service = Some(taken.clone());
    let mut sources = [Source::exporting("east", 1, &[1])];
    model.write_until_desired(&sources);
    assert_eq!(model.observed.service, Some(taken.clone()));
    assert_eq!(model.import_condition("Ready"), Some(("False", "Pending")));
    assert_eq!(model.import().spec.ips, Vec::<String>::new());
    sources[0].export = None;
    model.write_until_desired(&sources);
    assert_eq!(model.observed.service, Some(taken));
}

#[test]
fn foreign_import_is_not_deleted() {
    let mut model = Model::new();
    model.observed.import = Some(ServiceImport::default());
    assert_eq!(model.write_until_desired(&[Source::empty("east")]), 0);
}

#[test]
fn changed_objects_are_repaired() {
    let mut model = Model::new();
    let sources = [Source::exporting("east", 1, &[1])];
    model.write_until_desired(&sources);
    let expected = model.observed.clone();
    let observed = &mut model.observed;
    let service = observed.service.as_mut().unwrap();
    service.spec.kind = "LoadBalancer".to_owned();
    service.spec.selector.insert("app".to_owned(), "other".to_owned());
    service.spec.external_ips = vec!["192.0.2.2".to_owned()];
    let import = observed.import.as_mut().unwrap();
    import.metadata.labels.insert("extra".to_owned(), "1".to_owned());
    import.spec.ips = vec!["192.0.2.1".to_owned()];
    observed.slices[0].endpoints.clear();
    assert!(model.write_until_desired(&sources) >= 3);
    assert_eq!(model.observed.service, expected.service);
    assert_eq!(model.observed.import, expected.import);
    assert_eq!(model.observed.slices, expected.slices);
}

#[test]
fn removed_label_of_the_derived_service_is_repaired() {
    let mut model = Model::new();
    let sources = [Source::exporting("east", 1, &[1])];
    model.write_until_desired(&sources);
    let expected = model.observed.service.clone();
    for label in [
        api::multicluster::SERVICE_NAME_LABEL,
        crate::multicluster::names::MANAGED_BY_LABEL,
    ] {
        let service = model.observed.service.as_mut().unwrap();
        service.metadata.labels.remove(label);
        assert_eq!(model.write_until_desired(&sources), 1, "{label}");
        assert_eq!(model.observed.service, expected, "{label}");
    }
}

#[test]
fn derived_service_without_cluster_ip_is_created_again() {
    let mut model = Model::new();
    let mut taken = headless(service(&[("http", 80)]));
    taken.metadata.name = "derived-web".to_owned();
    let label = api::multicluster::SERVICE_NAME_LABEL.to_owned();
    taken.metadata.labels.insert(label, "web".to_owned());
    model.observed.service = Some(taken);
    model.write_until_desired(&[Source::exporting("east", 1, &[1])]);
    assert_eq!(model.import().spec.ips, ["10.97.0.1"]);
    assert_eq!(model.import_condition("Ready"), Some(("True", "Ready")));
}
