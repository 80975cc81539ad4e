use proptest::prelude::*;

use super::wire::{ORIGINAL, REPLY, begin, read, write_direction, write_forget};
use super::*;
use crate::message::messages;

/// `IPCTNL_MSG_CT_NEW`.
const NEW: u16 = 1 << 8;
/// `CTA_TIMEOUT`.
const TIMEOUT: u16 = 7;
const UDP: u8 = libc::IPPROTO_UDP as u8;
const TCP: u8 = libc::IPPROTO_TCP as u8;

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address and port")
}

/// A flow from `client` to `frontend` that `endpoint` answers.
fn flow(client: &str, frontend: &str, endpoint: &str) -> Flow {
    Flow {
        protocol: UDP,
        original: Direction {
            source: at(client),
            destination: at(frontend),
        },
        reply: Direction {
            source: at(endpoint),
            destination: at(client),
        },
        bytes: 0,
        id: 7,
        zone: 0,
    }
}

/// Makes the kernel believe in a flow.
fn create(conntrack: &mut Conntrack, flow: &Flow) {
    let sequence = conntrack.socket.next_sequence();
    let family = if flow.original.source.is_ipv4() {
        Family::V4
    } else {
        Family::V6
    };
    let mut request = Writer::default();
    begin(
        &mut request,
        NEW,
        libc::NLM_F_CREATE | libc::NLM_F_EXCL | libc::NLM_F_ACK,
        sequence,
        family,
    );
    write_direction(&mut request, ORIGINAL, flow.protocol, &flow.original);
    write_direction(&mut request, REPLY, flow.protocol, &flow.reply);
    request.u32_be(TIMEOUT, 600);
    conntrack
        .socket
        .exchange(request.finish(), sequence, |_| {})
        .expect("the kernel takes a flow");
}

fn answered_by(flows: &[Flow]) -> Vec<String> {
    let mut texts: Vec<String> = flows.iter().map(|flow| flow.reply.source.to_string()).collect();
    texts.sort();
    texts
}

#[test]
fn what_is_written_is_read() {
    for flow in [
        flow("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353"),
        flow("[fd00::3]:4000", "[fd00:10:96::a]:53", "[fd00::2]:5353"),
    ] {
        let mut request = Writer::default();
        write_forget(&mut request, 1, &flow);
        write_direction(&mut request, REPLY, UDP, &flow.reply);
        let read: Vec<Option<Flow>> = messages(request.finish()).map(|message| read(&message)).collect();
        assert_eq!(read, [Some(flow)]);
    }
}

proptest! {
    #[test]
    fn reading_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for message in messages(&bytes) {
            read(&message);
        }
    }

    #[test]
    fn a_damaged_flow_never_panics(place in 0usize..120, byte in any::<u8>()) {
        let flow = flow("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353");
        let mut request = Writer::default();
        write_forget(&mut request, 1, &flow);
        let mut bytes = request.finish().to_vec();
        let index = place % bytes.len();
        bytes[index] = byte;
        for message in messages(&bytes) {
            read(&message);
        }
    }
}

#[test]
fn the_kernel_forgets_what_it_is_told_to() {
    testbed::in_namespace(|| {
        let mut conntrack = Conntrack::open().expect("a socket");
        let dns = [
            flow("10.244.1.3:4000", "10.96.0.10:53", "10.244.2.2:5353"),
            flow("10.244.1.3:4001", "10.96.0.10:53", "10.244.2.3:5353"),
            flow("[fd00::3]:4000", "[fd00:10:96::a]:53", "[fd00::2]:5353"),
        ];
        dns.iter().for_each(|flow| create(&mut conntrack, flow));

        let of_v4 = conntrack.flows(Family::V4, UDP, |_| true).expect("a list");
        assert_eq!(answered_by(&of_v4), ["10.244.2.2:5353", "10.244.2.3:5353"]);
        let of_v6 = conntrack.flows(Family::V6, UDP, |_| true).expect("a list");
        assert_eq!(answered_by(&of_v6), ["[fd00::2]:5353"]);
        assert_eq!(conntrack.flows(Family::V4, TCP, |_| true).expect("a list"), []);

        let stale = conntrack.flows(Family::V4, UDP, |flow| {
            flow.reply.source.port() == 5353 && flow.original.source.port() == 4000
        });
        let stale = stale.expect("a list");
        assert_eq!(answered_by(&stale), ["10.244.2.2:5353"]);
        assert!(conntrack.forget(&stale[0]).expect("it is forgotten"));
        assert!(!conntrack.forget(&stale[0]).expect("it is gone"));
        let left = conntrack.flows(Family::V4, UDP, |_| true).expect("a list");
        assert_eq!(answered_by(&left), ["10.244.2.3:5353"]);
    });
}
