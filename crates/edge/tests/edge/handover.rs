//! Hand-over from one edge to another.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use edge::settings::Frontend;
use edge::{Edge, Options};

use crate::fixture::{Fixture, TIMEOUT, connect, exchange, greeting, named, service};
use crate::udp;

/// Clients that connect until `stop` is set. Returns the number of connections, or the first error.
fn connect_until(to: SocketAddr, stop: &Arc<AtomicBool>) -> std::thread::JoinHandle<std::io::Result<usize>> {
    let stop = stop.clone();
    std::thread::spawn(move || {
        let mut count = 0;
        while !stop.load(Ordering::Relaxed) {
            let mut stream = connect(to)?;
            greeting(&mut stream)?;
            exchange(&mut stream, "hello")?;
            count += 1;
        }
        Ok(count)
    })
}

fn drain(edge: &Edge) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        edge.handed_over().await;
        edge.drain(TIMEOUT).await;
    });
}

#[test]
fn handover_refuses_and_breaks_no_connection() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = || Options {
        handover_socket: Some(directory.path().join("handover.sock")),
        ..Options::default()
    };
    let settings = service(Frontend::Tcp, &[named("a"), named("b")]);
    let mut fixture = Fixture::with(options(), settings.clone());
    let stop = Arc::new(AtomicBool::new(false));
    let crowds: Vec<_> = (0..4).map(|_| connect_until(fixture.address(), &stop)).collect();
    for _ in 0..5 {
        let mut early = fixture.connect();
        greeting(&mut early).expect("a greeting");
        // The next edge may find no socket yet. It exists as soon as settings are served.
        crate::fixture::wait_until("the sockets can be taken over", || {
            directory.path().join("handover.sock").exists()
        });
        let next = Fixture::with(options(), settings.clone());
        let talking = std::thread::spawn(move || {
            let received = exchange(&mut early, "still here");
            drop(early);
            received
        });
        drain(&fixture.edge);
        assert_eq!(
            talking.join().expect("data from the backend").expect("an echo"),
            "still here"
        );
        fixture = next;
        assert!(fixture.chosen_backend().is_ok());
    }
    stop.store(true, Ordering::Relaxed);
    for connect_until in crowds {
        let count = connect_until
            .join()
            .expect("a finished thread")
            .expect("no connection failed");
        assert!(count > 0);
    }
}

#[test]
fn socket_of_an_exited_process_is_not_a_predecessor() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("handover.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).expect("a socket"));
    // A stream socket without a listener, as a crash leaves one.
    let options = Options {
        handover_socket: Some(path),
        ..Options::default()
    };
    let fixture = Fixture::with(options, service(Frontend::Tcp, &[named("a")]));
    assert_eq!(fixture.chosen_backend().expect("a backend"), "a");
}

#[test]
fn predecessor_continues_to_serve_if_its_successor_exits_at_once() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("handover.sock");
    let options = || Options {
        handover_socket: Some(path.clone()),
        ..Options::default()
    };
    let settings = service(Frontend::Tcp, &[named("a")]);
    let former = Fixture::with(options(), settings.clone());
    crate::fixture::wait_until("the sockets can be taken over", || path.exists());
    let next = Fixture::with(options(), settings.clone());
    assert!(next.edge.has_predecessor());
    crate::fixture::wait_until("the successor serves", || {
        assert_eq!(former.chosen_backend().expect("a backend"), "a");
        next.metric("portolan_edge_connections_total", "") > Some(0)
    });
    drop(next);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let handed_over = runtime.block_on(async {
        let limit = Duration::from_secs(3);
        tokio::time::timeout(limit, former.edge.handed_over()).await
    });
    assert!(handed_over.is_err(), "the former edge goes on");
    assert_eq!(former.chosen_backend().expect("a backend"), "a");
    // A later successor takes over.
    let last = Fixture::with(options(), settings);
    drain(&former.edge);
    assert_eq!(last.chosen_backend().expect("a backend"), "a");
    crate::fixture::wait_until("the exit of the predecessor is known", || {
        !last.edge.has_predecessor()
    });
}

#[test]
fn successor_closes_unused_addresses() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("handover.sock");
    let options = || Options {
        handover_socket: Some(path.clone()),
        ..Options::default()
    };
    let backend = named("a");
    let former = Fixture::with(options(), service(Frontend::Tcp, &[backend]));
    crate::fixture::wait_until("the sockets can be taken over", || path.exists());
    let next = Fixture::with(options(), service(Frontend::Tcp, &[backend]));
    assert_ne!(former.address(), next.address());
    drain(&former.edge);
    assert!(connect(former.address()).is_err());
    // Later settings do not change that.
    former.apply();
    assert!(connect(former.address()).is_err());
    assert_eq!(next.chosen_backend().expect("a backend"), "a");
}

#[test]
fn handover_keeps_udp_served() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("handover.sock");
    let options = || Options {
        handover_socket: Some(path.clone()),
        ..Options::default()
    };
    let settings = service(Frontend::Udp, &[udp::named("a")]);
    let former = Fixture::with(options(), settings.clone());
    let client = udp::client(&former);
    assert_eq!(udp::request(&client, "x").expect("a response"), "a x");
    crate::fixture::wait_until("the sockets can be taken over", || path.exists());
    let next = Fixture::with(options(), settings);
    drain(&former.edge);
    assert_eq!(udp::request(&client, "y").expect("a response"), "a y");
    assert_eq!(next.metric("portolan_edge_connections_total", ""), Some(1));
}
