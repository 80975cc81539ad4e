use std::time::Duration;

use images::{Digest, ImageId};

use super::*;

#[test]
fn sizes_have_binary_prefixes() {
    for (bytes, text) in [
        (0, "0 B"),
        (1_023, "1023 B"),
        (1_024, "1.0 KiB"),
        (1_536 << 10, "1.5 MiB"),
        (3 << 40, "3.0 TiB"),
        (u64::MAX, "16777216.0 TiB"),
    ] {
        assert_eq!(size(bytes), text);
    }
}

#[test]
fn table_aligns_the_columns() {
    let digest = Digest::sha256(b"");
    let image = ImageSummary {
        reference: "nginx:1.27".parse().expect("a name"),
        id: ImageId(digest.clone()),
        digest,
        size_bytes: 2_048,
        last_used: SystemTime::UNIX_EPOCH,
        holders: vec!["agent".to_owned()],
    };
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(90);
    assert_eq!(
        table(&[image], now),
        "NAME                           IMAGE ID       SIZE      LAST USED   IN USE BY\n\
         docker.io/library/nginx:1.27   e3b0c44298fc   2.0 KiB   90s         agent\n"
    );
}
