//! A machine of the testbed with a shell in it, in which one command follows another as for a person.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use testbed::{Cluster, Member, skip_inside};

/// Lines of what the machine's programs say beside that are shown when something went wrong.
const LOG_END_LINES: usize = 25;
/// What tells the end of a block's output from the output.
const MARK: &str = "@@portolan-guide-block-ends";

/// What commands on a machine need beside Portolan.
const PROGRAMS: [(&str, &str); 5] = [
    ("kubectl", "--help"),
    ("curl", "--version"),
    ("unshare", "--version"),
    ("python3", "--version"),
    ("nft", "--version"),
];

/// Skips the test by name where a program is missing.
pub fn need_programs() {
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

/// A shell on a machine. Its `/var/lib`, `/var/log` and `/tmp` are its own, and empty.
pub struct Machine {
    shell: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What came of a block of commands.
pub struct Answer {
    /// What was printed, to both outputs.
    pub text: String,
    /// Whether the last command succeeded.
    pub is_success: bool,
}

impl Machine {
    /// A shell on each node of a cluster.
    pub fn all(cluster: &Cluster) -> Vec<Self> {
        let addresses: Vec<String> = cluster
            .nodes()
            .map(|node| node.plan.address.ipv4.to_string())
            .collect();
        cluster
            .nodes()
            .map(|node| Self::start(node, &addresses))
            .collect()
    }

    /// Runs commands that are to succeed; what they print.
    pub fn must(&mut self, commands: &str) -> String {
        let answer = self.run(commands);
        assert!(
            answer.is_success,
            "{commands}\nfailed, and said:\n{}\n{}",
            answer.text,
            self.log_end()
        );
        answer.text.trim().to_owned()
    }

    /// A shell on a member; the addresses of all machines are in `FIRST` and `SECOND`, its own in `ADDRESS`.
    pub fn start(member: &Member, addresses: &[String]) -> Self {
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
        let mut machine = Self { shell, input, output };
        let begin = format!(
            "exec 2>&1\nfor place in /var/lib /var/log /tmp; do mount -t tmpfs tmpfs $place || exit; done\n\
             hostname {} && cd /tmp",
            member.plan.name
        );
        let answer = machine.run(&begin);
        assert!(answer.is_success, "{}", answer.text);
        machine
    }

    /// Runs commands, as if they were typed.
    pub fn run(&mut self, commands: &str) -> Answer {
        writeln!(self.input, "{commands}\necho \"{MARK} $?\"").expect("a shell that listens");
        let mut text = String::new();
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("a shell that answers");
            assert!(read > 0, "the shell has ended:\n{text}");
            // What comes before may end without a new line.
            if let Some((before, status)) = line.split_once(MARK) {
                text.push_str(before);
                return Answer {
                    text,
                    is_success: status.trim() == "0",
                };
            }
            text.push_str(&line);
        }
    }

    /// The last lines of what `portolan` has said.
    pub fn log_end(&mut self) -> String {
        self.run(&format!("tail -n {LOG_END_LINES} /var/log/portolan*.log"))
            .text
    }

    /// Ends what the shell has started last, and the shell. What is left ends with the enclosure.
    pub fn end(&mut self) {
        self.run("kill -9 $(cat /var/lib/portolan/up.lock 2>/dev/null) 2>/dev/null; true");
        self.shell
            .kill()
            .and_then(|()| self.shell.wait())
            .expect("a shell that ends");
    }
}
