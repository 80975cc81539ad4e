//! Measured processes: CPU time and memory from `/proc`, signals, logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::Failure;

/// USER_HZ, the unit of times in `/proc`, which is 100 on all architectures (proc_pid_stat(5)).
const CLOCK_TICKS_PER_SECOND: f64 = 100.0;
/// Interval between two checks of a start.
const START_POLL_PERIOD: Duration = Duration::from_millis(10);

/// Measured process; killed when the value is dropped.
pub(crate) struct Measured {
    child: Child,
    name: String,
}

impl Measured {
    /// Takes ownership of a started process; `name` is for errors.
    pub(crate) fn new(name: impl Into<String>, child: Child) -> Self {
        let name = name.into();
        Self { child, name }
    }

    /// Resident memory in MiB.
    pub(crate) fn resident_mib(&self) -> Result<f64, Failure> {
        self.status_mib("VmRSS:")
    }

    /// Peak of resident memory in MiB.
    pub(crate) fn resident_mib_max(&self) -> Result<f64, Failure> {
        self.status_mib("VmHWM:")
    }

    fn status_mib(&self, field: &str) -> Result<f64, Failure> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .ok_or_else(|| format!("/proc/PID/status lacks {field}"))?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse()?;
        Ok(kib / 1024.0)
    }

    /// CPU time so far, user and system.
    pub(crate) fn cpu(&self) -> Result<Duration, Failure> {
        cpu_of(&self.child.id().to_string())
    }

    /// Fails if the process has exited.
    pub(crate) fn must_run(&mut self) -> Result<(), Failure> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(format!("{} exited: {status}", self.name).into()),
        }
    }

    /// Waits until the process has created a file, such as its socket. Fails if it exits.
    pub(crate) fn wait_for_file(&mut self, path: &Path, timeout: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + timeout;
        while !path.exists() {
            self.must_run()?;
            if Instant::now() > deadline {
                return Err(format!("{} does not create {}", self.name, path.display()).into());
            }
            std::thread::sleep(START_POLL_PERIOD);
        }
        Ok(())
    }
}

impl Measured {
    /// Sends SIGTERM and waits for the exit.
    pub(crate) fn terminate(&mut self) -> Result<(), Failure> {
        self.signal(Signal::TERM)?;
        self.child.wait()?;
        Ok(())
    }

    /// Runs `action` while the process is stopped by SIGSTOP.
    pub(crate) fn while_stopped(&self, action: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
        self.signal(Signal::STOP)?;
        let result = action();
        self.signal(Signal::CONT)?;
        result
    }

    fn signal(&self, signal: Signal) -> Result<(), Failure> {
        let id = rustix::process::Pid::from_child(&self.child);
        Ok(rustix::process::kill_process(id, signal)?)
    }

    /// Sends SIGKILL and waits for the exit.
    pub(crate) fn kill(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            eprintln!("bench: failed to kill {}: {error}", self.name);
        }
    }
}

impl Drop for Measured {
    fn drop(&mut self) {
        self.kill();
    }
}

/// CPU time of this process so far, user and system.
pub(crate) fn own_cpu() -> Result<Duration, Failure> {
    cpu_of("self")
}

/// Proportional memory (Pss) of the process with that directory in `/proc`, in MiB. 0 if it has exited.
pub(crate) fn proportional_mib(process: &Path) -> f64 {
    let rollup = fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn cpu_of(process: &str) -> Result<Duration, Failure> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    let fields = stat.rsplit(')').next().ok_or("malformed /proc/PID/stat")?;
    let mut ticks = fields.split_ascii_whitespace().skip(11).map(str::parse::<u64>);
    let (Some(Ok(user)), Some(Ok(system))) = (ticks.next(), ticks.next()) else {
        return Err("malformed /proc/PID/stat".into());
    };
    Ok(Duration::from_secs_f64(
        (user + system) as f64 / CLOCK_TICKS_PER_SECOND,
    ))
}

/// Path of the `portolan` binary, in the directory of this program.
pub(crate) fn portolan() -> Result<PathBuf, Failure> {
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

/// Redirects the output of a command to `NAME.log` in `directory`.
pub(crate) fn with_log(mut command: Command, directory: &Path, name: &str) -> Result<Command, Failure> {
    let log = directory.join(format!("{name}.log"));
    let log = fs::OpenOptions::new().create(true).append(true).open(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    Ok(command)
}
