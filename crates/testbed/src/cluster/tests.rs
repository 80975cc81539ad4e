use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::Duration;

use super::*;
use crate::{exchange_udp, forward, in_namespace, request_tcp};

const TIMEOUT: Duration = Duration::from_secs(5);

fn cluster(nodes: usize) -> Cluster {
    Cluster::start(Topology::with_nodes(nodes).unwrap()).unwrap()
}

/// A listener in the member's namespace that answers each connection with `answer` and the client's address.
fn serve(member: &Member, at: SocketAddr) {
    let listener = member.enter(|| TcpListener::bind(at)).unwrap().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let client = stream.peer_addr().unwrap().ip();
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            write!(stream, "{client}").unwrap();
        }
    });
}

#[test]
fn members_reach_each_other_in_both_families() {
    in_namespace(|| {
        let cluster = cluster(2);
        let members: Vec<&Member> = cluster.members.values().collect();
        assert_eq!(members.len(), 4);
        for to in &members {
            for address in to.plan.address.both() {
                serve(to, (address, 7000).into());
            }
        }
        for from in &members {
            for to in &members {
                for (address, own) in to.plan.address.both().into_iter().zip(from.plan.address.both()) {
                    let answer = request_tcp(from, (address, 7000).into(), b"?", TIMEOUT).unwrap();
                    assert_eq!(String::from_utf8(answer).unwrap(), own.to_string());
                }
            }
        }
    });
}

#[test]
fn pods_of_a_node_are_reached_through_it() {
    in_namespace(|| {
        let cluster = cluster(2);
        let node = cluster.member("node-2").unwrap();
        // An address of the node's Pod range, on the node itself, stands for a Pod.
        let pods: [IpNet; 2] = [
            "10.244.2.7/32".parse().unwrap(),
            "fd00:244:2::7/128".parse().unwrap(),
        ];
        let mut connection = Connection::open_in(&node.namespace).unwrap();
        let loopback = connection.link_index(&"lo".parse().unwrap()).unwrap();
        for pod in pods {
            connection.add_address(loopback, pod).unwrap();
            serve(node, (pod.addr(), 80).into());
        }
        for name in ["node-1", "control-plane", "outside"] {
            for pod in pods {
                let from = cluster.member(name).unwrap();
                request_tcp(from, (pod.addr(), 80).into(), b"?", TIMEOUT).unwrap();
            }
        }
    });
}

#[test]
fn distinguishes_refused_from_timed_out() {
    in_namespace(|| {
        let cluster = cluster(1);
        let outside = cluster.outside().unwrap();
        let node: IpAddr = cluster.topology.nodes[0].member.address.ipv4.into();
        let refused = request_tcp(outside, (node, 1).into(), b"?", TIMEOUT).unwrap_err();
        assert_eq!(refused.kind(), Some(io::ErrorKind::ConnectionRefused));
        let refused = exchange_udp(outside, (node, 1).into(), b"?", TIMEOUT).unwrap_err();
        assert_eq!(refused.kind(), Some(io::ErrorKind::ConnectionRefused));
        // No member has this address, so the router gets the packet, and does not respond.
        let unused = "192.0.2.1:80".parse().unwrap();
        let silent = request_tcp(outside, unused, b"?", Duration::from_millis(300)).unwrap_err();
        assert_eq!(silent.kind(), Some(io::ErrorKind::TimedOut));
    });
}

#[test]
fn datagrams_are_exchanged() {
    in_namespace(|| {
        let cluster = cluster(1);
        let node = cluster.member("node-1").unwrap();
        let at: SocketAddr = (node.plan.address.ipv6, 53).into();
        let socket = node.enter(|| UdpSocket::bind(at)).unwrap().unwrap();
        thread::spawn(move || {
            let mut buffer = [0; 100];
            let (length, client) = socket.recv_from(&mut buffer).unwrap();
            socket.send_to(&buffer[..length], client).unwrap();
        });
        let answer = exchange_udp(cluster.outside().unwrap(), at, b"ping", TIMEOUT).unwrap();
        assert_eq!(answer, b"ping");
    });
}

#[test]
fn host_reaches_members_by_a_listener_only() {
    in_namespace(|| {
        let cluster = cluster(1);
        let control_plane = cluster.control_plane().unwrap();
        let api: SocketAddr = (control_plane.plan.address.ipv4, 6443).into();
        serve(control_plane, api);
        // The enclosure's first namespace stands for the host.
        assert!(std::net::TcpStream::connect(api).is_err());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        forward(listener, control_plane, api).unwrap();
        for _ in 0..3 {
            let mut stream = std::net::TcpStream::connect(at).unwrap();
            stream.write_all(b"?").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, control_plane.plan.address.ipv4.to_string());
        }
    });
}

#[test]
fn programs_run_in_the_members_namespace_and_names_are_mounted() {
    in_namespace(|| {
        let cluster = cluster(1);
        cluster.publish().unwrap();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "readlink /proc/self/ns/net"])
            .stdout(std::process::Stdio::piped());
        let child = cluster.spawn("node-1", &mut command).unwrap();
        let output = child.wait_with_output().unwrap();
        let seen = String::from_utf8(output.stdout).unwrap();
        let link = || fs::read_link("/proc/thread-self/ns/net").unwrap();
        let inside = cluster.member("node-1").unwrap().enter(link).unwrap();
        assert_eq!(seen.trim(), inside.to_str().unwrap());
        assert_ne!(link(), inside);
        assert!(std::path::Path::new(NETNS_DIRECTORY).join("outside").exists());
        assert!(cluster.spawn("node-9", &mut command).is_err());
    });
}
