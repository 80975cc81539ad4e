//! Reports of a running process to its successor.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::timeout;

use super::{StandingReport, predecessor_ended};

/// Longer than any step takes; only failing tests reach it.
const LIMIT: Duration = Duration::from_secs(10);

fn run<F: Future>(test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(test)
}

/// Address of a port that the returned socket holds, so that the names of the tests differ.
async fn address() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

/// Waits until the successor is connected and has the report.
async fn connect(report: &mut StandingReport) {
    timeout(LIMIT, report.changed()).await.expect("a successor");
    let reported = async {
        while !report
            .successor
            .as_ref()
            .is_some_and(|successor| successor.is_reported)
        {
            assert!(report.update(true));
            tokio::task::yield_now().await;
        }
    };
    timeout(LIMIT, reported).await.expect("a report");
}

#[test]
fn end_of_a_process_with_a_report_is_noticed() {
    run(async {
        let (_port, address) = address().await;
        let mut report = StandingReport::new(address);
        let waiting = tokio::spawn(predecessor_ended(address));
        connect(&mut report).await;
        assert!(!waiting.is_finished());
        drop(report);
        timeout(LIMIT, waiting).await.expect("in time").expect("no panic");
    });
}

#[test]
fn exit_of_a_process_that_withdrew_its_report_is_not_an_event() {
    run(async {
        let (_port, address) = address().await;
        let mut report = StandingReport::new(address);
        let mut waiting = tokio::spawn(predecessor_ended(address));
        connect(&mut report).await;
        assert!(report.update(false));
        assert!(report.successor.is_none(), "the connection is closed");
        // The successor connects again, and gets a report again.
        connect(&mut report).await;
        assert!(report.update(false));
        drop(report);
        let early = timeout(Duration::from_millis(300), &mut waiting).await;
        assert!(early.is_err(), "the report was withdrawn");
        waiting.abort();
    });
}

#[test]
fn exit_of_a_process_without_a_report_is_not_an_event() {
    run(async {
        let (_port, address) = address().await;
        let mut report = StandingReport::new(address);
        let mut waiting = tokio::spawn(predecessor_ended(address));
        timeout(LIMIT, report.changed()).await.expect("a successor");
        assert!(report.update(false));
        drop(report);
        let early = timeout(Duration::from_millis(300), &mut waiting).await;
        assert!(early.is_err(), "no report was sent");
        waiting.abort();
    });
}

#[test]
fn end_of_the_successor_is_noticed() {
    run(async {
        let (_port, address) = address().await;
        let mut report = StandingReport::new(address);
        let waiting = tokio::spawn(predecessor_ended(address));
        connect(&mut report).await;
        waiting.abort();
        timeout(LIMIT, report.changed()).await.expect("an end");
        assert!(report.successor.is_none());
        assert!(report.update(false), "votes may be sent");
    });
}
