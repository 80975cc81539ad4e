use super::*;

fn too_large() -> ClientError {
    ClientError::TooLarge {
        path: "/api/v1/configmaps".to_owned(),
        limit_bytes: 1,
    }
}

#[test]
fn size_shrinks_to_one_object_and_grows_to_the_maximum() {
    let mut size = PageSize::new(500);
    let mut sizes = Vec::new();
    while size.shrink(&too_large()) {
        sizes.push(size.objects());
    }
    assert_eq!(sizes, [125, 31, 7, 1]);
    size.grow(GROWTH_BYTES_MAX + 1);
    assert_eq!(size.objects(), 1);
    for _ in 0..20 {
        size.grow(GROWTH_BYTES_MAX);
    }
    assert_eq!(size.objects(), 500);
}

#[test]
fn other_failures_keep_the_size() {
    let mut size = PageSize::new(500);
    let error = ClientError::Status {
        method: http::Method::GET,
        path: String::new(),
        status: crate::Status::default(),
    };
    assert!(!size.shrink(&error));
    assert_eq!(size.objects(), 500);
}
