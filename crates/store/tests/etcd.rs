//! The common test suite on etcd.

#[macro_use]
mod engine_tests;

use std::sync::Arc;
use std::time::Duration;

use store::{EtcdAddress, EtcdSettings, EtcdStore, HistoryLimits, Store};
use tempfile::TempDir;
use testbed::EtcdServer;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

/// An etcd of its own, with keys of another program alongside the store's.
struct Etcd {
    server: EtcdServer,
    _directory: TempDir,
}

impl engine_tests::Engine for Etcd {
    fn empty(test: &str) -> Option<Etcd> {
        if !EtcdServer::is_installed() {
            println!("skipped: {test}: etcd is not installed");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let server = EtcdServer::start(directory.path()).expect("etcd");
        Some(Etcd {
            server,
            _directory: directory,
        })
    }

    fn open(&self) -> Arc<dyn Store> {
        let settings = EtcdSettings {
            address: EtcdAddress {
                servers: vec![self.server.url()],
                ca_file: None,
                identity_files: None,
                prefix: "/portolan".to_owned(),
            },
            history: HistoryLimits::default(),
            compaction_interval: Duration::ZERO,
            transformation: store::Transformation::default(),
        };
        let opening = EtcdStore::open(settings);
        Arc::new(block_in_place(|| Handle::current().block_on(opening)).expect("a store"))
    }
}

engine_tests!(super::Etcd);
