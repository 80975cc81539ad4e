use super::*;

#[test]
fn cpus_are_counted_from_ranges() {
    assert_eq!(count_of_ranges("0-3\n"), Some(4));
    assert_eq!(count_of_ranges("0,2-3,9\n"), Some(4));
    assert_eq!(count_of_ranges(""), None);
    assert_eq!(count_of_ranges("3-0"), None);
}

#[test]
fn object_name_ends_with_zero() {
    assert_eq!(&object_name("frontends"), b"frontends\0\0\0\0\0\0\0");
    assert_eq!(&object_name("a_name_that_is_too_long"), b"a_name_that_is_\0");
}

#[test]
fn all_elements_are_read_once_by_several_calls() {
    const COUNT: u64 = 10_000;
    testbed::in_namespace(|| {
        let map = match Map::create(MapShape {
            name: "read_once",
            kind: MapKind::LruHash,
            key_bytes: 8,
            value_bytes: 16,
            elements_max: 65_536,
        }) {
            Ok(map) => map,
            Err(error @ (BpfError::NotPermitted { .. } | BpfError::Unsupported { .. })) => {
                testbed::skip_inside(&error.to_string())
            }
            Err(error) => panic!("{error}"),
        };
        let bytes =
            |numbers: Vec<u64>| -> Vec<u8> { numbers.into_iter().flat_map(u64::to_ne_bytes).collect() };
        let keys = bytes((0..COUNT).collect());
        let values = bytes((0..COUNT).flat_map(|number| [number, number + 1]).collect());
        map.update(&keys, &values).unwrap();
        let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
        let mut found = Vec::new();
        map.read(|key, value| found.push((number(key), number(&value[..8]), number(&value[8..]))))
            .unwrap();
        found.sort_unstable();
        let expected: Vec<_> = (0..COUNT).map(|count| (count, count, count + 1)).collect();
        assert!(found == expected, "{} elements", found.len());
    });
}
