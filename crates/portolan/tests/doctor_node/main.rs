//! `portolan doctor node`, observations through the API, and `portolan trace --live` on nodes in network namespaces, with faults
//! that are planted in the kernel and in processes.

#[path = "../support/mod.rs"]
mod support;
#[path = "../multi_node/test_cluster.rs"]
#[allow(dead_code, reason = "each test program uses its own part of this")]
mod test_cluster;

mod agent_alone;
mod application_faults;
mod faults;
mod flow_faults;
mod host;
mod live_trace;
mod network_faults;
mod proxy_faults;
mod through_api;
mod world;

use std::fmt;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};

/// Environment variable with the address on which [`listen_until_killed`] listens.
const LISTEN: &str = "DOCTOR_NODE_LISTEN";

/// Environment variable with the [`Behaviour`] of [`listen_until_killed`].
const BEHAVIOUR: &str = "DOCTOR_NODE_BEHAVIOUR";

/// Behaviour of the listener after it has accepted a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behaviour {
    /// Sends nothing.
    SendsNothing,
    /// Resets the connection.
    Resets,
    /// Answers requests of HTTP, and rejects other lines with status 400.
    Http,
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// Program that listens on an address until it is killed, for the other tests.
#[test]
#[ignore = "a program for the other tests"]
fn listen_until_killed() {
    let Ok(address) = std::env::var(LISTEN) else {
        return;
    };
    let behaviour = std::env::var(BEHAVIOUR).unwrap_or_default();
    let listener = TcpListener::bind(&address).expect("a listener");
    println!("listening on {address}");
    std::io::stdout().flush().expect("standard output");
    for stream in listener.incoming().flatten() {
        if behaviour == Behaviour::Resets.to_string() {
            reset(&stream);
        } else if behaviour == Behaviour::Http.to_string() {
            std::thread::spawn(move || answer(stream));
        } else {
            std::mem::forget(stream);
        }
    }
}

/// Lets the kernel end the connection with a reset.
fn reset(stream: &TcpStream) {
    let linger = Some(std::time::Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(stream, linger).expect("an option of the socket");
}

fn answer(mut stream: TcpStream) {
    let mut line = String::new();
    let read = BufReader::new(&stream).read_line(&mut line);
    let status = if line.ends_with("HTTP/1.1\r\n") {
        "200 OK"
    } else {
        "400 Bad Request"
    };
    let response = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    // A client that has disconnected reads no response.
    if read.is_ok() && stream.write_all(response.as_bytes()).is_err() {
        println!("response not sent");
    }
}
