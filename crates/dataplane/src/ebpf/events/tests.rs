use super::*;
use crate::ebpf::layout::socket_bytes;

fn bytes(outcome: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in [1_500_000_000_u64, 2, 3, 4] {
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    for address in ["10.96.0.1:80", "[fd00::1]:8080"] {
        bytes.extend_from_slice(&socket_bytes(address.parse().unwrap()));
    }
    bytes.extend_from_slice(&outcome.to_ne_bytes());
    bytes
}

#[test]
fn events_are_read_as_programs_write_them() {
    let expected = ConnectionEvent {
        at: Duration::from_millis(1_500),
        socket_cookie: 2,
        namespace_cookie: 3,
        control_group: 4,
        frontend: "10.96.0.1:80".parse().unwrap(),
        endpoint: Some("[fd00::1]:8080".parse().unwrap()),
    };
    assert_eq!(bytes(0).len(), EVENT_BYTES);
    assert_eq!(ConnectionEvent::of_bytes(&bytes(0)), Some(expected));
    let refused = ConnectionEvent {
        endpoint: None,
        ..expected
    };
    assert_eq!(ConnectionEvent::of_bytes(&bytes(1)), Some(refused));
    assert_eq!(ConnectionEvent::of_bytes(&bytes(0)[..EVENT_BYTES - 1]), None);
}

#[test]
fn directory_without_pins_is_reported() {
    let error = ConnectionEvents::open(Path::new("/does/not/exist")).unwrap_err();
    assert!(matches!(error, EventError::NotPinned { .. }), "{error}");
}
