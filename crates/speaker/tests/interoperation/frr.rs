//! FRR as the router of the cluster: `zebra`, `bfdd` and `bgpd` as its package has them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testbed::{Cluster, Member};

use crate::router::{self, Process, Router, TIMEOUT};

/// Directory of the daemons.
const DAEMONS: &str = "/usr/lib/frr";
/// Command line of the daemons.
const SHELL: &str = "/usr/bin/vtysh";

/// A running FRR in the namespace of the client outside of the cluster.
pub(crate) struct Frr {
    processes: Vec<Process>,
    directory: PathBuf,
}

impl Frr {
    /// Skips the test in a namespace without FRR.
    pub(crate) fn require() {
        let bgpd = format!("{DAEMONS}/bgpd");
        if !router::is_installed(&bgpd) || !Path::new(SHELL).exists() {
            testbed::skip_inside("FRR is not installed");
        }
    }

    /// Starts FRR with the configurations of `bgpd`, `bfdd` and `zebra`.
    pub(crate) fn start(cluster: &Cluster, directory: &Path, bgpd: &str, bfdd: &str, zebra: &str) -> Self {
        own_group();
        let directory = directory.join("frr");
        std::fs::create_dir(&directory).expect("a directory");
        std::fs::write(directory.join("vtysh.conf"), "").expect("a file");
        let outside = cluster.outside().expect("a client");
        let daemons = [("zebra", zebra), ("bfdd", bfdd), ("bgpd", bgpd)];
        let mut frr = Self {
            processes: Vec::new(),
            directory,
        };
        for (name, configuration) in daemons {
            let process = frr.start_daemon(outside, name, configuration);
            frr.processes.push(process);
            // A daemon that starts before zebra listens connects later only.
            testbed::wait_until(name, TIMEOUT, || {
                Some(()).filter(|()| frr.directory.join(format!("{name}.vty")).exists())
            });
        }
        testbed::wait_until("FRR responds", TIMEOUT, || {
            Some(()).filter(|()| frr.query("show bgp vrfs").contains("default"))
        });
        frr
    }

    fn start_daemon(&self, outside: &Member, name: &str, configuration: &str) -> Process {
        let file = self.directory.join(format!("{name}.conf"));
        std::fs::write(&file, configuration).expect("a file");
        let mut command = Command::new(format!("{DAEMONS}/{name}"));
        command.arg("--vty_socket").arg(&self.directory);
        command.arg("-i").arg(self.directory.join(format!("{name}.pid")));
        command.arg("-z").arg(self.directory.join("zserv.api"));
        command.arg("-f").arg(&file);
        // No network address for the command line; user and group exist in the namespace.
        command.args(["-P", "0", "-u", "root", "-g", "root"]);
        if name == "bfdd" {
            command.arg("--bfdctl").arg(self.directory.join("bfdd.sock"));
        }
        command.stderr(Stdio::null()).stdout(Stdio::null());
        Process(outside.spawn(&mut command).expect(name))
    }

    /// Waits for an established session.
    pub(crate) fn wait_established(&self, neighbor: &str) {
        self.wait_for(
            &format!("show bgp neighbors {neighbor}"),
            "BGP state = Established",
        );
    }

    /// Waits until the routes of both families are present and not stale.
    pub(crate) fn wait_fresh(&self, prefixes: [&str; 2]) {
        for command in commands(prefixes) {
            self.wait(&command, |route| {
                route.contains("1 available") && !route.contains("stale")
            });
        }
    }

    /// Returns true if the router has the routes of both families.
    pub(crate) fn has_both(&self, prefixes: [&str; 2]) -> bool {
        commands(prefixes)
            .iter()
            .all(|command| self.query(command).contains("1 available"))
    }

    /// Waits until the router has none of the routes.
    pub(crate) fn wait_gone(&self, prefixes: [&str; 2]) {
        for command in commands(prefixes) {
            self.wait_for(&command, "not in table");
        }
    }
}

/// Commands that show a route of IPv4 and one of IPv6.
fn commands([ipv4, ipv6]: [&str; 2]) -> [String; 2] {
    [
        format!("show bgp ipv4 unicast {ipv4}"),
        format!("show bgp ipv6 unicast {ipv6}"),
    ]
}

/// Makes root a member of the group of FRR's command line, for this namespace only: the daemons demand it.
fn own_group() {
    let groups = std::fs::read_to_string("/etc/group").expect("groups");
    let own: Vec<String> = groups
        .lines()
        .map(|line| match line.split_once(':') {
            Some(("frrvty", _)) => "frrvty:x:0:root".to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    testbed::cover_file("/etc/group", &(own.join("\n") + "\n")).expect("a mount");
}

impl Router for Frr {
    fn query(&self, command: &str) -> String {
        let mut vtysh = Command::new(SHELL);
        vtysh.arg("--vty_socket").arg(&self.directory);
        vtysh
            .arg("--config_dir")
            .arg(&self.directory)
            .arg("-c")
            .arg(command);
        router::output(vtysh.stderr(Stdio::null()))
    }
}
