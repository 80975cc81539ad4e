//! GoBGP as the router of the cluster.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use testbed::Cluster;

use crate::router::{self, Process, Router, TIMEOUT};

/// A running GoBGP in the namespace of the client outside of the cluster.
pub(crate) struct GoBgp {
    _process: Process,
    cluster: Arc<Cluster>,
}

impl GoBgp {
    /// Skips the test in a namespace without GoBGP.
    pub(crate) fn require() {
        if !router::is_installed("gobgpd") || !router::is_installed("gobgp") {
            testbed::skip_inside("GoBGP is not installed");
        }
    }

    /// Starts GoBGP in an autonomous system, with one neighbor in TOML.
    pub(crate) fn start(cluster: &Arc<Cluster>, directory: &Path, system: u32, neighbor: &str) -> Self {
        let file = directory.join("gobgpd.toml");
        let families: String = ["ipv4-unicast", "ipv6-unicast"]
            .map(|family| {
                format!(
                    "[[neighbors.afi-safis]]\n[neighbors.afi-safis.config]\nafi-safi-name = \"{family}\"\n\
                     [neighbors.afi-safis.mp-graceful-restart.config]\nenabled = true\n"
                )
            })
            .concat();
        let configuration = format!(
            "[global.config]\nas = {system}\nrouter-id = \"172.30.0.100\"\nport = 179\n[[neighbors]]\n{neighbor}\n{families}"
        );
        std::fs::write(&file, configuration).expect("a file");
        let mut command = Command::new("gobgpd");
        command.arg("-f").arg(&file);
        command.args(["--pprof-disable", "--api-hosts", "127.0.0.1:50051"]);
        command.stderr(Stdio::null()).stdout(Stdio::null());
        let outside = cluster.outside().expect("a client");
        let process = Process(outside.spawn(&mut command).expect("GoBGP"));
        let gobgp = Self {
            _process: process,
            cluster: Arc::clone(cluster),
        };
        testbed::wait_until("GoBGP responds", TIMEOUT, || {
            Some(()).filter(|()| gobgp.query("neighbor").contains("Peer"))
        });
        gobgp
    }

    /// Waits until the routes of both families are present and not stale.
    pub(crate) fn wait_fresh(&self, prefixes: [&str; 2]) -> String {
        let [ipv4, ipv6] = COMMANDS.map(|command| {
            self.wait(command, |routes| {
                prefixes.iter().any(|prefix| routes.contains(prefix)) && !routes.contains("S*")
            })
        });
        ipv4 + &ipv6
    }

    /// Returns true if the router has the routes of both families.
    pub(crate) fn has_both(&self, prefixes: [&str; 2]) -> bool {
        let routes = COMMANDS.map(|command| self.query(command)).concat();
        prefixes.iter().all(|prefix| routes.contains(prefix))
    }
}

/// Commands that show the routes of both families.
const COMMANDS: [&str; 2] = ["global rib", "global rib -a ipv6"];

impl Router for GoBgp {
    fn query(&self, command: &str) -> String {
        let mut gobgp = Command::new("gobgp");
        gobgp.args(command.split(' ')).stderr(Stdio::null());
        // The daemon accepts commands at its loopback address.
        let outside = self.cluster.outside().expect("a client");
        outside.enter(|| router::output(&mut gobgp)).expect("a namespace")
    }
}
