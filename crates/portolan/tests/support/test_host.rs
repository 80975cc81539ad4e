//! Shell on a node of the testbed, for the commands of a guide.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use testbed::{Cluster, Member, skip_inside};

/// Lines of the logs that are printed after a failure.
const LOG_END_LINES: usize = 25;
/// Directory of the sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// Line after the output of a block.
const MARK: &str = "@@portolan-guide-block-ends";

/// Programs that the commands need, and an argument with which they exit.
const PROGRAMS: [(&str, &str); 5] = [
    ("kubectl", "--help"),
    ("curl", "--version"),
    ("unshare", "--version"),
    ("python3", "--version"),
    ("nft", "--version"),
];

/// Skips the test if a program is missing.
pub(crate) fn need_programs() {
    for (program, argument) in PROGRAMS {
        let mut command = Command::new(program);
        command
            .arg(argument)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            skip_inside(&format!("{program} is not installed"));
        }
    }
}

/// Shell on a host, with empty `/var/lib`, `/var/log` and `/tmp` of its own.
pub(crate) struct TestHost {
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// Result of a block of commands.
pub(crate) struct Outcome {
    /// Standard output and standard error.
    pub text: String,
    /// True if the last command succeeded.
    pub is_success: bool,
}

impl TestHost {
    /// Starts a shell on each node of a cluster.
    pub(crate) fn all(cluster: &Cluster) -> Vec<Self> {
        let addresses: Vec<String> = cluster
            .nodes()
            .map(|node| node.plan.address.ipv4.to_string())
            .collect();
        cluster
            .nodes()
            .map(|node| Self::start(node, &addresses))
            .collect()
    }

    /// Runs commands that must succeed, and returns their output.
    pub(crate) fn must(&mut self, commands: &str) -> String {
        let outcome = self.run(commands);
        assert!(
            outcome.is_success,
            "{commands}\nfailed:\n{}\n{}",
            outcome.text,
            self.log_end()
        );
        outcome.text.trim().to_owned()
    }

    /// Starts a shell on a member. `FIRST` and `SECOND` contain the addresses of all hosts, `ADDRESS` that of this one.
    pub(crate) fn start(member: &Member, addresses: &[String]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_portolan"));
        let directory = program.parent().expect("a directory");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("unshare");
        command
            .args([
                "--mount",
                "--uts",
                "--pid",
                "--fork",
                "--mount-proc",
                "--kill-child",
                "sh",
            ])
            .env("PATH", format!("{}:{path}", directory.display()))
            .env("PROGRAMS", directory)
            .env("SOURCES", SOURCES)
            .env("HOME", "/tmp")
            .env("ADDRESS", member.plan.address.ipv4.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for (name, address) in ["FIRST", "SECOND"].iter().zip(addresses) {
            command.env(name, address);
        }
        let mut shell = member.spawn(&mut command).expect("a shell");
        let input = shell.stdin.take().expect("a pipe");
        let output = BufReader::new(shell.stdout.take().expect("a pipe"));
        let mut host = Self { shell, input, output };
        // The sources and the program can lie below one of the places that the host hides. An open directory stays
        // reachable.
        let setup = format!(
            "exec 2>&1 8<\"$SOURCES\" 9<\"$PROGRAMS\"\n\
             for place in /var/lib /var/log /tmp; do mount -t tmpfs tmpfs $place || exit; done\n\
             show() {{ [ -e \"$2/$3\" ] || {{ mkdir -p \"$2\" && mount -c --bind /proc/self/fd/$1 \"$2\"; }}; }}\n\
             show 8 \"$SOURCES\" Cargo.toml || exit\nshow 9 \"$PROGRAMS\" portolan || exit\n\
             exec 8<&- 9<&-\nhostname {} && cd /tmp",
            member.plan.name
        );
        let outcome = host.run(&setup);
        assert!(outcome.is_success, "{}", outcome.text);
        host
    }

    /// Runs commands.
    pub(crate) fn run(&mut self, commands: &str) -> Outcome {
        writeln!(self.input, "{commands}\necho \"{MARK} $?\"").expect("input of the shell");
        let mut text = String::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("output of the shell");
            assert!(read > 0, "shell exited:\n{text}");
            // The output before the mark may have no line feed at its end.
            if let Some((before, status)) = line.split_once(MARK) {
                text.push_str(before);
                return Outcome {
                    text,
                    is_success: status.trim() == "0",
                };
            }
            text.push_str(&line);
        }
    }

    /// Returns the last lines of the logs of `portolan`.
    pub(crate) fn log_end(&mut self) -> String {
        self.run(&format!("tail -n {LOG_END_LINES} /var/log/portolan*.log"))
            .text
    }

    /// Kills `portolan` and the shell. Other processes end with the namespaces of the test.
    pub(crate) fn end(&mut self) {
        self.run("kill -9 $(cat /var/lib/portolan/up.lock 2>/dev/null) 2>/dev/null; true");
        self.shell
            .kill()
            .and_then(|()| self.shell.wait())
            .expect("a killed shell");
    }
}
