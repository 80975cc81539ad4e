use rustix::io::Errno;

use super::*;

#[test]
fn multiplexer_is_opened_without_links_of_proc() {
    let opened = open_multiplexer("/proc/self/root/dev/pts/ptmx");
    assert_eq!(opened.err(), Some(Errno::LOOP));
}
