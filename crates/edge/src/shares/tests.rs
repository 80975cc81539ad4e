use std::sync::atomic::Ordering;

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Lets Services of these shares take turns in asking for places until nobody gets one; the places of each.
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
fn floods_leave_room_for_other_services() {
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
fn a_client_has_a_part_of_the_places_and_one_at_least() {
    let shares = Shares::default();
    assert_eq!((shares.client_max(1_000), shares.client_max(3)), (100, 1));
    assert_eq!(shares.client_max(usize::MAX), u32::MAX);
}

#[test]
fn counts_clients_of_each_service_apart() {
    let clients = Clients::default();
    let (one, other) = (address("192.0.2.1"), address("192.0.2.2"));
    let first = clients.enter(1, one, 2).expect("room").expect("counted");
    let second = clients.enter(1, one, 2).expect("room").expect("counted");
    assert_eq!(clients.enter(1, one, 2).err(), Some(ClientFull));
    let of_other = [clients.enter(1, other, 2), clients.enter(2, one, 2)];
    let of_other = of_other.map(|counted| counted.expect("room").expect("counted"));
    clients.leave(&first);
    let third = clients.enter(1, one, 2).expect("room").expect("counted");
    [second, third]
        .iter()
        .chain(&of_other)
        .for_each(|counted| clients.leave(counted));
    assert!(clients.slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 0));
}

#[test]
fn counts_ipv6_clients_by_their_network() {
    let clients = Clients::default();
    let counted = clients.enter(1, address("2001:db8::1"), 1).expect("room");
    assert!(counted.is_some());
    assert_eq!(
        clients.enter(1, address("2001:db8::2"), 1).err(),
        Some(ClientFull)
    );
    assert!(clients.enter(1, address("2001:db8:0:1::1"), 1).is_ok());
    // The same address in another form.
    let mapped = clients.enter(1, address("::ffff:192.0.2.1"), 1).expect("room");
    assert!(mapped.is_some());
    assert_eq!(clients.enter(1, address("192.0.2.1"), 1).err(), Some(ClientFull));
}

#[test]
fn counts_no_more_clients_than_there_is_room_for() {
    let clients = Clients::default();
    let all = (0..200_000_u32).map(|number| clients.enter(1, IpAddr::V4(number.into()), 1));
    let counted: Vec<Counted> = all
        .filter_map(|entered| entered.expect("another client"))
        .collect();
    assert!(counted.len() <= SETS * WAYS);
    counted.iter().for_each(|counted| clients.leave(counted));
    assert!(clients.slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 0));
}

#[test]
fn counts_right_from_many_threads() {
    let clients = Clients::default();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..20_000_u32 {
                    let client = IpAddr::V4((number % 8).into());
                    if let Ok(Some(counted)) = clients.enter(1, client, 3) {
                        clients.leave(&counted);
                    }
                }
            });
        }
    });
    assert!(clients.slots.iter().all(|slot| slot.load(Ordering::Relaxed) == 0));
}
