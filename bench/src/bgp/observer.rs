//! A peer of the nodes that installs no routes. It notes the arrival of the first UPDATE with each route, which separates
//! the time of the speakers from that of a router.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use bgp::Family;
use bgp::message::capability::Capabilities;
use bgp::message::{self, Context, MESSAGE_BYTES_MAX, Message, Open, encode};
use ipnet::{IpNet, Ipv4Net};
use netlink::route::Connection;
use testbed::Member;

use super::ROUTER_SYSTEM;
use crate::Failure;

/// Address of the observer, besides those of the routers.
pub(super) const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 110);
/// Port of the observer. The router of the same namespace has that of BGP.
pub(super) const PORT: u16 = 1_790;
/// Meaning of messages for the observer.
const CONTEXT: Context = Context {
    has_four_octet_as: true,
    is_internal: false,
    local_as: ROUTER_SYSTEM,
};

/// Times at which routes first arrived.
type Arrivals = Arc<Mutex<BTreeMap<IpNet, Instant>>>;

/// A peer that accepts sessions until the process ends.
pub(super) struct Observer {
    arrivals: Arrivals,
}

impl Observer {
    /// Listens in the namespace of a member, at an address of its own.
    pub(super) fn start(member: &Member) -> Result<Self, Failure> {
        let mut connection = Connection::open_in(&member.namespace)?;
        let addresses = connection.addresses()?;
        let own = IpAddr::from(member.plan.address.ipv4);
        let same_link = addresses.iter().find(|address| address.network.addr() == own);
        let link = same_link.ok_or("no link with the address of the router")?.link;
        connection.add_address(link, Ipv4Net::from(ADDRESS).into())?;
        let listener = member.enter(|| TcpListener::bind((ADDRESS, PORT)))??;
        let arrivals = Arrivals::default();
        let accepted = Arc::clone(&arrivals);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let arrivals = Arc::clone(&accepted);
                thread::spawn(move || serve(stream, &arrivals));
            }
        });
        Ok(Self { arrivals })
    }

    /// Returns the time at which the first UPDATE with the route to an address arrived.
    pub(super) fn arrival(&self, address: Ipv4Addr) -> Option<Instant> {
        let route = IpNet::from(Ipv4Net::from(address));
        let arrivals = self.arrivals.lock().unwrap_or_else(PoisonError::into_inner);
        arrivals.get(&route).copied()
    }
}

/// Serves a session until its end; a node that is killed opens another one.
fn serve(mut stream: TcpStream, arrivals: &Arrivals) {
    let mut unread = Vec::new();
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    while let Ok(length) = stream.read(&mut bytes) {
        let now = Instant::now();
        unread.extend_from_slice(&bytes[..length]);
        if length == 0 || process(&mut stream, &mut unread, now, arrivals).is_none() {
            return;
        }
    }
}

/// Processes complete messages; `None` at the end of the session.
fn process(stream: &mut TcpStream, unread: &mut Vec<u8>, now: Instant, arrivals: &Arrivals) -> Option<()> {
    while let Some(length) = message::frame_length(unread).ok()? {
        if length > unread.len() {
            break;
        }
        let rest = unread.split_off(length);
        let frame = std::mem::replace(unread, rest);
        match Message::decode(&frame, &CONTEXT).ok()? {
            Message::Open(_) => {
                stream.write_all(&encode::open(&open())).ok()?;
                stream.write_all(&encode::keepalive()).ok()?;
            }
            Message::Update(update) => {
                let mut arrivals = arrivals.lock().unwrap_or_else(PoisonError::into_inner);
                for prefix in update.announced {
                    arrivals.entry(prefix).or_insert(now);
                }
            }
            Message::Notification(_) => return None,
            Message::Keepalive | Message::RouteRefresh(_) => {}
        }
    }
    Some(())
}

/// Returns the OPEN of the observer. Without a hold time, it sends nothing after its first KEEPALIVE.
fn open() -> Open {
    Open {
        autonomous_system: ROUTER_SYSTEM,
        hold_seconds: 0,
        identifier: ADDRESS,
        capabilities: Capabilities {
            families: vec![Family::Ipv4],
            four_octet_as: Some(ROUTER_SYSTEM),
            ..Capabilities::default()
        },
    }
}
