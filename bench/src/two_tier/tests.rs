//! Number of client processes and of connections of each.

use super::{OPEN_FILES_MIN, connections_per_process, processes_of_endpoint};

#[test]
fn limit_of_open_files_sets_the_number_of_connections_of_a_process() {
    assert_eq!(connections_per_process(Some(20_000)).ok(), Some(19_936));
    assert_eq!(connections_per_process(None).ok(), Some(usize::MAX));
    assert!(connections_per_process(Some(OPEN_FILES_MIN - 1)).is_err());
}

#[test]
fn processes_of_an_endpoint_hold_twice_an_even_share() {
    assert_eq!(processes_of_endpoint(10_000, 19_936), 1);
    // 2,000 connections are an even share.
    assert_eq!(processes_of_endpoint(10_000, 960), 5);
    assert_eq!(processes_of_endpoint(25_000, 19_936), 1);
    assert_eq!(processes_of_endpoint(1, usize::MAX), 1);
}
