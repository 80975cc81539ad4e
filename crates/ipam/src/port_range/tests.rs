use std::collections::HashSet;

use super::*;

#[test]
fn lower_band_follows_the_formula_of_upstream() {
    for (size, band) in [(16, 0), (17, 16), (512, 16), (2768, 86), (10_000, 128)] {
        assert_eq!(lower_band(size), band, "{size}");
    }
    assert_eq!(
        PortRange::new(30_000..=32_767).take_next(&mut |_| 0),
        Some(30_086)
    );
}

#[test]
fn takes_requested_ports_of_the_range() {
    let mut range = PortRange::new(30_000..=32_767);
    assert_eq!(range.take(29_999), Err(TakeError::OutOfRange));
    assert_eq!(range.take(32_768), Err(TakeError::OutOfRange));
    assert!(!range.is_taken(30_000));
    assert_eq!(range.take(30_000), Ok(()));
    assert!(range.is_taken(30_000) && !range.is_taken(29_999));
    assert_eq!(range.take(30_000), Err(TakeError::Taken));
    assert!(range.release(30_000));
    assert!(!range.release(30_000));
    assert_eq!((range.taken(), range.free()), (0, 2768));
}

#[test]
fn assigns_every_port_once_and_the_lower_band_last() {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut range = PortRange::new(30_000..=32_767);
    let order: Vec<u16> = std::iter::from_fn(|| range.take_next(&mut |bound| rng.u64(0..bound))).collect();
    assert_eq!(order.iter().collect::<HashSet<_>>().len(), 2768);
    assert!(order[..2682].iter().all(|port| *port >= 30_086));
    assert_eq!(range.free(), 0);
}

#[test]
fn range_can_contain_all_ports() {
    let mut range = PortRange::new(0..=u16::MAX);
    assert_eq!(range.free(), 65_536);
    assert_eq!(range.take(u16::MAX), Ok(()));
}
