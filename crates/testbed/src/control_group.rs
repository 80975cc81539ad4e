//! Control groups of cgroup2 for tests that attach eBPF programs: processes outside of the test are not affected.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// One creation at a time: a control group is for threads only after its second step.
static CREATION: Mutex<()> = Mutex::new(());
/// Prefix of the directories.
const PREFIX: &str = "portolan-test-";
/// Start of this process in nanoseconds. A killed test leaves its control groups, and another one must not enter them.
static STARTED: LazyLock<u128> = LazyLock::new(|| {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    since_epoch.map_or(0, |duration| duration.as_nanos())
});

/// A control group for threads of this process. It is removed with the last guard of its process.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Creates a control group for threads, and moves this process into its parent, which is created with the first one.
    /// `name` is unique in this process, `process` among the tests of the host.
    ///
    /// # Errors
    ///
    /// The error of the file system, if cgroup2 is not mounted or this user may not change it.
    pub fn create(process: &str, name: &str) -> io::Result<Self> {
        let _creation = CREATION.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = mount_point()?.join(directory_name(process));
        if create_directory(&parent)? {
            fs::write(parent.join("cgroup.procs"), "0")?;
        }
        let path = parent.join(name);
        if create_directory(&path)? {
            fs::write(path.join("cgroup.type"), "threaded")?;
        }
        Ok(Self { path })
    }

    /// Moves the calling thread into the control group. Threads that it starts belong to it, too.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub fn enter(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.threads"), "0")
    }

    /// Returns the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves this process back and removes its control groups.
    ///
    /// # Errors
    ///
    /// The error of the file system.
    pub fn remove_all(process: &str) -> io::Result<()> {
        let root = mount_point()?;
        let parent = root.join(directory_name(process));
        fs::write(root.join("cgroup.procs"), "0")?;
        for entry in fs::read_dir(&parent)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                fs::remove_dir(entry.path())?;
            }
        }
        fs::remove_dir(parent)
    }
}

/// Returns the name of the parent of this process's control groups.
fn directory_name(process: &str) -> String {
    format!("{PREFIX}{process}-{}", *STARTED)
}

/// Returns true if the directory is new.
fn create_directory(path: &Path) -> io::Result<bool> {
    match fs::create_dir(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the mount point of cgroup2.
fn mount_point() -> io::Result<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let point = mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let point = words.next()?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(point))
    });
    point.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "cgroup2 is not mounted"))
}
