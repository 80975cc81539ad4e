//! Hand-over from one process of the edge to the next, under new and established connections.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netlink::route::NetworkNamespace;

use super::echo_server::{self, EchoConnection, POOL, RESPONSE_TIMEOUT};
use super::test_cluster::TestCluster;

const SERVER: &str = "node-1";
/// Clients that connect in a loop.
const CLIENTS: usize = 4;
/// Further connections that show progress.
const PROGRESS_CONNECTIONS: usize = 50;
/// Pause between two connections of a client. Each connection occupies a local port for a minute.
const PAUSE: Duration = Duration::from_millis(10);
/// Lifetime of a connection after the hand-over. It exceeds the time for which a successor keeps state of its
/// predecessor without confirmation.
const LONG_CONNECTION: Duration = Duration::from_secs(13);

/// Starts a process with announcer and edge, the successor of the previous one.
fn start(cluster: &mut TestCluster, name: &str, metrics_port: u16) {
    let directory = cluster.data_dir(SERVER);
    let flags = [
        format!("--kubeconfig={}", directory.join("admin.conf").display()),
        format!(
            "--edge-handover-socket={}",
            directory.join("handover.sock").display()
        ),
        format!("--node-name={SERVER}"),
        format!("--metrics-bind-address=127.0.0.1:{metrics_port}"),
    ];
    let mut arguments = vec!["balancer", "--assign=false", "--announce", "--edge"];
    arguments.extend(["--edge-drain-timeout=120s", "--edge-threads=2"]);
    arguments.extend(flags.iter().map(String::as_str));
    cluster.start_as(name, SERVER, &arguments);
}

/// Returns the number of connections that a process has accepted.
fn accepted_connections(cluster: &TestCluster, metrics_port: u16) -> u64 {
    let address = SocketAddr::from(([127, 0, 0, 1], metrics_port));
    let page = cluster.page(SERVER, address, "/metrics").unwrap_or_default();
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with("portolan_edge_connections_total{"));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.unwrap_or(0)
}

/// Clients outside of the cluster that connect in a loop until the value is dropped.
struct Clients {
    is_stopped: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Clients {
    fn start(cluster: &TestCluster) -> Self {
        let (is_stopped, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let outside = cluster.network().outside().expect("the outside");
        let threads = (0..CLIENTS).map(|_| {
            let namespace = outside.enter(NetworkNamespace::current);
            let namespace = namespace.expect("a namespace").expect("a descriptor");
            let (is_stopped, count) = (Arc::clone(&is_stopped), Arc::clone(&count));
            thread::spawn(move || {
                namespace
                    .enter(|| connect_in_a_loop(&is_stopped, &count))
                    .expect("a namespace")
            })
        });
        Self {
            threads: threads.collect(),
            is_stopped,
            count,
        }
    }

    /// Waits for further connections.
    fn wait_for_progress(&self, cluster: &TestCluster) {
        let before = self.count.load(Ordering::Relaxed);
        cluster.wait_until("more connections", |_| {
            let is_failed = self.threads.iter().any(JoinHandle::is_finished);
            (is_failed || self.count.load(Ordering::Relaxed) >= before + PROGRESS_CONNECTIONS).then_some(())
        });
    }

    /// Stops the clients and checks that no connection failed.
    fn stop(mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread
                .join()
                .expect("the thread of a client")
                .expect("connections without errors");
        }
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

/// Connects in a loop until the first error.
fn connect_in_a_loop(is_stopped: &AtomicBool, count: &AtomicUsize) -> io::Result<()> {
    while !is_stopped.load(Ordering::Relaxed) {
        let mut connection = EchoConnection::connect_in_namespace(RESPONSE_TIMEOUT)?;
        connection.exchange()?;
        connection.close()?;
        count.fetch_add(1, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
    Ok(())
}

#[test]
fn edge_hand_over_keeps_connections() {
    testbed::in_namespace(|| {
        let mut cluster = TestCluster::new(1);
        cluster.up(SERVER, &[POOL, "--load-balancer=false"]);
        echo_server::serve(&cluster, SERVER);
        start(&mut cluster, "process-0", 20_000);
        cluster.wait_until("a connection", |cluster| {
            EchoConnection::connect(cluster, RESPONSE_TIMEOUT).ok()
        });
        let clients = Clients::start(&cluster);
        for number in 1..=3 {
            let mut established = EchoConnection::connect(&cluster, RESPONSE_TIMEOUT).expect("a connection");
            let port = 20_000 + number;
            start(&mut cluster, &format!("process-{number}"), port);
            cluster.wait_until("connections to the successor", |cluster| {
                (accepted_connections(cluster, port) > 0).then_some(())
            });
            if number == 1 {
                thread::sleep(LONG_CONNECTION);
            }
            clients.wait_for_progress(&cluster);
            // The predecessor keeps the established connection and exits after its end.
            established.exchange().expect("an established connection");
            established.close().expect("an orderly close");
            cluster.wait_for_exit(&format!("process-{}", number - 1));
            clients.wait_for_progress(&cluster);
        }
        clients.stop();
    });
}
