//! The process of a node's edge is replaced by another one while clients come and go: none of them notices.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use netlink::route::NetworkNamespace;

use super::greeter::{self, Greeted, PATIENCE, POOL};
use super::lab::Lab;

const SERVER: &str = "node-1";
/// Clients that connect all the time.
const CLIENTS: usize = 4;
/// Connections that show that all goes on.
const MANY: usize = 50;
/// Pause between two connections of a client: each takes a port for a minute.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a connection is open while a successor has taken over: longer than what a predecessor had counts as a successor's
/// without anybody saying so.
const LONG: Duration = Duration::from_secs(13);

/// Starts a process with announcer and edge, as the successor of the one before.
fn start(lab: &mut Lab, name: &str, metrics_port: u16) {
    let directory = lab.data_dir(SERVER);
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
    lab.start_as(name, SERVER, &arguments);
}

/// How many connections a process has taken.
fn taken(lab: &Lab, metrics_port: u16) -> u64 {
    let address = SocketAddr::from(([127, 0, 0, 1], metrics_port));
    let page = lab.page(SERVER, address, "/metrics").unwrap_or_default();
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with("portolan_edge_connections_total{"));
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.unwrap_or(0)
}

/// Clients outside, which connect again and again until this is dropped.
struct Crowd {
    is_over: Arc<AtomicBool>,
    count: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<io::Result<()>>>,
}

impl Crowd {
    fn start(lab: &Lab) -> Self {
        let (is_over, count) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let outside = lab.cluster().outside().expect("the outside");
        let clients = (0..CLIENTS).map(|_| {
            let here = outside.enter(NetworkNamespace::current);
            let here = here.expect("a namespace").expect("a descriptor");
            let (is_over, count) = (Arc::clone(&is_over), Arc::clone(&count));
            thread::spawn(move || here.enter(|| come_and_go(&is_over, &count)).expect("a namespace"))
        });
        Self {
            clients: clients.collect(),
            is_over,
            count,
        }
    }

    /// Waits until some more have connected.
    fn go_on(&self, lab: &Lab) {
        let before = self.count.load(Ordering::Relaxed);
        lab.until("more connections", |_| {
            let is_failed = self.clients.iter().any(JoinHandle::is_finished);
            (is_failed || self.count.load(Ordering::Relaxed) >= before + MANY).then_some(())
        });
    }

    /// Every one of their connections was served.
    fn end(mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.join().expect("it ran").expect("no connection failed");
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Connects again and again, up to the first error.
fn come_and_go(is_over: &AtomicBool, count: &AtomicUsize) -> io::Result<()> {
    while !is_over.load(Ordering::Relaxed) {
        let mut greeted = Greeted::connect_here(PATIENCE)?;
        greeted.exchange()?;
        greeted.end()?;
        count.fetch_add(1, Ordering::Relaxed);
        thread::sleep(PAUSE);
    }
    Ok(())
}

#[test]
fn no_client_notices_that_the_edges_process_is_replaced() {
    testbed::in_namespace(|| {
        let mut lab = Lab::new(1);
        lab.up(SERVER, &[POOL, "--load-balancer=false"]);
        greeter::serve(&lab, SERVER);
        start(&mut lab, "process-0", 20_000);
        lab.until("a connection", |lab| Greeted::connect(lab, PATIENCE).ok());
        let crowd = Crowd::start(&lab);
        for number in 1..=3 {
            let mut lasting = Greeted::connect(&lab, PATIENCE).expect("a connection");
            let port = 20_000 + number;
            start(&mut lab, &format!("process-{number}"), port);
            lab.until("connections of the successor", |lab| {
                (taken(lab, port) > 0).then_some(())
            });
            if number == 1 {
                thread::sleep(LONG);
            }
            crowd.go_on(&lab);
            // What was there before goes on with the predecessor, which ends with it.
            lasting.exchange().expect("it goes on");
            lasting.end().expect("it ends in order");
            lab.await_end(&format!("process-{}", number - 1));
            crowd.go_on(&lab);
        }
        crowd.end();
    });
}
