//! Clusters that do not respond.

use super::*;

fn set(source: &mut Source, is_known: bool, reachability: Reachability) {
    source.availability = Availability {
        is_known,
        reachability,
    };
}

#[test]
fn endpoints_of_an_unreachable_cluster_stay() {
    let mut model = Model::new();
    let mut sources = [Source::empty("east"), Source::exporting("west", 1, &[1])];
    model.write_until_desired(&sources);
    set(&mut sources[1], true, Reachability::Unreachable);
    model.write_until_desired(&sources);
    assert_eq!(model.endpoints().len(), 1);
    let unreachable = Some(("False", "ClusterUnreachable"));
    assert_eq!(model.import_condition("ClustersReachable"), unreachable);
    set(&mut sources[1], true, Reachability::Reachable);
    model.write_until_desired(&sources);
    assert_eq!(
        model.import_condition("ClustersReachable"),
        Some(("True", "Reachable"))
    );
}

#[test]
fn endpoints_of_a_lost_cluster_are_removed_and_its_import_stays() {
    let mut model = Model::new();
    let mut sources = [Source::empty("east"), Source::exporting("west", 1, &[1])];
    model.write_until_desired(&sources);
    let address = model.import().spec.ips.clone();
    set(&mut sources[1], true, Reachability::Lost);
    model.write_until_desired(&sources);
    assert!(model.endpoints().is_empty());
    assert_eq!(model.import().spec.ips, address);
}

#[test]
fn restart_without_the_other_cluster_changes_nothing() {
    let mut model = Model::new();
    let mut sources = [
        Source::exporting("east", 2, &[1]),
        Source::exporting("west", 1, &[2]),
    ];
    model.write_until_desired(&sources);
    let before = model.observed.clone();
    // After the restart nothing is known of the other cluster.
    sources[1] = Source::empty("west");
    set(&mut sources[1], false, Reachability::Reachable);
    assert_eq!(model.write_until_desired(&sources), 0);
    set(&mut sources[1], false, Reachability::Unreachable);
    model.write_until_desired(&sources);
    assert_eq!(model.observed.slices, before.slices);
    assert_eq!(model.import().spec, before.import.unwrap().spec);
    set(&mut sources[1], false, Reachability::Lost);
    model.write_until_desired(&sources);
    assert_eq!(
        model.endpoints(),
        BTreeSet::from([("east".into(), "10.1.0.1".into())])
    );
    assert_eq!(
        model.clusters(),
        ["east", "west"],
        "its export is not known to be deleted"
    );
}

#[test]
fn known_clusters_follow_their_sources_while_another_is_unread() {
    let mut model = Model::new();
    let mut sources = [
        Source::exporting("east", 2, &[1]),
        Source::exporting("west", 1, &[2]),
        Source::exporting("north", 3, &[3]),
    ];
    model.write_until_desired(&sources);
    sources[1] = Source::empty("west");
    set(&mut sources[1], false, Reachability::Unreachable);
    sources[0].slices = vec![slice(&[1, 4])];
    sources[2].export = None;
    model.write_until_desired(&sources);
    let of = |cluster: &str, last: u8| (cluster.to_owned(), format!("10.1.0.{last}"));
    assert_eq!(
        model.endpoints(),
        BTreeSet::from([of("east", 1), of("east", 4), of("west", 2)])
    );
    assert_eq!(model.clusters(), ["east", "west"]);
    set(&mut sources[1], false, Reachability::Lost);
    sources[0].slices = vec![slice(&[5])];
    model.write_until_desired(&sources);
    assert_eq!(model.endpoints(), BTreeSet::from([of("east", 5)]));
}

#[test]
fn new_port_waits_for_an_unread_cluster() {
    let mut model = Model::new();
    let mut sources = [
        Source::exporting("east", 2, &[1]),
        Source::exporting("west", 1, &[2]),
    ];
    model.write_until_desired(&sources);
    sources[1] = Source::empty("west");
    set(&mut sources[1], false, Reachability::Reachable);
    sources[0].service = Some(service(&[("http", 81)]));
    model.write_until_desired(&sources);
    assert_eq!(model.import().spec.ports[0].port, 80);
    assert_eq!(
        model.endpoints(),
        BTreeSet::from([("west".into(), "10.1.0.2".into())]),
        "the import has another port"
    );
}

#[test]
fn export_has_conditions_while_another_cluster_is_unread() {
    let mut model = Model::new();
    let mut sources = [Source::empty("east"), Source::exporting("west", 1, &[2])];
    model.write_until_desired(&sources);
    sources[0] = Source::exporting("east", 2, &[1]);
    set(&mut sources[1], false, Reachability::Reachable);
    model.write_until_desired(&sources);
    assert_eq!(model.export_condition("Valid"), Some(("True", "Valid")));
    assert_eq!(model.export_condition("Conflict"), None, "a conflict is unknown");
}

#[test]
fn import_without_status_is_held_for_the_clusters_of_its_slices() {
    let mut model = Model::new();
    let mut sources = [Source::empty("east"), Source::exporting("west", 1, &[2])];
    model.write_until_desired(&sources);
    // The controller ended before it wrote the status.
    model.observed.import.as_mut().expect("an import").status = Default::default();
    sources[1] = Source::empty("west");
    set(&mut sources[1], false, Reachability::Unreachable);
    model.write_until_desired(&sources);
    assert_eq!(model.endpoints().len(), 1);
    assert_eq!(model.clusters(), ["west"]);
    assert!(model.observed.service.is_some());
}

#[test]
fn cluster_that_left_the_set_is_removed() {
    let mut model = Model::new();
    let sources = [
        Source::exporting("east", 1, &[1]),
        Source::exporting("west", 2, &[2]),
    ];
    model.write_until_desired(&sources);
    model.write_until_desired(&sources[..1]);
    assert_eq!(model.clusters(), ["east"]);
    assert_eq!(
        model.endpoints(),
        BTreeSet::from([("east".into(), "10.1.0.1".into())])
    );
}
