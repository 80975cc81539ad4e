use std::io::ErrorKind;
use std::time::Duration;

use super::*;
use crate::route::{Connection, LinkChange, LinkName};

/// Returns a frame from the peer of a veth pair, with the bytes that filters check.
fn frame(kind: [u8; 2], marks: &[(usize, u8)]) -> Vec<u8> {
    let mut frame = vec![0; 80];
    frame[..6].copy_from_slice(&[0xff; 6]);
    frame[12..14].copy_from_slice(&kind);
    for (at, byte) in marks {
        frame[*at] = *byte;
    }
    frame
}

#[test]
fn socket_receives_selected_frames_only() {
    testbed::in_namespace(|| {
        let mut connection = Connection::open().expect("a connection");
        let (near, far): (LinkName, LinkName) = ("near".parse().unwrap(), "far".parse().unwrap());
        connection.add_veth(&near, &far, None).expect("a pair");
        let [near, far] = [&near, &far].map(|name| {
            let link = connection.link_index(name).expect("a link");
            connection
                .change_link(link, &LinkChange::up())
                .expect("a link that is up");
            link
        });
        let links = connection.links().expect("links");
        let found = links.iter().find(|link| link.index == near).expect("the link");
        assert!(found.ethernet.is_some());
        let loopback = links
            .iter()
            .find(|link| link.is_loopback)
            .expect("the loopback link");
        assert_eq!(loopback.ethernet, None);
        let sender = PacketSocket::open(far, Frames::Arp).expect("a sender");
        let request = frame([0x08, 0x06], &[(21, 1)]);
        let reply = frame([0x08, 0x06], &[(21, 2)]);
        let solicitation = frame([0x86, 0xdd], &[(20, 58), (54, 135)]);
        let advertisement = frame([0x86, 0xdd], &[(20, 58), (54, 136)]);
        let received_by = |frames, expected: &[&Vec<u8>]| {
            let socket = PacketSocket::open(near, frames).expect("a socket");
            for frame in [&reply, &request, &advertisement, &solicitation] {
                sender.send(frame).expect("sent");
            }
            let mut received = Vec::new();
            let mut buffer = [0; 128];
            // Frames of the kernel itself may arrive in between.
            while received.len() < expected.len() {
                match socket.receive(&mut buffer) {
                    Ok(bytes) if buffer[..6] == [0xff; 6] => received.push(buffer[..bytes].to_vec()),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
            assert_eq!(received.iter().collect::<Vec<_>>(), expected, "{frames:?}");
        };
        received_by(Frames::Arp, &[&reply, &request]);
        received_by(Frames::ArpRequests, &[&request]);
        received_by(Frames::Solicitations, &[&solicitation]);
    });
}
