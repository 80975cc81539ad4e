//! BIRD as the router of the cluster.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Cluster, Member};

/// Timeout of every wait; only a failing test reaches it.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Pause between two queries.
const QUERY_PERIOD: Duration = Duration::from_millis(50);

/// A running BIRD in the namespace of the client outside of the cluster.
pub struct Bird {
    process: Child,
    socket: PathBuf,
}

impl Bird {
    /// Returns true if BIRD is installed.
    pub fn is_installed() -> bool {
        let found = Command::new("bird")
            .arg("--version")
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success())
    }

    /// Starts BIRD with protocols of BGP.
    pub fn start(cluster: &Cluster, directory: &Path, protocols: &str) -> Self {
        let (file, socket) = (directory.join("bird.conf"), directory.join("bird.ctl"));
        let configuration =
            format!("log stderr all;\nrouter id 172.30.0.100;\nprotocol device {{}}\n{protocols}\n");
        std::fs::write(&file, configuration).expect("a file");
        let outside: &Member = cluster.outside().expect("a client");
        let mut command = Command::new("bird");
        command.arg("-f").arg("-c").arg(&file).arg("-s").arg(&socket);
        command.arg("-P").arg(directory.join("bird.pid"));
        command.stderr(Stdio::null()).stdout(Stdio::null());
        let process = outside.spawn(&mut command).expect("BIRD");
        let bird = Self { process, socket };
        testbed::until("BIRD responds", TIMEOUT, || {
            Some(()).filter(|()| bird.query("show status").contains("up and running"))
        });
        bird
    }

    /// Returns the response to a command.
    pub fn query(&self, command: &str) -> String {
        let output = Command::new("birdc")
            .arg("-s")
            .arg(&self.socket)
            .args(command.split(' '))
            .output();
        String::from_utf8_lossy(&output.expect("birdc").stdout).into_owned()
    }

    /// Waits until the response to a command satisfies a condition, and returns it.
    pub fn wait(&self, command: &str, is_expected: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + TIMEOUT;
        loop {
            let response = self.query(command);
            if is_expected(&response) {
                return response;
            }
            assert!(Instant::now() < end, "{command}: {response}");
            thread::sleep(QUERY_PERIOD);
        }
    }

    /// Waits for an established session.
    pub fn wait_established(&self, protocol: &str) {
        self.wait(&format!("show protocols {protocol}"), |text| {
            text.contains("Established")
        });
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        // A process that has ended already is no fault of the test.
        self.process.kill().unwrap_or_default();
        self.process.wait().map(|_| ()).unwrap_or_default();
    }
}
