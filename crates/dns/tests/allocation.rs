//! Queries for names of the cluster are answered without allocation. The test has a process of its own, because it
//! counts the allocations of its thread.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::{Peer, Reaction, Responder, Transport};
use dns::wire::Name;
use support::{objects, question};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; the counter does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`, which is the same here.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `System.alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn index() -> Index {
    let cluster_domain = Name::from_text("cluster.local").expect("a name");
    let index = Index::new(Settings::of(cluster_domain));
    for (name, address) in [("web", "10.96.0.1"), ("peers", "None")] {
        let mut service = objects::service(name, address);
        service.spec.ports = vec![objects::http()];
        index.apply_service(&service).expect("applied");
    }
    index.apply_slice(&objects::slice("peers", 20)).expect("applied");
    index.set_synced();
    index
}

#[test]
fn responding_does_not_allocate() {
    let responder = Responder::new(Arc::new(index()), Forwarder::to(Vec::new()));
    let questions = [
        ("web.ns.svc.cluster.local", "A"),
        ("web.ns.svc.cluster.local", "AAAA"),
        ("_http._tcp.web.ns.svc.cluster.local", "SRV"),
        ("peers.ns.svc.cluster.local", "A"),
        ("peers.ns.svc.cluster.local", "SRV"),
        ("10-1-0-7.peers.ns.svc.cluster.local", "A"),
        ("7.0.1.10.in-addr.arpa", "PTR"),
        ("nope.ns.svc.cluster.local", "A"),
        ("example.com", "A"),
    ];
    let (mut buffer, mut state) = (vec![0; 4_096], responder.worker_state());
    let peer = Peer {
        address: [192, 0, 2, 1].into(),
        transport: Transport::Udp,
    };
    for (name, kind) in questions {
        let message = question(1, name, kind, Some(1_232));
        // The first round may size the scratch space.
        let rounds = [0; 2].map(|_| {
            let before = ALLOCATIONS.get();
            let reaction = responder.respond(&message, peer, &mut buffer, &mut state);
            assert!(matches!(reaction, Reaction::Send(1..)), "{name} {kind}");
            ALLOCATIONS.get() - before
        });
        assert_eq!(rounds[1], 0, "allocations for {name} {kind}");
    }
}
