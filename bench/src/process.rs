//! The measured process: started, watched through `/proc`, ended.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::Failure;

/// USER_HZ, which is 100 on every architecture that Linux tells times of in `/proc` (proc_pid_stat(5)).
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;

/// A process that ends with this value.
pub struct Measured {
    child: Child,
    what: String,
}

impl Measured {
    /// Takes over a started process.
    pub fn new(what: impl Into<String>, child: Child) -> Self {
        let what = what.into();
        Self { child, what }
    }

    /// Resident memory now, in MiB.
    pub fn resident_mib(&self) -> Result<f64, Failure> {
        self.status_mib("VmRSS:")
    }

    /// Peak of resident memory so far, in MiB.
    pub fn resident_mib_max(&self) -> Result<f64, Failure> {
        self.status_mib("VmHWM:")
    }

    fn status_mib(&self, field: &str) -> Result<f64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .ok_or_else(|| format!("no {field} in the status of a process"))?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// Processor time used so far, user and system.
    pub fn cpu(&self) -> Result<Duration, Failure> {
        cpu_of(&self.child.id().to_string())
    }

    /// An error if the process has ended.
    pub fn must_run(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("{} ended: {status}", self.what).into()),
        }
    }
}

impl Measured {
    /// Asks the process to end, and waits until it has.
    pub fn end_gracefully(&mut self) -> Result<(), Failure> {
        self.signal(Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Does something while the process is stopped.
    pub fn stopped(&self, act: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        self.signal(Signal::STOP)?;
        let result = act();
        self.signal(Signal::CONT)?;
        result
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let id = rustix::process::Pid::from_child(&self.child);
        Ok(rustix::process::kill_process(id, signal)?)
    }

    /// Ends the process as a crash would.
    pub fn end(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("bench: {} cannot be ended: {error}", self.what);
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.end();
    }
}

/// Processor time that this process has used so far, user and system.
pub fn own_cpu() -> Result<Duration, Failure> {
    cpu_of("self")
}

fn cpu_of(process: &str) -> Result<Duration, Failure> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = stat.rsplit(')').next().ok_or("a malformed stat file")?;
    let mut ticks = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let (Some(Ok(user)), Some(Ok(system))) = (ticks.next(), ticks.next()) else {
        return Err("a malformed stat file".into());
    };
    Ok(Duration::from_secs_f64(
        (user + system) as f64 / CLOCK_TICKS_PER_SECOND,
    ))
}

/// Portolan's own binary, beside this one.
pub fn portolan() -> Result<PathBuf, Failure> {
    let path = std::env::current_exe()?.with_file_name("portolan");
    if path.exists() {
        return Ok(path);
    }
    Err(format!(
        "{} is missing; build it with: cargo build --release -p portolan",
        path.display()
    )
    .into())
}

/// A command that logs to a file below `directory` and nowhere else.
pub fn quiet(mut command: Command, directory: &std::path::Path, name: &str) -> Result<Command, Failure> {
    let log = directory.join(format!("{name}.log"));
    let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}
