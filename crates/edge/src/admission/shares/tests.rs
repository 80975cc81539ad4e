use std::sync::atomic::Ordering;

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Opens connections of Services in turn until none gets another one. Returns the connections of each.
fn flood(shares: Shares, open_max: usize, services: usize) -> Vec<usize> {
    let mut open = vec![0; services];
    loop {
        let mut is_full = true;
        for service in 0..services {
            let of_all: usize = open.iter().sum();
            if shares.has_room(open[service], of_all, open_max) {
                open[service] += 1;
                is_full = false;
            }
        }
        if is_full {
            return open;
        }
    }
}

#[test]
fn flood_leaves_connections_for_other_services() {
    let half = Shares::default();
    assert_eq!(flood(half, 1_000, 1), [500]);
    let of_three = flood(half, 1_000, 3);
    assert_eq!(of_three, [250; 3]);
    let many = flood(half, 1_000, 9);
    assert!(many.iter().sum::<usize>() <= 900, "{many:?}");
    let all = Shares {
        service_percent: 100,
        ..half
    };
    assert_eq!(flood(all, 1_000, 1), [1_000]);
    assert!(half.has_room(0, 0, 1) && !half.has_room(0, 1, 1));
}

#[test]
fn client_share_is_at_least_one_connection() {
    let shares = Shares::default();
    assert_eq!((shares.client_max(1_000), shares.client_max(3)), (100, 1));
    assert_eq!(shares.client_max(usize::MAX), u32::MAX);
}

#[test]
fn counts_clients_of_each_service_apart() {
    let clients = ClientConnections::default();
    let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
    let first = clients.acquire(1, one, 2).expect("space").expect("slots");
    let second = clients.acquire(1, one, 2).expect("space").expect("slots");
    assert_eq!(clients.acquire(1, one, 2).err(), Some(ClientFull));
    let of_other = [clients.acquire(1, other, 2), clients.acquire(2, one, 2)];
    let of_other = of_other.map(|slots| slots.expect("space").expect("slots"));
    clients.release(&first);
    let third = clients.acquire(1, one, 2).expect("space").expect("slots");
    [second, third]
        .iter()
        .chain(&of_other)
        .for_each(|slot| clients.release(slot));
    assert!(clients.slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 0));
}

#[test]
fn counts_ipv6_clients_by_their_network() {
    let clients = ClientConnections::default();
    let slots = clients.acquire(1, address("2001:db8::1"), 1).expect("space");
    assert!(slots.is_some());
    assert_eq!(
        clients.acquire(1, address("2001:db8::2"), 1).err(),
        Some(ClientFull)
    );
    assert!(clients.acquire(1, address("2001:db8:0:1::1"), 1).is_ok());
    // The same address in another form.
    let mapped = clients.acquire(1, address("::ffff:192.0.2.1"), 1).expect("space");
    assert!(mapped.is_some());
    assert_eq!(
        clients.acquire(1, address("192.0.2.1"), 1).err(),
        Some(ClientFull)
    );
}

#[test]
fn bounds_the_number_of_counted_clients() {
    let clients = ClientConnections::default();
    let all = (0..200_000_u32).map(|number| clients.acquire(1, IpAddr::V4(number.into()), 1));
    let slots: Vec<ClientSlot> = all
        .filter_map(|entered| entered.expect("a client below its limit"))
        .collect();
    assert!(slots.len() <= SETS * WAYS);
    slots.iter().for_each(|slot| clients.release(slot));
    assert!(clients.slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 0));
}

#[test]
fn counts_of_many_threads_add_up() {
    let clients = ClientConnections::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..20_000_u32 {
                    let client = IpAddr::V4((number % 8).into());
                    if let Ok(Some(slots)) = clients.acquire(1, client, 3) {
                        clients.release(&slots);
                    }
                }
            });
        }
    });
    assert!(clients.slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 0));
}
