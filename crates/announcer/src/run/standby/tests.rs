//! Reports to a waiting successor.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use netlink::clock::since_boot;
use tokio::net::UdpSocket;
use tokio::time::sleep;

use super::{BoundPort, PredecessorReport, bind, report};
use crate::FENCING_INTERVAL;
use crate::run::AnnouncerError;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// Binds a free port as the predecessor does.
async fn predecessor() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

#[test]
fn waiting_process_gets_port_and_report() {
    runtime().block_on(async {
        let (socket, address) = predecessor().await;
        let waiting = tokio::spawn(bind(address, true));
        // Until the successor listens, reports are lost.
        while !waiting.is_finished() {
            report(address, since_boot()).await;
            sleep(Duration::from_millis(5)).await;
            if std::fs::read_to_string("/proc/net/unix")
                .is_ok_and(|sockets| sockets.contains(&format!("@portolan-announcer/{address}")))
            {
                break;
            }
        }
        let connection = report(address, since_boot()).await;
        drop(socket);
        drop(connection);
        let BoundPort { votes_until, socket } = waiting.await.expect("no panic").expect("the port");
        assert_eq!(socket.local_addr().expect("an address"), address);
        assert!(votes_until.expect("a report") <= since_boot());
    });
}

#[test]
fn killed_predecessor_leaves_no_report() {
    runtime().block_on(async {
        let (socket, address) = predecessor().await;
        let waiting = tokio::spawn(bind(address, true));
        sleep(Duration::from_millis(20)).await;
        drop(socket);
        let bound = waiting.await.expect("no panic").expect("the port");
        assert_eq!(bound.votes_until, None);
    });
}

#[test]
fn used_port_is_an_error_for_a_process_that_does_not_wait() {
    runtime().block_on(async {
        let (_socket, address) = predecessor().await;
        let error = bind(address, false).await.expect_err("a used port");
        assert!(matches!(error, AnnouncerError::Listen { .. }), "{error}");
    });
}

#[test]
fn reports_expire_with_the_fencing_interval() {
    let second = Duration::from_secs(1);
    let report = PredecessorReport {
        as_of: second,
        votes_until: second,
    };
    assert_eq!(report.votes_until(second), Some(second));
    assert_eq!(report.votes_until(second + FENCING_INTERVAL), None);
}
