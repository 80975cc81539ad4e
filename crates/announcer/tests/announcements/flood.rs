//! Somebody on the network asks without rest.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::asker::Asker;
use crate::setting::{ADDRESS, Setting, start_announcer};

/// An address that nobody has.
const NOBODYS: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 250);

/// A node that starts into a flood of questions has to learn from the API what it is to answer for, and to tell time.
#[test]
fn questions_without_rest_keep_nobody_from_anything_else() {
    testbed::in_namespace(|| {
        let Setting { cluster, api, .. } = &Setting::start(1);
        let flooder = Asker::start(cluster);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    flooder.flood(NOBODYS);
                }
            });
            let announcer = start_announcer(cluster, &api.announcer, "node-1");
            let mut asker = Asker::start(cluster);
            let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                asker.until_at(ADDRESS, announcer.hardware);
            }));
            is_over.store(true, Ordering::Relaxed);
            answer.expect("an answer");
        });
    });
}
