//! BIRD as the router of the cluster.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testbed::{Cluster, Member};

use crate::router::{self, Process, Router, TIMEOUT};

/// A running BIRD in the namespace of the client outside of the cluster.
pub(crate) struct Bird {
    _process: Process,
    socket: PathBuf,
}

impl Bird {
    /// Skips the test in a namespace without BIRD.
    pub(crate) fn require() {
        if !router::is_installed("bird") {
            testbed::skip_inside("BIRD is not installed");
        }
    }

    /// Starts BIRD with protocols of BGP.
    pub(crate) fn start(cluster: &Cluster, directory: &Path, protocols: &str) -> Self {
        let (file, socket) = (directory.join("bird.conf"), directory.join("bird.ctl"));
        let configuration =
            format!("log stderr all;\nrouter id 172.30.0.100;\nprotocol device {{}}\n{protocols}\n");
        std::fs::write(&file, configuration).expect("a file");
        let outside: &Member = cluster.outside().expect("a client");
        let mut command = Command::new("bird");
        command.arg("-f").arg("-c").arg(&file).arg("-s").arg(&socket);
        command.arg("-P").arg(directory.join("bird.pid"));
        command.stderr(Stdio::null()).stdout(Stdio::null());
        let process = Process(outside.spawn(&mut command).expect("BIRD"));
        let bird = Self {
            _process: process,
            socket,
        };
        testbed::wait_until("BIRD responds", TIMEOUT, || {
            Some(()).filter(|()| bird.query("show status").contains("up and running"))
        });
        bird
    }

    /// Waits for an established session.
    pub(crate) fn wait_established(&self, protocol: &str) {
        self.wait_for(&format!("show protocols {protocol}"), "Established");
    }
}

impl Router for Bird {
    fn query(&self, command: &str) -> String {
        let mut birdc = Command::new("birdc");
        router::output(birdc.arg("-s").arg(&self.socket).args(command.split(' ')))
    }
}
