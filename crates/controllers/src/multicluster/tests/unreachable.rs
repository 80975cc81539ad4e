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
    model.settle(&sources);
    set(&mut sources[1], true, Reachability::Unreachable);
    model.settle(&sources);
    assert_eq!(model.endpoints().len(), 1);
    let unreachable = Some(("False", "ClusterUnreachable"));
    assert_eq!(model.import_condition("ClustersReachable"), unreachable);
    set(&mut sources[1], true, Reachability::Reachable);
    model.settle(&sources);
    assert_eq!(
        model.import_condition("ClustersReachable"),
        Some(("True", "Reachable"))
    );
}

#[test]
fn endpoints_of_a_lost_cluster_are_removed_and_its_import_stays() {
    let mut model = Model::new();
    let mut sources = [Source::empty("east"), Source::exporting("west", 1, &[1])];
    model.settle(&sources);
    let address = model.import().spec.ips.clone();
    set(&mut sources[1], true, Reachability::Lost);
    model.settle(&sources);
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
    model.settle(&sources);
    let before = model.observed.clone();
    // After the restart nothing is known of the other cluster.
    sources[1] = Source::empty("west");
    set(&mut sources[1], false, Reachability::Reachable);
    assert_eq!(model.settle(&sources), 0);
    set(&mut sources[1], false, Reachability::Unreachable);
    model.settle(&sources);
    assert_eq!(model.observed.slices, before.slices);
    assert_eq!(model.import().spec, before.import.unwrap().spec);
    set(&mut sources[1], false, Reachability::Lost);
    model.settle(&sources);
    assert_eq!(
        model.endpoints(),
        BTreeSet::from([("east".into(), "10.1.0.1".into())])
    );
    assert_eq!(
        model.clusters(),
        ["east", "west"],
        "its export is not known to be gone"
    );
}

#[test]
fn cluster_that_left_the_set_is_removed() {
    let mut model = Model::new();
    let sources = [
        Source::exporting("east", 1, &[1]),
        Source::exporting("west", 2, &[2]),
    ];
    model.settle(&sources);
    model.settle(&sources[..1]);
    assert_eq!(model.clusters(), ["east"]);
    assert_eq!(
        model.endpoints(),
        BTreeSet::from([("east".into(), "10.1.0.1".into())])
    );
}
